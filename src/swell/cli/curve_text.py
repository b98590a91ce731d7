"""Curves made of characters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from swell.cli.job_curves import DrawnPoint, JobCurves, has_log_axis, is_by_time, number_text, title

#: Lines of a chart.
HEIGHT = 12
#: Columns for the numbers of the y axis.
LABELS = 10
LEAST_WIDTH = 30

#: Dots of a cell of Braille by row and column, as bits of its character.
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
BRAILLE = 0x2800


@dataclass(frozen=True, slots=True)
class Style:
    """What a terminal can show."""

    width: int
    has_braille: bool
    marks: str  #: one for each of several jobs
    bars: str  #: numbers of workers, from the least to the most
    is_log: bool  #: a logarithmic axis is wanted

    @classmethod
    def for_encoding(cls, encoding: str | None, width: int, is_log: bool) -> Style:
        """Plain ASCII where the terminal has no UTF-8."""
        if (encoding or "").lower().replace("-", "").startswith("utf8"):
            return cls(max(width, LEAST_WIDTH), True, "●○■□▲△◆◇", "▁▂▃▄▅▆▇█", is_log)
        return cls(max(width, LEAST_WIDTH), False, "*ox+#@%&", "123456789", is_log)


@dataclass(frozen=True, slots=True)
class _Axes:
    """Where on the chart a point is: columns and lines count from 0, from the left and from below."""

    x_begin: float
    x_end: float
    y_begin: float
    y_end: float
    is_log: bool

    def column(self, x: float, num: int) -> int:
        share = (x - self.x_begin) / (self.x_end - self.x_begin) if self.x_end > self.x_begin else 0.0
        return min(num - 1, max(0, int(share * num)))

    def line(self, y: float, num: int) -> int:
        share = self._share(y)
        return min(num - 1, max(0, round(share * (num - 1))))

    def value(self, share: float) -> float:
        """Value at a height of the chart, where 0 is the bottom and 1 the top."""
        if self.is_log:
            return math.exp(math.log(self.y_begin) * (1 - share) + math.log(self.y_end) * share)
        return self.y_begin * (1 - share) + self.y_end * share

    def _share(self, y: float) -> float:
        if self.is_log:
            begin, end = math.log(self.y_begin), math.log(self.y_end)
            return (math.log(max(y, self.y_begin)) - begin) / (end - begin) if end > begin else 0.5
        half = self.y_end / 2 - self.y_begin / 2  # the whole may be more than a float holds
        return (y / 2 - self.y_begin / 2) / half if half > 0 else 0.5


def chart(name: str, curves: Sequence[JobCurves], style: Style) -> list[str]:
    """Lines: a title, the chart, the x axis, the numbers of workers and a legend.

    One job is drawn in Braille, with the extremes of its points as dots where there are many points. Several
    jobs have a mark each.
    """
    by_time = is_by_time(curves, name)
    shown = [(one, points) for one in curves if (points := one.points(name, by_time))]
    axes = _axes([point for _, points in shown for point in points], style.is_log)
    scale = ", logarithmic" if axes is not None and axes.is_log else ""
    lines = [f"{title(name, curves)}{scale}"]
    if axes is None:
        return [*lines, "all values are NaN or infinite"]
    width = style.width - LABELS - 1
    if len(shown) == 1 and style.has_braille:
        drawn = _braille(shown[0][1], axes, width)
    else:
        drawn = _marked([points for _, points in shown], axes, width, style.marks)
    lines += [_labelled(line, number, axes) for number, line in enumerate(drawn)]
    lines.append(_x_axis(axes, width, "s" if by_time else "steps"))
    for number, (one, points) in enumerate(shown):
        mark = f"{style.marks[number % len(style.marks)]} " if len(shown) > 1 else ""
        lines.append(_strip(one.sizes(name, by_time), points[-1].x, axes, width, style.bars))
        lines.append(f"{mark}{one.job_id}: {_summary(points, one, name)}")
    return lines


def _axes(points: Iterable[DrawnPoint], is_log_wanted: bool) -> _Axes | None:
    """None: there is no number to draw."""
    points = list(points)
    finite = [point.mean for point in points if point.mean is not None]
    if not finite:
        return None
    xs = [point.x for point in points]
    is_log = has_log_axis(points, is_log_wanted)
    return _Axes(min(xs), max(xs), min(finite), max(finite), is_log)


def _braille(points: Sequence[DrawnPoint], axes: _Axes, width: int) -> list[str]:
    """Lines of a chart of one curve in Braille characters, from top to bottom."""
    columns, rows = 2 * width, 4 * HEIGHT
    cells = [[0] * width for _ in range(HEIGHT)]

    def dot(column: int, row: int) -> None:
        line, part = divmod(rows - 1 - row, 4)
        cells[line][column // 2] |= DOTS[part][column % 2]

    for column, low, high in _columns(points, axes, columns):
        for row in range(axes.line(low, rows), axes.line(high, rows) + 1):
            dot(column, row)
    for point in points if len(points) >= width else ():  # of few points they would be specks
        column = axes.column(point.x, columns)
        for value in (point.low, point.high):
            if value is not None and column % 4 == 0 and axes.y_begin <= value <= axes.y_end:
                dot(column, axes.line(value, rows))
    return ["".join(chr(BRAILLE + cell) if cell else " " for cell in line) for line in cells]


def _columns(points: Sequence[DrawnPoint], axes: _Axes, num: int) -> Iterable[tuple[int, float, float]]:
    """The curve by column: from the least to the most of its means there, and towards the point before."""
    before: tuple[int, float] | None = None
    for point in points:
        if point.mean is None:
            before = None
            continue
        column = axes.column(point.x, num)
        if before is not None:
            for between in range(before[0] + 1, column):
                share = (between - before[0]) / (column - before[0])
                value = before[1] * (1 - share) + point.mean * share
                yield between, value, value
        joined = before[1] if before is not None and before[0] == column else point.mean
        yield column, min(joined, point.mean), max(joined, point.mean)
        before = (column, point.mean)


def _marked(curves: Sequence[Sequence[DrawnPoint]], axes: _Axes, width: int, marks: str) -> list[str]:
    """Lines of a chart of several curves, from top to bottom; where two meet, the later job's mark shows."""
    cells = [[" "] * width for _ in range(HEIGHT)]
    for number, points in enumerate(curves):
        for column, low, high in _columns(points, axes, width):
            line = axes.line(low / 2 + high / 2, HEIGHT)
            cells[HEIGHT - 1 - line][column] = marks[number % len(marks)]
    return ["".join(line) for line in cells]


