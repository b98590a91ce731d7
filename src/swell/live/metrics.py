"""The history of a job's metrics, as people see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swell.model.calendar import Calendar
from swell.model.view import MetricHistory, MetricSeries
from swell.store.curve import CurvePoint


def metric_history(
    curves: Mapping[str, Sequence[CurvePoint]], calendar: Calendar, since_s: float | None
) -> MetricHistory:
    """Return the history of metrics in calendar time, without reports before `since_s`."""
    series = [_series(name, points, calendar, since_s) for name, points in curves.items() if points]
    return MetricHistory(series=series)


def _series(
    name: str, points: Sequence[CurvePoint], calendar: Calendar, since_s: float | None
) -> MetricSeries:
    timed = [(calendar.time_of(point.at_s), point.tally) for point in points]
    late = [(at_s, tally) for at_s, tally in timed if since_s is None or at_s >= since_s]
    tallies = [tally for _, tally in late]
    return MetricSeries(
        name=name,
        reduction=points[-1].tally.reduction,
        at_s=[at_s for at_s, _ in late],
        first_step=[tally.first_step for tally in tallies],
        last_step=[tally.last_step for tally in tallies],
        num_workers=[tally.num_workers for tally in tallies],
        count=[tally.count for tally in tallies],
        not_finite=[tally.num_odd for tally in tallies],
        mean=[tally.mean for tally in tallies],
        min=[tally.min for tally in tallies],
        max=[tally.max for tally in tallies],
        last=[tally.last for tally in tallies],
    )
