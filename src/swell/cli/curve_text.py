"""Curves in the terminal, drawn by plotext."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import plotext

from swell.cli.job_curves import DrawnPoint, JobCurves, has_log_axis, is_by_time, number_text, title

#: Lines of a chart of values, and of the chart of workers under it.
HEIGHT, WORKERS_HEIGHT = 16, 7
LEAST_WIDTH = 40
#: Magnitudes that plotext can label; others are drawn at the next of these, or at 0.
LEAST, MOST = 1e-290, 1e290
#: What a terminal without UTF-8 shows in place of frames.
PLAIN = str.maketrans("┌┐└┘─│┤├┬┴┼", "++++-||||++")


@dataclass(frozen=True, slots=True)
class Style:
    """What a terminal can show."""

    width: int
    is_unicode: bool
    is_log: bool  #: a logarithmic axis is wanted

    @classmethod
    def for_encoding(cls, encoding: str | None, width: int, is_log: bool) -> Style:
        """Plain ASCII where the terminal has no UTF-8."""
        is_unicode = (encoding or "").lower().replace("-", "").startswith("utf8")
        return cls(max(width, LEAST_WIDTH), is_unicode, is_log)

    def marks(self, num_jobs: int) -> str | list[str]:
        """The marker of each curve: one job is drawn in Braille, which has eight dots in a letter."""
        if not self.is_unicode:
            return "*ox+#@%&"
        return ["braille"] if num_jobs == 1 else "●○■□▲△◆◇"


class _Line(NamedTuple):
    xs: list[float]
    ys: list[float]
    mark: str


def chart(name: str, curves: Sequence[JobCurves], style: Style) -> list[str]:
    """Lines: a title, the curves of a metric, the numbers of workers, and a summary of each job."""
    by_time = is_by_time(curves, name)
    shown = [(one, points) for one in curves if (points := one.points(name, by_time))]
    every = [point for _, points in shown for point in points]
    if all(point.mean is None for point in every):
        return [title(name, curves), "all values are NaN or infinite"]
    is_log = has_log_axis(every, style.is_log)
    marks = style.marks(len(shown))
    values, sizes = list[_Line](), list[_Line]()
    for number, (one, points) in enumerate(shown):
        values += _unbroken(points, marks[number % len(marks)], is_log)
        sizes.append(_steps(one.sizes(name, by_time), points[-1].x, marks[number % len(marks)]))
    limits = min(point.x for point in every), max(point.x for point in every)
    return [
        f"{title(name, curves)}, logarithmic" if is_log else title(name, curves),
        *_drawn(values, style, limits, HEIGHT, is_log),
        f"workers, by {'seconds' if by_time else 'steps'}",
        *_drawn(sizes, style, limits, WORKERS_HEIGHT, False, {size for line in sizes for size in line.ys}),
        *(
            f"{f'{marks[number % len(marks)]} ' if len(shown) > 1 else ''}{_summary(points, one, name)}"
            for number, (one, points) in enumerate(shown)
        ),
    ]


def _unbroken(points: Sequence[DrawnPoint], mark: str, is_log: bool) -> list[_Line]:
    """The parts of a curve between its gaps."""
    lines: list[_Line] = []
    for is_gap, part in groupby(points, lambda point: point.mean is None):
        if not is_gap:
            pairs = [(point.x, point.mean) for point in part if point.mean is not None]
            ys = [_within_bounds(mean, is_log) for _, mean in pairs]
            lines.append(_Line([x for x, _ in pairs], ys, mark))
    return lines


def _within_bounds(value: float, is_log: bool) -> float:
    if abs(value) < LEAST and not is_log:
        return 0.0
    return math.copysign(min(MOST, max(LEAST, abs(value))), value)


def _steps(sizes: Sequence[tuple[float, int]], last_x: float, mark: str) -> _Line:
    """A number of workers holds until the next one."""
    ends = [*(x for x, _ in sizes[1:]), last_x]
    xs = [x for (begin, _), end in zip(sizes, ends, strict=True) for x in (begin, end)]
    return _Line(xs, [float(workers) for _, workers in sizes for _ in range(2)], mark)


def _drawn(
    lines: Sequence[_Line],
    style: Style,
    x_limits: tuple[float, float],
    height: int,
    is_log: bool,
    y_ticks: Collection[float] = (),
) -> list[str]:
    """Rows of a chart; `y_ticks`: values that have labels, empty: plotext chooses some."""
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)
    plotext.plot_size(style.width, height)
    plotext.yscale("log" if is_log else "linear")
    begin, end = x_limits
    if begin < end:
        plotext.xlim(begin, end)
        ticks = sorted({round(begin + share * (end - begin)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)})
        plotext.xticks(ticks, [str(tick) for tick in ticks])
    if y_ticks:
        plotext.ylim(0, max(y_ticks))
        plotext.yticks(sorted(y_ticks), [f"{tick:.0f}" for tick in sorted(y_ticks)])
    for line in lines:
        plotext.plot(line.xs, line.ys, marker=line.mark)
    text: str = plotext.uncolorize(plotext.build())
    return [row.rstrip() for row in (text if style.is_unicode else text.translate(PLAIN)).splitlines()]


def _summary(points: Sequence[DrawnPoint], one: JobCurves, name: str) -> str:
    """`digits-1: last 0.31, least 0.29, most 2.3; 1 to 4 workers`"""
    series = one.named(name)
    assert series is not None  # noqa: S101 - it has points
    lows, highs = [p.low for p in points if p.low is not None], [p.high for p in points if p.high is not None]
    lasts = [value for value in series.last if value is not None]
    least, most = min(series.num_workers), max(series.num_workers)
    size = f"{most} worker{'s' * (most != 1)}" if least == most else f"{least} to {most} workers"
    values = (
        f"last {number_text(lasts[-1])}, least {number_text(min(lows))}, most {number_text(max(highs))}"
        if lasts
        else "no finite value"
    )
    odd = sum(series.not_finite)
    return f"{one.job_id}: {values}; {size}" + (f"; {odd} values are NaN or infinite" if odd else "")
