"""Ended jobs are found, paged and added up by the database as a look at each of them would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.store.views import added_up, job_view, outcome_of

from swell.model.job import JobClass, Phase
from swell.model.job_query import JobQuery, newest, place
from swell.model.view import JobView
from swell.store.archive import Archive
from swell.store.journal import SqlJournal

ENDS = [phase for phase in Phase if phase.is_end]
NAMES = ("digits", "digits-2", "train", "<b>", "d")
TENANTS = ("", "ada", "bob")
GROUPS = ("g", "G", "g.1")

views = st.builds(
    lambda number, at_s, length_s, **changes: job_view(
        id=f"j-{number}", submitted_s=float(at_s), finished_s=float(at_s + length_s), **changes
    ),
    number=st.integers(0, 10**9),
    at_s=st.integers(1000, 1020),
    length_s=st.integers(0, 20),
    name=st.sampled_from(NAMES),
    tenant=st.sampled_from(TENANTS),
    job_class=st.sampled_from(list(JobClass)),
    phase=st.sampled_from(ENDS),
    is_promised=st.booleans(),
    kept=st.sampled_from((None, True, False)),
    devices_per_worker=st.sampled_from((1, 2)),
    group=st.sampled_from(("", *GROUPS)),
    args=st.sampled_from(((), ('"group":"g"',))),
)
queries = st.builds(
    JobQuery,
    phases=st.frozensets(st.sampled_from(ENDS)),
    since_s=st.none() | st.integers(995, 1045).map(float),
    until_s=st.none() | st.integers(995, 1045).map(float),
    name=st.sampled_from(("", "d", "digits", "digits-2", "<", "z")),
    tenant=st.none() | st.sampled_from(TENANTS),
    job_class=st.none() | st.sampled_from(list(JobClass)),
    is_promised=st.none() | st.booleans(),
    kept=st.none() | st.booleans(),
    group=st.sampled_from(("", "", *GROUPS)),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "swell.db"


@pytest.fixture
def archive_of(path: Path) -> Iterator[Callable[[list[JobView]], Archive]]:
    journal = SqlJournal(path)

    def put(jobs: list[JobView]) -> Archive:
        old = [view.id for view in journal.archived_jobs()]
        journal.prune(old, 0.0)
        journal.keep(jobs)
        return journal

    yield put
    journal.close()


def distinct(jobs: list[JobView]) -> list[JobView]:
    return list({view.id: view for view in jobs}.values())


@pytest.mark.slow
def test_pages_are_together_the_jobs_that_match_each_once(
    archive_of: Callable[[list[JobView]], Archive],
) -> None:
    @settings(max_examples=fewer_if_quick(60), deadline=None)
    @given(st.lists(views, max_size=12).map(distinct), queries, st.integers(1, 5))
    def hold(jobs: list[JobView], query: JobQuery, limit: int) -> None:
        archive = archive_of(jobs)
        found: list[JobView] = []
        before = None
        while page := archive.find(msgspec.structs.replace(query, before=before, limit=limit)):
            assert len(page) <= limit
            found = page + found
            before = place(page[0])
        assert found == sorted((view for view in jobs if query.matches(view)), key=place)

    hold()


@pytest.mark.slow
def test_sums_are_those_of_the_jobs_that_match(archive_of: Callable[[list[JobView]], Archive]) -> None:
    @settings(max_examples=fewer_if_quick(60), deadline=None)
    @given(st.lists(views, max_size=12).map(distinct), queries, st.integers(1, 30))
    def hold(jobs: list[JobView], query: JobQuery, period_s: int) -> None:
        archive, found = archive_of(jobs), [view for view in jobs if query.matches(view)]
        ends_s = [view.finished_s for view in found if view.finished_s is not None]
        outcomes = (
            (int((view.finished_s - 990.0) / period_s), outcome_of(view)) for view in found if view.finished_s
        )
        assert archive.add_up(query, period_s, 990.0) == added_up(outcomes)
        assert archive.span(query) == ((min(ends_s), max(ends_s)) if ends_s else None)

    hold()


@pytest.mark.slow
def test_jobs_are_named_begun_and_counted_as_a_look_at_each_would(
    archive_of: Callable[[list[JobView]], Archive],
) -> None:
    @settings(max_examples=fewer_if_quick(40), deadline=None)
    @given(st.lists(views, max_size=12).map(distinct), st.sampled_from((*NAMES, "j-", "j-1", "z")))
    def hold(jobs: list[JobView], word: str) -> None:
        archive = archive_of(jobs)
        named = newest([view for view in jobs if view.name == word], 1)
        assert archive.named(word) == (named[0] if named else None)
        begun = sorted((view for view in jobs if view.id.startswith(word)), key=lambda view: view.id)
        assert archive.begun(word, 3) == begun[:3]
        assert archive.count() == Counter(view.phase for view in jobs)

    hold()
