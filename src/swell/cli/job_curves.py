"""What a job has reported, as commands draw it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from swell.model.view import MetricSeries

#: Values that span more are drawn on a logarithmic axis.
LOG_FROM = 100.0


class DrawnPoint(NamedTuple):
    """A point of a curve; None where all of its values were NaN or infinite: a gap."""

    x: float
    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class JobCurves:
    job_id: str
    series: list[MetricSeries]

    def named(self, name: str) -> MetricSeries | None:
        return next((one for one in self.series if one.name == name), None)

    def points(self, name: str, is_by_time: bool) -> list[DrawnPoint]:
        """Points of one metric, oldest first; empty if the job has none of that name."""
        series = self.named(name)
        if series is None:
            return []
        return list(map(DrawnPoint, self._places(series, is_by_time), series.mean, series.min, series.max))

    def sizes(self, name: str, is_by_time: bool) -> list[tuple[float, int]]:
        """Where on the x axis which number of workers begins."""
        series = self.named(name)
        if series is None:
            return []
        sizes: list[tuple[float, int]] = []
        for x, workers in zip(self._places(series, is_by_time), series.num_workers, strict=True):
            if not sizes or sizes[-1][1] != workers:
                sizes.append((x, workers))
        return sizes

    def _places(self, series: MetricSeries, is_by_time: bool) -> Iterator[float]:
        begin_s = min(one.at_s[0] for one in self.series if one.at_s)
        yield from (at_s - begin_s for at_s in series.at_s) if is_by_time else map(float, series.last_step)


def is_by_time(curves: Iterable[JobCurves], name: str) -> bool:
    """Whether the jobs count no steps: then seconds since the first value take their place."""
    found = [series for one in curves if (series := one.named(name)) is not None]
    return all(series.first_step[0] == series.last_step[-1] for series in found if series.last_step)


def has_log_axis(points: Iterable[DrawnPoint], is_wanted: bool) -> bool:
    """Whether the axis is logarithmic: all are above 0 and differ, and they span much, or it is wanted."""
    values = [point.mean for point in points if point.mean is not None]
    if not values or not 0.0 < min(values) < max(values):
        return False
    return is_wanted or max(values) / min(values) >= LOG_FROM


def title(name: str, curves: Iterable[JobCurves]) -> str:
    """`accuracy, mean of workers`"""
    reductions = {series.reduction for one in curves if (series := one.named(name)) is not None}
    reduced = sorted(reductions - {"rank0"})
    return f"{name}, {' and '.join(reduced)} of workers" if reduced else name


def number_text(value: float) -> str:
    """Four digits."""
    return f"{value:.4g}"
