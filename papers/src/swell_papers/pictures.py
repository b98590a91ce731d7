"""Charts as PNG files; the same chart makes the same bytes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from textwrap import fill, wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import Formatter
from PIL import Image

from swell.sim.picture_style import colour, dashes, mark, plain_text, width
from swell.sim.time_axis import shown_until
from swell_papers.findings import Chart, Panel, Series

#: A picture has a palette: a quarter of the bytes.
NUM_COLOURS = 64
#: Inches. Pages show a picture some eight inches wide: a wider one would have smaller letters.
WIDTH, HEIGHT = 8.0, 4.4
TWO_PANELS_WIDTH = 10.0
PANELS_A_ROW = 2
LETTERS_AN_INCH = 12.0
#: Points: of a title, of all other words, of names at ticks, of those of many ticks.
TITLE, WORDS, TICKS, SMALL = 11, 9, 9, 7.5
#: On a chart with places each further line stands a little further right.
APART = 0.05
#: Letters of a y label in a line.
Y_LABEL_LETTERS = 40
#: Bars have their values above them where there are no more than so many.
MAX_TOLD = 24
#: Letters below an axis by (are there names beside lines, are there two panels in a row); lines of a name at
#: a tick; letters of the width that one aslant takes.
PLACE_LETTERS = {(False, False): 100, (True, False): 84, (False, True): 62, (True, True): 46}
MOST_LINES = 3
LETTERS_ASLANT = 4.8
#: Of a group's place, bars take this share.
BARS_SHARE = 0.8
#: Share of an axis' height up to which a bar is too short to be seen: three pixels.
SHORT = 0.01
#: Room below bars that hang from 0, and around lines, as a share of their height.
MARGIN = 0.05


def draw(chart: Chart, folder: Path) -> Path:
    """Write `NAME.png`. Raises OSError."""
    file, whole = folder / f"{chart.name}.png", BytesIO()
    with plain_text():
        figure_of(chart).savefig(whole, dpi=110)
    image = Image.open(whole).convert("RGB")
    image.quantize(NUM_COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    return file


def figure_of(chart: Chart) -> Figure:
    """Draw the chart; its panels share the y axis."""
    with plain_text():
        return _figure(chart)


def _figure(chart: Chart) -> Figure:
    num_columns = min(len(chart.panels), PANELS_A_ROW)
    num_rows = math.ceil(len(chart.panels) / num_columns)
    size = (WIDTH if num_columns == 1 else TWO_PANELS_WIDTH, HEIGHT * (0.2 + 0.8 * num_rows))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(num_rows, num_columns, squeeze=False, sharey=True).ravel()
    for unused in grid[len(chart.panels) :]:
        unused.set_axis_off()
    all_axes = grid[: len(chart.panels)]
    for axes, panel in zip(all_axes, chart.panels, strict=True):
        _draw_panel(axes, chart, panel)
    _scale(all_axes[0], chart)  # once all panels are drawn, for they share it
    for axes in grid[::num_columns]:
        axes.set_ylabel(fill(chart.y_label, Y_LABEL_LETTERS), fontsize=WORDS)
    _add_legend(figure, chart, all_axes)
    figure.suptitle(chart.title, fontsize=TITLE)
    return figure


def _add_legend(figure: Figure, chart: Chart, all_axes: Iterable[Axes]) -> None:
    """Add the legend, in the order of the series: in one line if they fit, else in columns.

    A series that was not measured has no sign there, and says so.
    """
    handles = {
        label: handle
        for axes in all_axes
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    labels = list(dict.fromkeys(_labels(chart)))
    told = [label if label in handles else f"{label}: not measured" for label in labels]
    lengths = [len(label) + (9 if chart.kind != "bars" else 6) for label in told]
    room = LETTERS_AN_INCH * figure.get_figwidth()
    num_columns = len(told) if sum(lengths) <= room else int(room / max(lengths))
    figure.legend(
        [handles.get(label, Patch(visible=False)) for label in labels],
        told,
        loc="outside lower center",
        ncols=max(num_columns, 1),
        fontsize=WORDS,
        handlelength=4 if chart.kind != "bars" else 2,
    )


def _labels(chart: Chart) -> Iterable[str]:
    """Yield the labels of all series; those of a longer panel keep their places among the others'."""
    for panel in sorted(chart.panels, key=lambda panel: -len(panel.series)):
        yield from (series.label for series in panel.series)


def _scale(axes: Axes, chart: Chart) -> None:
    """Bars stand on 0; lines do, unless they would all lie close together far above it."""
    values = _values(chart)
    if chart.needs_log:
        axes.set_yscale("log")
        axes.set_ylim(0.5 * min(value for value in values if value > 0.0), 1.5 * max(values))
        axes.yaxis.set_major_formatter("{x:g}")
    elif values and (chart.kind != "lines" or min(values) < 0.5 * max(values)):
        least, most = min([0.0, *values]), max([0.0, *values])
        room = MARGIN * (most - least)
        axes.set_ylim(least - (room if least < 0.0 else 0.0), (most + room) or 1.0)


def _values(chart: Chart) -> list[float]:
    """Return the known values of all panels."""
    return [value for panel in chart.panels for series in panel.series for value in _known(series)]


def _known(series: Series) -> list[float]:
    return [value for value in series.values if value is not None]


