"""Names of lines beside their ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes

from swell_papers.findings import Chart, Panel, Series

#: Lines have names where there are no more than so many, and none has more letters.
MAX_NAMED = 8
MOST_LETTERS = 26
#: Share of an axis' height that a line of a name takes.
NAME_HEIGHT = 0.045
POINTS = 8


def shown_values(series: Series) -> list[float]:
    """NaN where there is none."""
    return [np.nan if value is None else value for value in series.values]


def name_ends(axes: Axes, chart: Chart, panel: Panel) -> None:
    """One name for lines that end at the same value; none on another."""
    longest = max((len(series.label) for series in panel.series), default=0)
    if not 1 < len(panel.series) <= MAX_NAMED or longest > MOST_LETTERS:
        return
    last_x = axes.get_xlim()[1]
    to_share = (axes.transData + axes.transAxes.inverted()).transform
    named: dict[float, list[str]] = {}
    for series in panel.series:
        shown = [
            value
            for x, value in zip(_x(chart), series.values, strict=True)
            if value is not None and x <= last_x
        ]
        if shown:
            height = round(float(to_share((0.0, shown[-1]))[1]), 3)
            named.setdefault(height, []).append(series.label)
    heights = sorted(named)
    texts = [_together(named[height]) for height in heights]
    sizes = [NAME_HEIGHT * (1 + text.count("\n")) for text in texts]
    for text, at in zip(texts, spread(heights, sizes), strict=True):
        axes.annotate(
            text,
            (1.01, at),
            xycoords="axes fraction",
            va="center",
            fontsize=POINTS,
            annotation_clip=False,
        )


def _together(names: Sequence[str]) -> str:
    """Join the names of lines that end at one height: in one line if they fit, else a line each."""
    whole = " = ".join(names)
    return whole if len(whole) <= MOST_LETTERS else " =\n".join(names)


def spread(middles: Sequence[float], sizes: Sequence[float]) -> list[float]:
    """Ascending middles, moved as little as it takes that none of these sizes covers another.

    Neighbours that are too near become a group around their mean.
    """
    groups: list[tuple[float, list[float]]] = []
    for middle, size in zip(middles, sizes, strict=True):
        groups.append((middle, [size]))
        while len(groups) > 1 and _is_near(*groups[-2:]):
            (low, below), (high, above) = groups[-2:]
            mean = (low * len(below) + high * len(above)) / (len(below) + len(above))
            groups[-2:] = [(mean, below + above)]
    return [place for middle, found in groups for place in _places(middle, found)]


def _is_near(low: tuple[float, list[float]], high: tuple[float, list[float]]) -> bool:
    return high[0] - low[0] < (sum(low[1]) + sum(high[1])) / 2 - 1e-9


def _places(middle: float, sizes: Sequence[float]) -> Iterator[float]:
    at = middle - sum(sizes) / 2
    for size in sizes:
        yield at + size / 2
        at += size


def _x(chart: Chart) -> Sequence[float]:
    return list(map(float, chart.x)) if chart.kind == "steps" else list(map(float, range(len(chart.x))))
