"""Jobs over time, a bar each: when each had how many workers, and what became of its deadline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from swell.model.job import Phase
from swell.sim.outcome import JobOutcome, SimOutcome
from swell.sim.picture_style import COLOURS, shortened
from swell.sim.time_axis import ROOM, TimeUnit, shown_until, spoken, unit_of

#: A timeline of more jobs than this is a smear.
MAX_TIMELINE_JOBS = 60
#: A deadline so many times later than the last end is an arrow at the edge.
LATE = 1.5
#: What became of a job that ran.
STATE_COLOURS = {
    "deadline kept": COLOURS[0],
    "deadline missed": COLOURS[6],
    "no deadline": COLOURS[3],
    "has not ended": COLOURS[7],
}
DEADLINE_COLOUR = "black"


def has_run(job: JobOutcome) -> bool:
    """Whether it had a worker at any time."""
    return any(workers for _, workers in job.sizes)


def draw_timeline(outcome: SimOutcome, title: str, file: Path) -> Path:
    """Write the picture, and return its file. Raises OSError."""
    jobs, num_left = _rows(outcome.jobs)
    figure = Figure(figsize=(10, 1.9 + 0.17 * len(jobs)), layout="constrained")
    axes = figure.subplots()
    last_s, cut = _shown(jobs, outcome.end_s)
    unit = unit_of(last_s)
    most = max((size for job in jobs for _, size in job.sizes), default=1)
    for row, job in enumerate(jobs):
        _draw_bar(axes, row, job, most, outcome.end_s, unit)
        _draw_deadline(axes, row, job, last_s, unit)
    axes.set_yticks(range(len(jobs)), list(map(_name, jobs)), fontsize=7)
    axes.set_ylim(max(len(jobs), 1) - 0.4, -0.6)
    axes.set_xlim(0.0, last_s / unit.seconds)
    left = f"; {num_left} refused jobs are left out" if num_left else ""
    axes.set_xlabel(f"{unit.name}; the thicker a bar, the more workers{cut}{left}", fontsize=9)
    axes.set_title(title)
    _add_legend(figure, jobs)
    figure.savefig(file, dpi=120, metadata={"Software": None})
    return file


def _rows(jobs: Sequence[JobOutcome]) -> tuple[list[JobOutcome], int]:
    """Jobs that have run, with the refused ones where there is room for all; and how many are left out."""
    shown = [job for job in jobs if has_run(job) or job.phase is Phase.REJECTED]
    if len(shown) <= MAX_TIMELINE_JOBS:
        return shown, 0
    ran = [job for job in jobs if has_run(job)]
    return ran, len(shown) - len(ran)


def _shown(jobs: Sequence[JobOutcome], run_end_s: float) -> tuple[float, str]:
    """Until when, and what is told of jobs that end later: one much longer than the others is cut off."""
    ends = sorted((job.end_s or run_end_s, shortened(job.id)) for job in jobs if has_run(job))
    last_s = shown_until(end_s for end_s, _ in ends)
    deadlines_s = [job.deadline_s for job in jobs if job.deadline_s is not None]
    if not ends:
        return ROOM * max([1.0, *deadlines_s]), ""
    late = [one for one in ends if one[0] > last_s]
    if late:
        end_s, name = late[-1]
        others = f" and {len(late) - 1} more" if len(late) > 1 else ""
        return last_s, f" (cut: {name}{others} until {spoken(end_s)})"
    return ROOM * max([last_s, *(at_s for at_s in deadlines_s if at_s <= LATE * last_s)]), ""


def _name(job: JobOutcome) -> str:
    return f"{shortened(job.id)}, refused" if job.phase is Phase.REJECTED else shortened(job.id)


def _state(job: JobOutcome) -> str:
    if job.end_s is None:
        return "has not ended"
    if job.is_kept is None:
        return "no deadline"
    return "deadline kept" if job.is_kept else "deadline missed"


def _draw_bar(axes: Axes, row: int, job: JobOutcome, most: int, run_end_s: float, unit: TimeUnit) -> None:
    ends_s = [*(at_s for at_s, _ in job.sizes[1:]), run_end_s if job.end_s is None else job.end_s]
    for (at_s, size), end_s in zip(job.sizes, ends_s, strict=True):
        if size:
            height = 0.15 + 0.75 * np.log2(1 + size) / np.log2(1 + most)
            axes.barh(
                row,
                (end_s - at_s) / unit.seconds,
                left=at_s / unit.seconds,
                height=height,
                color=STATE_COLOURS[_state(job)],
            )


def _draw_deadline(axes: Axes, row: int, job: JobOutcome, last_s: float, unit: TimeUnit) -> None:
    """A tick; an arrow at the edge for one that is later."""
    if job.deadline_s is None:
        return
    if job.deadline_s > last_s:
        axes.plot(last_s / unit.seconds, row, ">", color=DEADLINE_COLOUR, ms=4, clip_on=False)
        return
    at = job.deadline_s / unit.seconds
    axes.plot([at, at], [row - 0.45, row + 0.45], color=DEADLINE_COLOUR, lw=1.2, solid_capstyle="butt")


def _add_legend(figure: Figure, jobs: Sequence[JobOutcome]) -> None:
    """What there is of."""
    states = {_state(job) for job in jobs if has_run(job)}
    handles: list[Patch | Line2D] = [
        Patch(color=colour, label=state) for state, colour in STATE_COLOURS.items() if state in states
    ]
    if any(job.deadline_s is not None for job in jobs):
        tick = Line2D([], [], color=DEADLINE_COLOUR, marker="|", ms=9, mew=1.2, ls="", label="deadline")
        handles.append(tick)
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