def _draw_panel(axes: Axes, chart: Chart, panel: Panel) -> None:
    axes.set_axisbelow(True)
    told = [series for series in panel.series if _known(series)]
    if chart.kind == "bars":
        _draw_bars(axes, chart, panel, told)
    else:
        numbers = {label: number for number, label in enumerate(dict.fromkeys(_labels(chart)))}
        for at, series in enumerate(told):
            _draw_line(axes, chart, series, numbers[series.label], at - (len(told) - 1) / 2)
    if chart.kind == "steps":
        _end_axis(axes, chart, told)
    else:
        axes.set_xlim(-0.6, len(chart.x) - 0.4)
        _name_places(axes, chart)
    axes.tick_params(axis="y", labelsize=TICKS)
    axes.set_title(panel.title, fontsize=WORDS)
    axes.set_xlabel(chart.x_label, fontsize=WORDS)
    axes.grid(axis="y", lw=0.3)


# ---------------------------------------------------------------- lines
def _draw_line(axes: Axes, chart: Chart, series: Series, number: int, middle: float) -> None:
    """A value of steps holds until the next x. A line between places that are no numbers is thin."""
    style = {"label": series.label, "color": colour(number), "ls": dashes(number), "lw": width(number)}
    values = [np.nan if value is None else value for value in series.values]
    if chart.kind == "steps":
        axes.step(list(map(float, chart.x)), values, where="post", **style)
        return
    places = np.arange(len(values)) + APART * middle
    if not all(map(_is_number, chart.x)):
        style |= {"lw": 0.7}
    axes.plot(places, values, marker=mark(number), ms=5, **style)


def _is_number(x: str | float) -> bool:
    """`10`, `10 %`, `2x`"""
    try:
        float(str(x).rstrip(" %x"))
    except ValueError:
        return False
    return True


def _end_axis(axes: Axes, chart: Chart, told: Sequence[Series]) -> None:
    """One line that goes on for long does not squeeze the others: where it ends is written."""
    ends = {
        series.label: max(
            float(x) for x, value in zip(chart.x, series.values, strict=True) if value is not None
        )
        for series in told
    }
    last = shown_until(ends.values())
    late = [f"{label} until {end:g}" for label, end in ends.items() if end > last]
    first, last = float(chart.x[0]), last if late else float(chart.x[-1])
    axes.set_xlim(first, max(last, first + 1e-9))
    axes.tick_params(axis="x", labelsize=TICKS)
    if late:
        text = f"{', '.join(late)} →"
        axes.annotate(text, (0.99, 0.02), xycoords="axes fraction", ha="right", fontsize=SMALL)


# ---------------------------------------------------------------- bars
def _draw_bars(axes: Axes, chart: Chart, panel: Panel, told: Sequence[Series]) -> None:
    """Draw the bars that there are at each place, side by side.

    A bar that is too short to be seen has its value there.
    """
    numbers = {label: number for number, label in enumerate(dict.fromkeys(_labels(chart)))}
    has_values = chart.needs_log and len(told) * len(chart.x) <= MAX_TOLD
    wide = BARS_SHARE / max(len(told), 1)
    for series in told:
        places, values = [], []
        for at, value in enumerate(series.values):
            if value is not None:
                here = [one for one in told if one.values[at] is not None]
                places.append(at + wide * (here.index(series) - (len(here) - 1) / 2))
                values.append(value)
        bars = axes.bar(places, values, 0.96 * wide, label=series.label, color=colour(numbers[series.label]))
        if has_values:
            axes.bar_label(bars, fmt="%.3g", fontsize=SMALL)
            continue
        _tell_short_ones(axes, chart, places, values, wide)
    axes.axhline(0.0, color="black", lw=0.6)


def _tell_short_ones(
    axes: Axes, chart: Chart, places: Sequence[float], values: Sequence[float], wide: float
) -> None:
    """Above 0, for there is always room; upright where the value is wider than its bar."""
    all_values = _values(chart)
    short = SHORT * (max([0.0, *all_values]) - min([0.0, *all_values]))
    letters = PLACE_LETTERS[False, len(chart.panels) > 1] * wide / len(chart.x)
    for place, value in zip(places, values, strict=True):
        if abs(value) <= short:
            text = Formatter.fix_minus(f"{value + 0.0:.2g}")  # -0.0 is 0
            axes.annotate(
                text,
                (place, max(value, 0.0)),
                (0.0, 1.0),
                textcoords="offset points",
                ha="center",
                va="bottom",
                rotation=90 if 1 < len(text) > letters else 0,
                fontsize=SMALL,
            )


def _name_places(axes: Axes, chart: Chart) -> None:
    """Numbers as many as fit; names in lines where they fit, else aslant, or upright where there are many."""
    names = [str(x) for x in chart.x]
    letters = PLACE_LETTERS[chart.kind != "bars", len(chart.panels) > 1]
    if all(map(_is_number, chart.x)):
        every = math.ceil((max(map(len, names)) + 1) * len(names) / letters)
        axes.set_xticks(range(0, len(names), every), names[::every], fontsize=TICKS)
        return
    per_name = letters // len(names) - 1
    told = [_in_lines(name, max(per_name, 4)) for name in names]
    if all(len(line) <= per_name for lines in told for line in lines) and max(map(len, told)) <= MOST_LINES:
        axes.set_xticks(range(len(names)), ["\n".join(lines) for lines in told], fontsize=TICKS)
        return
    is_aslant = len(names) <= letters / LETTERS_ASLANT
    axes.set_xticks(range(len(names)), names, fontsize=TICKS if is_aslant else SMALL)
    for label in axes.get_xticklabels():
        if is_aslant:
            label.set(rotation=45, ha="right", rotation_mode="anchor")
        else:
            label.set(rotation=90, ha="center", va="top")


def _in_lines(name: str, letters: int) -> list[str]:
    """Break a name between words into as few lines as there can be, and as short as these can be."""
    lines = wrap(name, letters, break_long_words=False)
    while letters > 1 and len(shorter := wrap(name, letters - 1, break_long_words=False)) == len(lines):
        lines, letters = shorter, letters - 1
    return lines
