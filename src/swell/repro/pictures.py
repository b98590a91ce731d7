"""Charts as PNG files; the same chart makes the same bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swell.repro.findings import Chart, Panel, Series
from swell.sim.time_axis import shown_until

Colour = tuple[float, float, float, float]

#: Inches: of a picture, of each further panel in a row, of a row, and of a place where there are many.
WIDTH, PANEL_WIDTH, HEIGHT, PLACE_WIDTH = 8.0, 4.0, 4.4, 0.3
PANELS_A_ROW = 3
LEGEND_COLUMNS = 4
#: Lines that lie on each other are all seen: each further one is thinner, broken in a way of its own, has a
#: mark of its own, and on a chart with places stands a little further right.
DASHES = ("-", *((0, dashes) for dashes in ((5, 2), (1.5, 1.5), (6, 1.5, 1.5, 1.5), (3, 3), (9, 2), (1, 3))))
MARKS = "os^DvPX"
APART = 0.05
#: Lines have their names beside their ends where there are no more than so many.
MAX_NAMED = 8
#: Share of an axis' height between two names.
NAME_HEIGHT = 0.055
#: Bars have their values above them where there are no more than so many.
MAX_TOLD = 24


def draw(chart: Chart, folder: Path) -> Path:
    """Write `NAME.png`. Raises OSError."""
    file = folder / f"{chart.name}.png"
    figure_of(chart).savefig(file, dpi=110, metadata={"Software": None})
    return file


def figure_of(chart: Chart) -> Figure:
    """Draw the chart; its panels share the y axis."""
    num_columns = min(len(chart.panels), PANELS_A_ROW)
    num_rows = math.ceil(len(chart.panels) / num_columns)
    width = max(WIDTH, PLACE_WIDTH * len(chart.x)) if chart.kind != "steps" else WIDTH
    size = (width + PANEL_WIDTH * (num_columns - 1), HEIGHT * (0.15 + 0.85 * num_rows))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(num_rows, num_columns, squeeze=False, sharey=True).ravel()
    for unused in grid[len(chart.panels) :]:
        unused.set_axis_off()
    all_axes = grid[: len(chart.panels)]
    for axes, panel in zip(all_axes, chart.panels, strict=True):
        _draw_panel(axes, chart, panel)
    _scale(all_axes[0], chart)  # once all panels are drawn, for they share it
    for axes, panel in zip(all_axes, chart.panels, strict=True):
        if chart.kind != "bars" and 1 < len(panel.series) <= MAX_NAMED:
            _name_ends(axes, chart, panel)
    for axes in grid[::num_columns]:
        axes.set_ylabel(chart.y_label, fontsize=8)
    _add_legend(figure, all_axes)
    figure.suptitle(chart.title, fontsize=10)
    return figure


def _add_legend(figure: Figure, all_axes: Iterable[Axes]) -> None:
    handles = {
        label: handle
        for axes in all_axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    num_columns = min(len(handles), LEGEND_COLUMNS) or 1
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=num_columns,
        fontsize=8,
        handlelength=4,
    )


def _scale(axes: Axes, chart: Chart) -> None:
    """Bars stand on 0; lines do, unless they would all lie close together far above it."""
    values = [value for panel in chart.panels for series in panel.series for value in _known(series)]
    if chart.needs_log:
        axes.set_yscale("log")
        axes.set_ylim(0.5 * min(value for value in values if value > 0.0), 1.5 * max(values))
        axes.yaxis.set_major_formatter("{x:g}")
    elif chart.kind == "bars" or (chart.kind == "lines" and values and min(values) < 0.5 * max(values)):
        axes.set_ylim(bottom=min([0.0, *values]))


def _known(series: Series) -> list[float]:
    return [value for value in series.values if value is not None]


def _draw_panel(axes: Axes, chart: Chart, panel: Panel) -> None:
    told = [series for series in panel.series if _known(series)]
    numbers = {series.label: at for at, series in enumerate(panel.series)}
    for at, series in enumerate(told):
        number = numbers[series.label]
        if chart.kind == "bars":
            middle = (at - (len(told) - 1) / 2) / len(told)
            _draw_bars(axes, series, middle, 1 / len(told), _colour(number))
        else:
            _draw_line(axes, chart, series, number, at - (len(told) - 1) / 2)
    if chart.kind == "steps":
        _end_axis(axes, chart, told)
    else:
        _name_places(axes, [str(x) for x in chart.x])
    if chart.needs_log and chart.kind == "bars" and len(told) * len(chart.x) <= MAX_TOLD:
        for bars in axes.containers:
            axes.bar_label(bars, fmt="%.3g", fontsize=7)  # type: ignore[arg-type]
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(chart.x_label)
    axes.grid(axis="y", lw=0.3)


def _colour(number: int) -> Colour:
    return mpl.colormaps["tab10"](number % 10)


def _draw_line(axes: Axes, chart: Chart, series: Series, number: int, middle: float) -> None:
    dashes: Any = DASHES[number % len(DASHES)]
    width = max(1.3, 2.8 - 0.3 * number)
    if chart.kind == "steps":
        x = list(map(float, chart.x))
        axes.step(x, _numbers(series), label=series.label, color=_colour(number), lw=width, ls=dashes)
        return
    places = np.arange(len(series.values)) + APART * middle
    mark = MARKS[number % len(MARKS)]
    axes.plot(
        places,
        _numbers(series),
        label=series.label,
        color=_colour(number),
        lw=width,
        ls=dashes,
        marker=mark,
        ms=4,
    )


def _draw_bars(axes: Axes, series: Series, middle: float, width: float, colour: Colour) -> None:
    """Eight tenths of the space between two groups are bars."""
    at = np.arange(len(series.values)) + 0.8 * middle
    axes.bar(at, _numbers(series), 0.8 * width, label=series.label, color=colour)


def _name_places(axes: Axes, names: Sequence[str]) -> None:
    longest = max(map(len, names))
    rotation = 0 if longest <= 4 or longest * len(names) <= 60 else 45 if len(names) <= 20 else 90
    anchor = "right" if rotation == 45 else "center"
    axes.set_xticks(
        range(len(names)), list(names), fontsize=8, rotation=rotation, ha=anchor, rotation_mode="anchor"
    )
    if rotation == 90:
        axes.tick_params(axis="x", labelsize=7)
        for label in axes.get_xticklabels():
            label.set(ha="right", va="center")


def _ends(chart: Chart, told: Iterable[Series]) -> dict[str, float]:
    """x of each series' last value."""
    return {
        series.label: max(
            float(x) for x, value in zip(chart.x, series.values, strict=True) if value is not None
        )
        for series in told
    }


