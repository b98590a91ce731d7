"""Ended jobs added up over time: those of the archive, and those of late that it does not have yet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from swell.model.calendar import Calendar
from swell.model.job_query import JobQuery
from swell.model.outcome import JobHistory, OutcomePeriod, OutcomeSums, added_up, outcome_of
from swell.model.view import JobView

MINUTE_S, HOUR_S, DAY_S, WEEK_S = 60.0, 3600.0, 86400.0, 7 * 86400.0
#: Lengths of a period that are chosen from, where none is given.
LENGTHS_S = (5 * MINUTE_S, HOUR_S, DAY_S, WEEK_S)
#: More than these, and the next longer ones are chosen.
MANY_PERIODS = 48


class EndedOutcomes(Protocol):
    """Jobs that have ended and that the folded state no longer holds."""

    def span(self, query: JobQuery) -> tuple[float, float] | None:
        """When the first and the last job that matches ended; None: there is none."""

    def add_up(
        self, query: JobQuery, period_s: float, origin_s: float, without: Sequence[str] = ()
    ) -> dict[int, OutcomeSums]:
        """Outcomes of those that match by the number of their period; period 0 begins at `origin_s`, before
        the end of any job. Without the jobs of these ids."""


class JobsOfLate(Protocol):
    """The board: open jobs, and ended ones that the archive may not have yet."""

    @property
    def calendar(self) -> Calendar:
        """Calendar of the platform."""

    def jobs(self, is_wanted: Callable[[JobView], bool]) -> list[JobView]:
        """Those that are wanted."""


def add_up(
    board: JobsOfLate, archive: EndedOutcomes, query: JobQuery, period_s: float | None, origin_s: float
) -> JobHistory:
    """Sum up ended jobs in periods of equal length from `origin_s` on; times are calendar times.

    Args:
        query: in head time.
        period_s: length of a period; None: one that suits the time that the jobs span.
    """
    offset_s = board.calendar.offset_s
    recent = [view for view in board.jobs(query.matches) if view.phase.is_end]
    ends_s = [view.finished_s for view in recent if view.finished_s is not None]
    ends_s += archive.span(query) or ()
    if not ends_s:
        return JobHistory(period_s=period_s or LENGTHS_S[0])
    length_s = _suitable(max(ends_s) - min(ends_s)) if period_s is None else period_s
    begin_s = origin_s - offset_s
    late = added_up((_number(view.finished_s, begin_s, length_s), outcome_of(view)) for view in recent)
    early = archive.add_up(query, length_s, begin_s, [view.id for view in recent])
    periods = (
        OutcomePeriod(
            begin_s=origin_s + number * length_s,
            outcome=early.get(number, OutcomeSums()) + late.get(number, OutcomeSums()),
        )
        for number in sorted({*early, *late})
    )
    return JobHistory(period_s=length_s, periods=tuple(periods))


def _suitable(span_s: float) -> float:
    return next((length_s for length_s in LENGTHS_S if span_s <= MANY_PERIODS * length_s), WEEK_S)


def _number(ended_s: float | None, begin_s: float, length_s: float) -> int:
    return math.floor(((ended_s or 0.0) - begin_s) / length_s)
