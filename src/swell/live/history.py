"""Ended jobs added up over time."""

from __future__ import annotations

from swell.model.calendar import Calendar
from swell.model.job_query import JobQuery
from swell.model.outcome import JobHistory, OutcomePeriod
from swell.store.archive import Archive

MINUTE_S, HOUR_S, DAY_S, WEEK_S = 60.0, 3600.0, 86400.0, 7 * 86400.0
#: Lengths of a period that are chosen from, where none is given.
LENGTHS_S = (5 * MINUTE_S, HOUR_S, DAY_S, WEEK_S)
#: More than these, and the next longer ones are chosen.
MANY_PERIODS = 48


def add_up(
    archive: Archive, calendar: Calendar, query: JobQuery, period_s: float | None, origin_s: float
) -> JobHistory:
    """Sum up ended jobs in periods of equal length from `origin_s` on; times are calendar times.

    Args:
        query: in head time.
        period_s: length of a period; None: one that suits the time that the jobs span.
    """
    ends_s = archive.span(query)
    if ends_s is None:
        return JobHistory(period_s=period_s or LENGTHS_S[0])
    length_s = _suitable(ends_s[1] - ends_s[0]) if period_s is None else period_s
    found = archive.add_up(query, length_s, origin_s - calendar.offset_s)
    periods = (
        OutcomePeriod(begin_s=origin_s + number * length_s, outcome=found[number]) for number in sorted(found)
    )
    return JobHistory(period_s=length_s, periods=tuple(periods))


def _suitable(span_s: float) -> float:
    return next((length_s for length_s in LENGTHS_S if span_s <= MANY_PERIODS * length_s), WEEK_S)
