"""Sums over ended jobs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.store.fresh_journal import fresh_journal
from tests.store.views import job_view

from swell.live.platform import MANY_PERIODS, add_up
from swell.model.calendar import Calendar
from swell.model.job import Phase
from swell.model.job_query import EVERY_JOB, JobQuery
from swell.model.view import JobView

HOUR_S = 3600.0


def ended(number: int, at_s: float) -> JobView:
    return job_view(id=f"j-{number}", submitted_s=at_s, finished_s=at_s, phase=Phase.SUCCEEDED, kept=True)


@given(st.lists(st.integers(0, 10**6), max_size=20), st.sampled_from((None, HOUR_S)))
def test_each_ended_job_counts_once(ends_s: list[int], period_s: float | None) -> None:
    views = [ended(number, float(at_s)) for number, at_s in enumerate(ends_s)]
    found = add_up(fresh_journal(views), Calendar(), EVERY_JOB, period_s, 0.0)
    assert found.total.num_jobs == len(views) == found.total.promises_kept
    assert period_s is not None or len(found.periods) <= MANY_PERIODS + 1
    for period in found.periods:
        inside = [view for view in views if 0 <= (view.finished_s or 0) - period.begin_s < found.period_s]
        assert period.outcome.num_jobs == len(inside) > 0


def test_periods_are_of_the_calendar() -> None:
    """Head time is an hour behind it, and a bit."""
    calendar = Calendar(offsets=((0.0, HOUR_S + 60.0),))
    archive = fresh_journal([ended(1, 3590.0)])
    found = add_up(archive, calendar, JobQuery(name="d"), HOUR_S, 0.0)
    assert [period.begin_s for period in found.periods] == [2 * HOUR_S]
