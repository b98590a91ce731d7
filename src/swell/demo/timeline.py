"""The picture: devices x time, coloured by job, deadlines marked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swell.demo.watch import DeviceSpan
from swell.model.job import Phase
from swell.model.view import JobView
from swell.sim.picture_style import colour, plain_text
from swell.sim.time_axis import shown_until

#: Inches.
MOST_HEIGHT = 12.0
#: Of marks above the devices, in devices.
ABOVE = 0.3
#: A deadline so many times later than the last end is an arrow at the edge.
LATE = 1.3


def draw(devices: Sequence[str], spans: Sequence[DeviceSpan], views: Sequence[JobView], file: Path) -> None:
    """Write a PNG. Time begins with the first submission.

    Raises:
        OSError: the file cannot be written.
    """
    with plain_text():
        _figure(devices, spans, views).savefig(file, dpi=120)


def _figure(devices: Sequence[str], spans: Sequence[DeviceSpan], views: Sequence[JobView]) -> Figure:
    opened_s = min(view.submitted_s for view in views)
    colours = {view.name: colour(number) for number, view in enumerate(views)}
    height = max(1.8 + 0.4 * len(devices), 0.6 + 0.27 * len(views))
    figure = Figure(figsize=(11, min(height, MOST_HEIGHT)), layout="constrained")
    axes = figure.subplots()
    rows = {device: row for row, device in enumerate(devices)}
    for span in spans:
        axes.broken_barh(
            [(span.from_s - opened_s, span.to_s - span.from_s)],
            (rows[span.device] - 0.42, 0.84),
            facecolors=colours[span.job],
        )
    ends = _ends(spans, opened_s)
    last_s = shown_until(ends.values())
    late = ", ".join(f"{name} until {end_s:.0f}" for name, end_s in ends.items() if end_s > last_s)
    edge_s = (last_s if late else LATE * last_s) or math.inf
    _mark(axes, opened_s, views, colours, edge_s)
    axes.set_yticks(range(len(devices)), devices)
    axes.set_ylim(top=len(devices) + 2 * ABOVE)
    axes.set_xlabel("seconds since the first submission" + (f" (cut: {late})" if late else ""))
    if late:
        axes.set_xlim(0.0, last_s)
    else:
        axes.set_xlim(left=0.0)
    _legend(axes, views, colours)
    return figure


def _ends(spans: Sequence[DeviceSpan], opened_s: float) -> dict[str, float]:
    """When each job left its last device, since the first submission."""
    ends: dict[str, float] = {}
    for span in spans:
        ends[span.job] = max(ends.get(span.job, 0.0), span.to_s - opened_s)
    return ends


def _mark(
    axes: Axes,
    opened_s: float,
    views: Sequence[JobView],
    colours: Mapping[str, str],
    edge_s: float,
) -> None:
    """Deadlines as dashed lines; refusals as crosses above the devices; later ones as arrows at the edge."""
    top = ABOVE + axes.get_ylim()[1]
    for view in views:
        if view.phase is Phase.REJECTED:
            axes.plot(view.submitted_s - opened_s, top, "x", color=colours[view.name], markersize=10, mew=3)
        elif view.deadline_s is not None:
            after_s = view.deadline_s - opened_s
            if after_s > edge_s:
                axes.plot(edge_s, top, ">", color=colours[view.name], markersize=9, clip_on=False)
                continue
            axes.axvline(after_s, color=colours[view.name], linestyle="--", linewidth=1.5)
            axes.plot(after_s, top, "v", color=colours[view.name], markersize=9)


def _legend(axes: Axes, views: Sequence[JobView], colours: Mapping[str, str]) -> None:
    """The space before a name is none: a label that begins with `_` would be left out."""
    for view in views:
        ending = "refused (x)" if view.phase is Phase.REJECTED else str(view.job_class)
        axes.plot([], [], "s", color=colours[view.name], markersize=9, label=f"\u200b{view.name}, {ending}")
    axes.plot([], [], "v--", color="grey", label="deadline")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
