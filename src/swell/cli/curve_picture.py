"""Curves as a picture, with the number of workers under them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from swell.cli.job_curves import JobCurves, has_log_axis, is_by_time, title

#: Inches.
WIDTH, CURVE_HEIGHT, STRIP_HEIGHT = 9.0, 2.6, 0.8


def draw(curves: Sequence[JobCurves], file: Path, is_log: bool) -> None:
    """One part for each metric: its curves, and a strip with the number of workers. Raises OSError."""
    names = list(dict.fromkeys(series.name for one in curves for series in one.series))
    height = len(names) * (CURVE_HEIGHT + STRIP_HEIGHT)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    ratios = [CURVE_HEIGHT, STRIP_HEIGHT] * len(names)
    parts = figure.subplots(2 * len(names), height_ratios=ratios, squeeze=False)[:, 0]
    for number, name in enumerate(names):
        _draw_metric(parts[2 * number], parts[2 * number + 1], name, curves, is_log)
    figure.savefig(file, dpi=120)


def _draw_metric(above: Axes, below: Axes, name: str, curves: Sequence[JobCurves], is_log: bool) -> None:
    by_time = is_by_time(curves, name)
    shown = [
        (number, one, points) for number, one in enumerate(curves) if (points := one.points(name, by_time))
    ]
    for number, one, points in shown:
        colour = mpl.colormaps["tab10"](number % 10)
        xs, means = [point.x for point in points], [_number(point.mean) for point in points]
        lows, highs = [_number(point.low) for point in points], [_number(point.high) for point in points]
        above.fill_between(xs, lows, highs, color=colour, alpha=0.2, lw=0)
        above.plot(xs, means, color=colour, lw=1.2, label=f"\u200b{one.job_id}")  # "_..." would be left out
        _draw_sizes(above, below, one.sizes(name, by_time), xs[-1], colour, is_only=len(shown) == 1)
    if has_log_axis([point for _, _, points in shown for point in points], is_log):
        above.set_yscale("log")
    above.set_title(title(name, curves), loc="left", fontsize=10, parse_math=False)
    for text in above.legend(fontsize=8).get_texts():
        text.set_parse_math(False)
    below.sharex(above)
    above.tick_params(labelbottom=False)
    below.set_ylim(bottom=0)
    below.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    below.set_ylabel("workers", fontsize=8)
    below.set_xlabel("seconds" if by_time else "steps", fontsize=8)


def _draw_sizes(
    above: Axes,
    below: Axes,
    sizes: Sequence[tuple[float, int]],
    end: float,
    colour: tuple[float, float, float, float],
    is_only: bool,
) -> None:
    """A line of steps; where the job is the only one, changes are marked in its curve, too."""
    xs, workers = [x for x, _ in sizes], [workers for _, workers in sizes]
    below.step([*xs, end], [*workers, workers[-1]], where="post", color=colour, lw=1.2)
    for x in xs[1:] if is_only else ():
        above.axvline(x, color="grey", lw=0.6, ls=":")


def _number(value: float | None) -> float:
    """A gap where there is none."""
    return float("nan") if value is None else value
