"""The picture: devices x time, coloured by job, deadlines marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swell.demo.watch import DeviceSpan
from swell.model.job import Phase
from swell.model.view import JobView
from swell.sim.picture_style import colour

#: Of marks above the devices, in devices.
ABOVE = 0.3


def draw(devices: Sequence[str], spans: Sequence[DeviceSpan], views: Sequence[JobView], file: Path) -> None:
    """Write a PNG. Time begins with the first submission.

    Raises:
        OSError: the file cannot be written.
    """
    opened_s = min(view.submitted_s for view in views)
    colours = {view.name: colour(number) for number, view in enumerate(views)}
    figure = Figure(figsize=(11, 1.8 + 0.4 * max(len(devices), len(views))), layout="constrained")
    axes = figure.subplots()
    rows = {device: row for row, device in enumerate(devices)}
    for span in spans:
        axes.broken_barh(
            [(span.from_s - opened_s, span.to_s - span.from_s)],
            (rows[span.device] - 0.42, 0.84),
            facecolors=colours[span.job],
        )
    for view in views:
        _mark(axes, opened_s, view, colours[view.name], len(devices) - 0.5 + ABOVE)
    axes.plot([], [], "v--", color="grey", label="deadline")
    axes.set_yticks(range(len(devices)), devices)
    axes.set_ylim(top=len(devices) + 2 * ABOVE)
    axes.set_xlabel("seconds since the first submission")
    axes.set_xlim(left=0.0)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.savefig(file, dpi=120)


def _mark(axes: Axes, opened_s: float, view: JobView, colour: str, top: float) -> None:
    """The job in the legend; its deadline as a dashed line, its refusal as a cross above the devices."""
    is_refused = view.phase is Phase.REJECTED
    ending = "refused (x)" if is_refused else str(view.job_class)
    axes.plot([], [], "s", color=colour, markersize=9, label=f"{view.name}, {ending}")
    if is_refused:
        axes.plot(view.submitted_s - opened_s, top, "x", color=colour, markersize=10, mew=3)
    elif view.deadline_s is not None:
        axes.axvline(view.deadline_s - opened_s, color=colour, linestyle="--", linewidth=1.5)
        axes.plot(view.deadline_s - opened_s, top, "v", color=colour, markersize=9)
