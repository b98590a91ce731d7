"""Sums over jobs: their ends, and their device time wherever they are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from tests.store.fresh_journal import fresh_journal
from tests.store.views import job_view

from swell.live.board import TurnResult, ViewBoard
from swell.live.job_source import MANY_PERIODS, JobSource
from swell.model.calendar import Calendar
from swell.model.job import Phase
from swell.model.job_query import EVERY_JOB, JobQuery
from swell.model.job_sums import UsageGroup
from swell.model.view import JobView
from swell.store.journal import SqlJournal

HOUR_S = 3600.0


def ended(number: int, at_s: float) -> JobView:
    return job_view(id=f"j-{number}", submitted_s=at_s, finished_s=at_s, phase=Phase.SUCCEEDED, kept=True)


@given(st.lists(st.integers(0, 10**6), max_size=20), st.sampled_from((None, HOUR_S)))
def test_each_ended_job_counts_once(ends_s: list[int], period_s: float | None) -> None:
    views = [ended(number, float(at_s)) for number, at_s in enumerate(ends_s)]
    found = JobSource(ViewBoard(), fresh_journal(views)).history(EVERY_JOB, period_s, 0.0)
    assert found.total.num_jobs == len(views) == found.total.promises_kept
    assert period_s is not None or len(found.periods) <= MANY_PERIODS + 1
    for period in found.periods:
        inside = [view for view in views if 0 <= (view.finished_s or 0) - period.begin_s < found.period_s]
        assert period.outcome.num_jobs == len(inside) > 0


def test_periods_are_of_the_calendar() -> None:
    """Head time is an hour behind it, and a bit."""
    calendar = Calendar(offsets=((0.0, HOUR_S + 60.0),))
    board = ViewBoard()
    board.post(TurnResult(calendar=calendar))
    archive = fresh_journal([ended(1, 3590.0)])
    found = JobSource(board, archive).history(JobQuery(name="d"), HOUR_S, 0.0)
    assert [period.begin_s for period in found.periods] == [2 * HOUR_S]


HOURS_S = 100 * 3600.0


@dataclass
class Board(ViewBoard):
    shown: list[JobView] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def jobs(self, is_wanted: Callable[[JobView], bool] = bool, limit: int = 0) -> list[JobView]:
        return [view for view in self.shown if is_wanted(view)]


def used(board: Board, journal: SqlJournal, user: str | None = None) -> float:
    report = JobSource(board, journal).usage(UsageGroup.ALL, [(0.0, HOURS_S, "")], user)
    return 3600.0 * report.device_hours


@given(
    st.lists(st.tuples(st.integers(1, 9999), st.integers(1, 4), st.sampled_from(["", "ada", "bob"]))),
    st.data(),
)
def test_each_job_counts_once_wherever_it_is(jobs: list[tuple[int, int, str]], data: st.DataObject) -> None:
    """On the board, in the archive, in both, or pruned."""
    board, journal, expected = Board(), fresh_journal(), dict[str, float]()
    for number, (length_s, workers, user) in enumerate(jobs):
        view = job_view(
            id=f"j-{number}", user=user, submitted_s=0.0, sizes=((0.0, workers),), finished_s=float(length_s)
        )
        expected[user] = expected.get(user, 0.0) + length_s * workers
        places = data.draw(st.sampled_from(["board", "archive", "both", "pruned"]))
        if places != "board":
            journal.keep([view])
        if places == "pruned":
            journal.prune([view.id], HOURS_S)
        if places in ("board", "both"):
            board.shown.append(view)
    assert abs(used(board, journal) - sum(expected.values())) < 1e-6
    for user in ("", "ada", "bob"):
        assert abs(used(board, journal, user) - expected.get(user, 0.0)) < 1e-6