def _end_axis(axes: Axes, chart: Chart, told: Sequence[Series]) -> None:
    """One line that goes on for long does not squeeze the others: where it ends is written."""
    ends = _ends(chart, told)
    last = shown_until(ends.values())
    late = [f"{label} until {end:g}" for label, end in ends.items() if end > last]
    if late:
        axes.set_xlim(right=last)
        text = f"{', '.join(late)} →"
        axes.annotate(text, (1.0, 0.02), xycoords="axes fraction", ha="right", fontsize=7)


def _name_ends(axes: Axes, chart: Chart, panel: Panel) -> None:
    """Names at the ends of lines; one for lines that end at the same value; none above another."""
    least, most = axes.get_ylim()
    last_x = axes.get_xlim()[1]
    heights: dict[str, list[str]] = {}
    for series in panel.series:
        shown = [
            value
            for x, value in zip(_x(chart), series.values, strict=True)
            if value is not None and x <= last_x
        ]
        if shown:
            heights.setdefault(f"{(shown[-1] - least) / (most - least):.3f}", []).append(series.label)
    free = 0.0
    for height, labels in sorted(heights.items(), key=lambda item: float(item[0])):
        at = max(free, float(height))
        axes.annotate(
            " = ".join(labels),
            (1.01, at),
            xycoords="axes fraction",
            va="center",
            fontsize=7,
            annotation_clip=False,
        )
        free = at + NAME_HEIGHT


def _x(chart: Chart) -> Sequence[float]:
    return list(map(float, chart.x)) if chart.kind == "steps" else list(map(float, range(len(chart.x))))


def _numbers(series: Series) -> list[float]:
    return [np.nan if value is None else value for value in series.values]
