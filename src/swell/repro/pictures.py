"""Charts as PNG files; the same chart makes the same bytes."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swell.repro.findings import Chart, Panel, Series

#: Inches: of a picture, and of each further panel.
WIDTH, PANEL_WIDTH, HEIGHT = 8.0, 4.0, 4.4
LEGEND_COLUMNS = 4


def draw(chart: Chart, folder: Path) -> Path:
    """Write `NAME.png`. Raises OSError."""
    file = folder / f"{chart.name}.png"
    figure_of(chart).savefig(file, dpi=110, metadata={"Software": None})
    return file


def figure_of(chart: Chart) -> Figure:
    """Draw the chart; its panels share the y axis."""
    size = (WIDTH + PANEL_WIDTH * (len(chart.panels) - 1), HEIGHT)
    figure = Figure(figsize=size, layout="constrained")
    all_axes = figure.subplots(1, len(chart.panels), squeeze=False, sharey=True)[0]
    for axes, panel in zip(all_axes, chart.panels, strict=True):
        _draw_panel(axes, chart, panel)
    if chart.kind != "steps":
        all_axes[0].set_ylim(bottom=0.0)  # once all panels are drawn, for they share it
    all_axes[0].set_ylabel(chart.y_label, fontsize=8)
    handles = {
        label: handle
        for axes in all_axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    num_columns = min(len(handles), LEGEND_COLUMNS)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=num_columns, fontsize=8)
    figure.suptitle(chart.title, fontsize=10)
    return figure


def _draw_panel(axes: Axes, chart: Chart, panel: Panel) -> None:
    told = [series for series in panel.series if any(value is not None for value in series.values)]
    colours = {series.label: mpl.colormaps["tab10"](at % 10) for at, series in enumerate(panel.series)}
    for at, series in enumerate(told):
        colour = colours[series.label]
        if chart.kind == "bars":
            _draw_bars(axes, series, (at - (len(told) - 1) / 2) / len(told), 1 / len(told), colour)
        elif chart.kind == "lines":
            axes.plot(range(len(chart.x)), _numbers(series), "o-", label=series.label, color=colour, ms=3)
        else:
            axes.step(list(map(float, chart.x)), _numbers(series), label=series.label, color=colour, lw=1)
    if chart.kind != "steps":
        is_long = max(map(len, map(str, chart.x))) > 4
        axes.set_xticks(
            range(len(chart.x)), list(map(str, chart.x)), fontsize=8, rotation=45 if is_long else 0
        )
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel(chart.x_label)
    axes.grid(axis="y", lw=0.3)


def _draw_bars(
    axes: Axes, series: Series, middle: float, width: float, colour: tuple[float, float, float, float]
) -> None:
    """Eight tenths of the space between two groups are bars."""
    at = np.arange(len(series.values)) + 0.8 * middle
    axes.bar(at, _numbers(series), 0.8 * width, label=series.label, color=colour)


def _numbers(series: Series) -> list[float]:
    return [np.nan if value is None else value for value in series.values]
