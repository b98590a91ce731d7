"""Curves as a picture, with the number of workers under them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from swell.cli.job_curves import DrawnPoint, JobCurves, has_log_axis, is_by_time, title
from swell.sim.picture_style import colour, dashes, plain_text, shortened, width
from swell.sim.time_axis import TimeUnit, unit_of

#: Inches.
WIDTH, CURVE_HEIGHT, STRIP_HEIGHT = 9.0, 2.6, 0.8
#: Largest value over least one, beyond which a logarithmic axis has a label a decade.
MANY_DECADES = 1000.0
STEPS = TimeUnit("steps", 1.0)


def draw(curves: Sequence[JobCurves], file: Path, is_log: bool) -> None:
    """One part for each metric: its curves, and a strip with the number of workers. Raises OSError."""
    with plain_text():
        _figure(curves, is_log).savefig(file, dpi=120)


def _figure(curves: Sequence[JobCurves], is_log: bool) -> Figure:
    names = list(dict.fromkeys(series.name for one in curves for series in one.series))
    height = len(names) * (CURVE_HEIGHT + STRIP_HEIGHT)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    ratios = [CURVE_HEIGHT, STRIP_HEIGHT] * len(names)
    parts = figure.subplots(2 * len(names), height_ratios=ratios, squeeze=False)[:, 0]
    for number, name in enumerate(names):
        _draw_metric(parts[2 * number], parts[2 * number + 1], name, curves, is_log)
    return figure


def _draw_metric(above: Axes, below: Axes, name: str, curves: Sequence[JobCurves], is_log: bool) -> None:
    by_time = is_by_time(curves, name)
    shown = [
        (number, one, points) for number, one in enumerate(curves) if (points := one.points(name, by_time))
    ]
    unit = unit_of(max((points[-1].x for *_, points in shown), default=0.0)) if by_time else STEPS
    for number, one, points in shown:
        _draw_curve(above, number, one.job_id, points, unit)
        _draw_sizes(above, below, one.sizes(name, by_time), points[-1].x, number, unit, len(shown) == 1)
    values = [point for *_, points in shown for point in points]
    if has_log_axis(values, is_log):
        _set_log(above, [point.mean for point in values if point.mean is not None])
    above.set_title(title(name, curves), loc="left", fontsize=10)
    above.legend(fontsize=8, handlelength=4)
    below.sharex(above)
    above.tick_params(labelbottom=False)
    below.set_ylim(bottom=0)
    below.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    below.set_ylabel("workers", fontsize=8)
    below.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=unit is STEPS))
    below.set_xlabel(unit.name, fontsize=8)


def _set_log(axes: Axes, values: Sequence[float]) -> None:
    """A label a decade, or three where there are few decades."""
    axes.set_yscale("log")
    has_many = max(values) > MANY_DECADES * min(values)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0,) if has_many else (1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _draw_curve(axes: Axes, number: int, job_id: str, points: Sequence[DrawnPoint], unit: TimeUnit) -> None:
    """The mean, and its range. A point between two gaps is a dot."""
    xs, means = [point.x / unit.seconds for point in points], [_number(point.mean) for point in points]
    lows, highs = [_number(point.low) for point in points], [_number(point.high) for point in points]
    known = [False, *(point.mean is not None for point in points), False]
    alone = [at for at in range(len(points)) if known[at + 1] and not known[at] and not known[at + 2]]
    axes.fill_between(xs, lows, highs, color=colour(number), alpha=0.2, lw=0)
    axes.plot(
        xs,
        means,
        color=colour(number),
        lw=width(number),
        ls=dashes(number),
        marker="o" if alone else "",
        ms=3,
        markevery=alone,
        label=f"\u200b{shortened(job_id)}",  # "_..." would be left out
    )


def _draw_sizes(
    above: Axes,
    below: Axes,
    sizes: Sequence[tuple[float, int]],
    end: float,
    number: int,
    unit: TimeUnit,
    is_only: bool,
) -> None:
    """A line of steps; where the job is the only one, changes are marked in its curve, too."""
    xs, workers = [x / unit.seconds for x, _ in sizes], [workers for _, workers in sizes]
    below.step(
        [*xs, end / unit.seconds],
        [*workers, workers[-1]],
        where="post",
        color=colour(number),
        lw=width(number),
        ls=dashes(number),
        marker="" if end > sizes[0][0] else "o",
        ms=3,
    )
    for x in xs[1:] if is_only else ():
        above.axvline(x, color="grey", lw=0.6, ls=":")


def _number(value: float | None) -> float:
    """A gap where there is none."""
    return float("nan") if value is None else value