def _labelled(line: str, number: int, axes: _Axes) -> str:
    middle = HEIGHT // 2
    shares = {middle: 1 - middle / (HEIGHT - 1)}
    if axes.y_begin < axes.y_end:
        shares |= {0: 1.0, HEIGHT - 1: 0.0}
    label = number_text(axes.value(shares[number])) if number in shares else ""
    return f"{label:>{LABELS - 1}} |{line}".rstrip()


def _x_axis(axes: _Axes, width: int, unit: str) -> str:
    begin, end = number_text(axes.x_begin), f"{number_text(axes.x_end)} {unit}"
    return " " * LABELS + " " + begin + end.rjust(max(1 + len(end), width - len(begin)))


def _strip(sizes: Sequence[tuple[float, int]], last_x: float, axes: _Axes, width: int, bars: str) -> str:
    """The number of workers in each column: the highest bar is the most that the job had."""
    most = max(workers for _, workers in sizes)
    cells = [" "] * width
    for number, (x, workers) in enumerate(sizes):
        is_last = number + 1 == len(sizes)
        end = axes.column(last_x, width) + 1 if is_last else axes.column(sizes[number + 1][0], width)
        bar = bars[min(len(bars) - 1, max(0, math.ceil(workers / max(most, len(bars)) * len(bars)) - 1))]
        for column in range(axes.column(x, width) if number else 0, end):
            cells[column] = bar
    return f"{'workers':>{LABELS - 1}} |{''.join(cells)}".rstrip()


def _summary(points: Sequence[DrawnPoint], one: JobCurves, name: str) -> str:
    """`last 0.31, least 0.29, most 2.3; 1 to 4 workers`"""
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
    return f"{values}; {size}" + (f"; {odd} values are NaN or infinite" if odd else "")
