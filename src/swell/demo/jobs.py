"""The jobs of the demo: who comes when, and what came of it, as functions of what the platform shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from swell.model.deadline_state import is_measured
from swell.model.failure import why_failed
from swell.model.job import JobClass, MetricTarget, Phase
from swell.model.quantities import told_workers
from swell.model.view import JobView

#: Of the table. Times are seconds after the job's own submission.
HEADINGS = (
    *("JOB", "CLASS", "DEADLINE", "FINISHED", "KEPT?", "SIZES", "RESIZES", "LOST IN RESIZES"),
    *("LOSS", "ACCURACY"),
)
LEGEND = (
    "LOSS is of held-out data (of the cnn jobs: of their last training steps), ACCURACY of held-out images.\n"
    "Behind ≤ or ≥ stands what the model had to reach."
)
NUM_DEVICES = 8
#: Samples a paced device takes each second: eight of them are no more than two slow cores can do.
PACE_PER_S = 100.0
PACED_DEVICES = f"paced:1x{NUM_DEVICES}@{PACE_PER_S:g}"  #: one node
#: An offer is what could be promised at that instant. Others do not stand still, so a second try allows more.
SECOND_TRY_SLACK_S = 5.0


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
        late_s = (view.finished_s or 0.0) - (view.deadline_s or 0.0)
        failures.append(f"{part.name}: finished {late_s:.1f} s after the promised deadline")
    reached = view.metrics.get(part.bar.name)
    if reached is None:
        failures.append(f"{part.name}: reported no {part.bar.name}, must reach {part.bar}")
    elif not part.bar.is_met_by(reached):
        failures.append(
            f"{part.name}: learned too little, {part.bar.name}={reached:.4g}, must reach {part.bar}"
        )
    return failures


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


#: Training scripts of this package: the file, and its first arguments.
CNN, VAE = ("cnn.py",), ("vae.py",)
GRU, TRANSFORMER = ("letters.py", "--model", "gru"), ("letters.py", "--model", "transformer")
#: Their global batches.
BATCHES = {CNN: 96, VAE: 96, GRU: 64, TRANSFORMER: 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJob:
    """One job of the cast."""

    at_s: float  #: submitted so long after the trial run of the first job, which comes at once
    name: str
    script: tuple[str, ...]  #: file name and arguments
    epochs: int
    bar: MetricTarget  #: what the trained model must reach
    deadline_after_s: float | None = None  #: after its submission
    is_soft: bool = False  #: its deadline is not to be promised
    second_try: str | None = None  #: if it is refused, submit it again by the offer, under this name


def _accuracy(value: float) -> MetricTarget:
    return MetricTarget(name="accuracy", value=value)


def _loss(nats: float) -> MetricTarget:
    return MetricTarget(name="held_out_loss", value=nats, at_least=False)


#: Work is in device-seconds at PACE_PER_S. Bars leave room: what seeds 0 to 2 reach alone stands beside each.
CAST = (
    # Alone at first, so it has the whole cluster; gives way to promises and grows again. 144 d-s.
    # 25.2 to 25.4.
    DemoJob(at_s=0, name="vae-large", script=VAE, epochs=10, bar=_loss(25.8)),
    # 86 d-s in 55 s, of which a trial run takes some: two devices are too few. 0.942 to 0.961.
    DemoJob(at_s=6, name="cnn-review", script=CNN, epochs=6, bar=_accuracy(0.92), deadline_after_s=55),
    # 82 d-s in a minute, but promises come first. 1.74 to 1.76.
    DemoJob(
        at_s=14, name="gru-draft", script=GRU, epochs=2, bar=_loss(1.9), deadline_after_s=60, is_soft=True
    ),
    # 86 d-s in 10 s: all eight devices would need 11. Refused, with an offer.
    DemoJob(
        at_s=24,
        name="cnn-rush",
        script=CNN,
        epochs=6,
        bar=_accuracy(0.92),
        deadline_after_s=10,
        second_try="cnn-second-try",
    ),
    # 123 d-s. 2.12 to 2.22.
    DemoJob(at_s=30, name="transformer", script=TRANSFORMER, epochs=3, bar=_loss(2.4)),
    # 82 d-s in 80 s, on a cluster with promises to keep: others shrink for it. 1.74 to 1.76.
    DemoJob(at_s=40, name="gru-release", script=GRU, epochs=2, bar=_loss(1.9), deadline_after_s=80),
    # 57 d-s. 26.5 to 26.9.
    DemoJob(at_s=48, name="vae-small", script=VAE, epochs=4, bar=_loss(27.5)),
    # 72 d-s in 75 s. 0.928 to 0.939.
    DemoJob(at_s=55, name="cnn-nightly", script=CNN, epochs=5, bar=_accuracy(0.9), deadline_after_s=75),
)


#: A part whose time has come, and its deadline in seconds since 1970.
Submission = tuple[DemoJob, float | None]


class DemoSchedule:
    """Says what is to be submitted now, each thing once.

    The first part comes at once, and alone until its trial run is over: on a machine on which nothing has run
    yet the import of torch alone may take half a minute, in which no job has a promise.
    """

    def __init__(self, cast: Sequence[DemoJob]) -> None:
        self._waiting = sorted(cast, key=lambda part: part.at_s)
        self._tried_out_s: float | None = None  # when the trial run of the first part was over
        self._may_be_refused = {part.name: part for part in cast if part.second_try}
        self.played: dict[str, DemoJob] = {}  #: name -> part, of all that was submitted

    def due(self, now_s: float, views: Sequence[JobView]) -> list[Submission]:
        """What has come due, and second tries of what `views` show as refused with a counter-offer."""
        submissions: list[Submission] = []
        if not self.played:
            submissions.append(self._submission(now_s))
        elif self._tried_out_s is None and any(is_measured(view) or view.phase.is_end for view in views):
            self._tried_out_s = now_s
        if self._tried_out_s is not None:
            while self._waiting and self._tried_out_s + self._waiting[0].at_s <= now_s:
                submissions.append(self._submission(now_s))
        submissions += self._second_tries(views)
        self.played.update({part.name: part for part, _ in submissions})
        return submissions

    def _submission(self, now_s: float) -> Submission:
        """Submit the next part."""
        part = self._waiting.pop(0)
        after_s = part.deadline_after_s
        return part, None if after_s is None else now_s + after_s

    def _second_tries(self, views: Sequence[JobView]) -> list[Submission]:
        tries: list[Submission] = []
        for view in views:
            if view.name not in self._may_be_refused or not view.phase.is_end:
                continue
            part = self._may_be_refused.pop(view.name)
            if view.phase is Phase.REJECTED and view.counter_offer_s is not None and part.second_try:
                again = replace(part, name=part.second_try, second_try=None)
                tries.append((again, view.counter_offer_s + SECOND_TRY_SLACK_S))
        return tries

    def is_over(self, views: Sequence[JobView]) -> bool:
        """Everything was submitted and has ended."""
        ended = {view.name for view in views if view.phase.is_end}
        return not self._waiting and self.played.keys() <= ended
