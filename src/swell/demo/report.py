"""What happens and what came of it, as pure functions of what the platform shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swell.demo.schedule import DemoJob
from swell.model.counted import told_workers
from swell.model.failure import why_failed
from swell.model.job import JobClass, MetricTarget, Phase
from swell.model.view import JobView


def final_loss(view: JobView) -> float | None:
    """Loss on held-out data where the script reports it, else of the last training steps."""
    return view.metrics.get("held_out_loss", view.loss)


def verdict(parts: Mapping[str, DemoJob], views: Sequence[JobView]) -> list[str]:
    """Every promise that was not kept and every model that did not learn, a sentence each; empty is good.

    Args:
        parts: by name, all that was submitted.
    """
    shown = {view.name: view for view in views}
    failures = []
    for name, part in parts.items():
        view = shown.get(name)
        failures += [f"{name}: the platform does not know it"] if view is None else _failures(part, view)
    return failures


def _failures(part: DemoJob, view: JobView) -> list[str]:
    if view.phase is Phase.REJECTED and part.second_try:
        return [] if view.counter_offer_s else [f"{part.name}: refused without a counter-offer"]
    if view.phase is not Phase.SUCCEEDED:
        return [f"{part.name}: {view.phase} instead of succeeded: {why_failed(view)}"]
    failures = []
    if view.job_class is JobClass.STRICT and not view.kept:
        failures.append(f"{part.name}: finished {_late_s(view):.1f} s after the promised deadline")
    reached = view.metrics.get(part.bar.name)
    if reached is None:
        failures.append(f"{part.name}: reported no {part.bar.name}, must reach {part.bar}")
    elif not part.bar.is_met_by(reached):
        failures.append(
            f"{part.name}: learned too little, {part.bar.name}={reached:.4g}, must reach {part.bar}"
        )
    return failures


def _late_s(view: JobView) -> float:
    return (view.finished_s or 0.0) - (view.deadline_s or 0.0)


def as_json(devices: str, is_paced: bool, views: Sequence[JobView]) -> dict[str, Any]:
    """The same for programs. Times are seconds since 1970; `final_loss` as in `final_loss`."""
    return {"cluster": {"devices": devices, "paced": is_paced}, "jobs": [_job_json(view) for view in views]}


#: Fields of a view that are in the JSON as they are.
FIELDS = (
    *("id", "name", "phase", "submitted_s", "deadline_s", "finished_s", "kept", "counter_offer_s"),
    *("sizes", "pids", "resizes", "resize_pause_s"),
)


def _job_json(view: JobView) -> dict[str, Any]:
    shown = {name: getattr(view, name) for name in FIELDS} | {"class": view.job_class}
    return shown | {"final_loss": final_loss(view), "final_accuracy": view.metrics.get("accuracy")}


#: Of the table. Times are seconds after the job's own submission.
HEADINGS = (
    *("JOB", "CLASS", "DEADLINE", "FINISHED", "KEPT?", "SIZES", "RESIZES", "LOST IN RESIZES"),
    *("LOSS", "ACCURACY"),
)


def rows(parts: Mapping[str, DemoJob], views: Sequence[JobView]) -> list[tuple[str, ...]]:
    """Rows of the table of jobs. What a job has learned is shown with the bar that it had to reach."""
    return [_cells(parts.get(view.name), view) for view in views]


def _cells(part: DemoJob | None, view: JobView) -> tuple[str, ...]:
    is_refused = view.phase is Phase.REJECTED
    bar = None if part is None or is_refused else part.bar
    return (
        view.name,
        str(view.job_class),
        _after(view.deadline_s, view),
        "" if is_refused else _after(view.finished_s, view),
        _kept(view),
        path(view.sizes),
        "" if is_refused else str(view.resizes),
        "" if is_refused else f"{view.resize_pause_s:.2f} s",
        _learned(final_loss(view), ".3f", bar if bar and bar.name != "accuracy" else None),
        _learned(view.metrics.get("accuracy"), ".1%", bar if bar and bar.name == "accuracy" else None),
    )


def _learned(value: float | None, form: str, bar: MetricTarget | None) -> str:
    if value is None:
        return ""
    beside = "" if bar is None else f" {'≥' if bar.at_least else '≤'}{_short(bar)}"
    return format(value, form) + beside


def _short(bar: MetricTarget) -> str:
    return f"{bar.value:.0%}" if bar.name == "accuracy" else f"{bar.value:g}"


def _after(at_s: float | None, view: JobView) -> str:
    return "" if at_s is None else f"{at_s - view.submitted_s:.1f} s"


def _kept(view: JobView) -> str:
    if view.phase is Phase.REJECTED:
        offer = _after(view.counter_offer_s, view)
        return f"refused, {offer} offered" if offer else "refused"
    if view.phase is not Phase.SUCCEEDED:
        return str(view.phase)
    return {True: "yes", False: "no", None: "-"}[view.kept]


def path(sizes: Sequence[tuple[float, int]]) -> str:
    """The worker counts a job went through while it held any: 8→4→8."""
    counts = [workers for _, workers in sizes if workers > 0]
    return "→".join(str(now) for now, before in zip(counts, [0, *counts], strict=False) if now != before)


def changes(before: Sequence[JobView], after: Sequence[JobView]) -> list[str]:
    """A line for each job that is new, or whose state or number of workers is another than before."""
    known = {view.id: (_state(view), view.workers) for view in before}
    return [_line(view) for view in after if known.get(view.id) != (_state(view), view.workers)]


def _line(view: JobView) -> str:
    if view.phase.is_end or not view.workers:
        return f"{view.name}: {_state(view)}"
    done = f", {view.steps / view.total_steps:.0%} done" if view.total_steps else ""
    return f"{view.name}: {view.phase} on {told_workers(view.workers)}{done}"


def _state(view: JobView) -> str:
    """The phase, and for a job that waits what for."""
    return f"{view.phase}, {view.reason_code}" if view.phase is Phase.QUEUED else str(view.phase)
