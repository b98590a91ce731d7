"""What is shown while the demo runs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from swell.model.counted import told_workers
from swell.model.job import Phase
from swell.model.view import JobView

COLOURS = {
    Phase.QUEUED: "yellow",
    Phase.STARTING: "cyan",
    Phase.RUNNING: "green",
    Phase.STOPPING: "cyan",
    Phase.SUCCEEDED: "bright_black",
    Phase.ENDED_EARLY: "red",
    Phase.FAILED: "red",
    Phase.CANCELLED: "red",
    Phase.REJECTED: "magenta",
}


def board(views: Sequence[JobView], num_devices: int, opened_s: float, now_s: float) -> Group:
    """One line a job: class, phase, workers as a bar, progress, loss, time left to its deadline."""
    made = Table(box=None, pad_edge=False)
    for heading in ("job", "class", "phase", "workers"):
        made.add_column(heading, no_wrap=True)
    for heading in ("done", "loss", "time left"):
        made.add_column(heading, justify="right", no_wrap=True)
    for view in views:
        colour = COLOURS[view.phase]
        made.add_row(
            view.name,
            str(view.job_class),
            Text(_state(view), style=colour),
            Text(f"{'█' * len(view.devices):<{num_devices}} {view.workers or ''}", style=colour),
            f"{view.steps / view.total_steps:.0%}" if view.total_steps else "",
            "" if view.loss is None else f"{view.loss:.3f}",
            _time_left(view, now_s),
        )
    used = sum(len(view.devices) for view in views)
    return Group(f"{now_s - opened_s:5.1f} s   {used} of {num_devices} devices at work", made)


def _time_left(view: JobView, now_s: float) -> str:
    if view.deadline_s is None or view.phase.is_end:
        return ""
    return f"{view.deadline_s - now_s:.0f} s"


def changes(before: Sequence[JobView], after: Sequence[JobView]) -> list[str]:
    """A line for each job that is new, or whose state or number of workers is another than before."""
    known = {view.id: (_state(view), view.workers) for view in before}
    return [_line(view) for view in after if known.get(view.id) != (_state(view), view.workers)]


def _line(view: JobView) -> str:
    if view.phase.is_end or not view.workers:
        return f"{view.name}: {_state(view)}"
    workers = told_workers(view.workers)
    done = f", {view.steps / view.total_steps:.0%} done" if view.total_steps else ""
    return f"{view.name}: {view.phase} on {workers}{done}"


def _state(view: JobView) -> str:
    """The phase, and for a job that waits what for."""
    return f"{view.phase}, {view.reason_code}" if view.phase is Phase.QUEUED else str(view.phase)
