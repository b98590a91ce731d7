"""What is known of jobs, wherever it is: of open ones on the board, of others in the archive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import msgspec

from swell.live.board import BoardChanges, ViewBoard
from swell.live.clock import shown_job, shown_story
from swell.live.history import add_up
from swell.live.metrics import metric_history
from swell.live.usage import used_between
from swell.model.calendar import Calendar
from swell.model.device_usage import UsageEntry
from swell.model.errors import UnknownJob
from swell.model.event import JobSubmitted
from swell.model.job import Phase
from swell.model.job_query import EVERY_JOB, JobQuery, newest, place
from swell.model.outcome import JobHistory
from swell.model.view import JobView, MetricHistory, Story
from swell.store.journal import SqlJournal

#: Jobs shown where the beginning of an id could be that of any of them.
NUM_CANDIDATES = 6


class JobLookup:
    """Looks up jobs on the board and in the archive, in calendar time. Calls come from any thread."""

    def __init__(self, board: ViewBoard, store: SqlJournal) -> None:
        self._board, self._store = board, store

    @property
    def _calendar(self) -> Calendar:
        return self._board.calendar

    def submission(self, job_id: str) -> JobSubmitted:
        """Return the job's submission, with its spec as submitted. Raises UnknownJob."""
        found = self._store.submission(self.found(job_id).id)
        if found is None:
            raise UnknownJob(f"how job {job_id!r} was submitted is not known; submit it with `swell submit`")
        return found

    def jobs(self, query: JobQuery = EVERY_JOB, before: str = "") -> list[JobView]:
        """Jobs that match the query, oldest first, with calendar times.

        Args:
            before: id of a job; only jobs that were submitted earlier. Empty: all.

        Raises:
            UnknownJob: there is no job `before`.
        """
        calendar = self._calendar
        query = msgspec.structs.replace(
            self._in_head_time(query), before=place(self.found(before)) if before else None
        )
        found = {view.id: view for view in self._board.jobs(query.matches, query.limit)}
        if not query.phases or any(phase.is_end for phase in query.phases):
            found |= {view.id: view for view in self._store.find(query)}  # one may have ended since
        return [shown_job(view, calendar) for view in newest(list(found.values()), query.limit)]

    def history(self, query: JobQuery, period_s: float | None, origin_s: float) -> JobHistory:
        """Ended jobs that match the query, added up by the time of their end."""
        return add_up(self._store, self._calendar, self._in_head_time(query), period_s, origin_s)

    def used_between(self, since_s: float, until_s: float, user: str | None) -> list[UsageEntry]:
        """Device time of jobs within a time; see `usage.used_between`."""
        offset_s = self._calendar.offset_s
        return used_between(self._board, self._store, since_s - offset_s, until_s - offset_s, user)

    def _in_head_time(self, query: JobQuery) -> JobQuery:
        offset_s, since_s, until_s = self._calendar.offset_s, query.since_s, query.until_s
        return msgspec.structs.replace(
            query,
            since_s=None if since_s is None else since_s - offset_s,
            until_s=None if until_s is None else until_s - offset_s,
        )

    def candidates(self, wanted: str) -> list[JobView]:
        """The job with this id; else the newest with this name; else a few whose ids begin with it."""
        calendar = self._calendar
        return [shown_job(view, calendar) for view in self._candidates(wanted)]

    def _candidates(self, wanted: str) -> list[JobView]:
        if exact := self._board.job(wanted) or self._store.job(wanted):
            return [exact]
        newest_named = [*self._board.jobs(lambda view: view.name == wanted, 1), self._store.named(wanted)]
        if named := [view for view in newest_named if view is not None]:
            return newest(named, 1)
        begun = self._board.jobs(lambda view: view.id.startswith(wanted), NUM_CANDIDATES)
        begun += self._store.begun(wanted, NUM_CANDIDATES)
        return list({view.id: view for view in begun}.values())[:NUM_CANDIDATES]

    def count_jobs(self) -> dict[Phase, int]:
        """Number of jobs in each phase, including archived jobs."""
        return dict(self._board.count() + Counter(self._store.count()))

    def job(self, job_id: str) -> JobView:
        """The job, with calendar times. Raises UnknownJob."""
        return shown_job(self.found(job_id), self._calendar)

    def found(self, job_id: str) -> JobView:
        """Return the view of a job, in head time. Raises UnknownJob."""
        view = self._board.job(job_id) or self._store.job(job_id)
        if view is None and self._store.pruned_s(job_id) is not None:
            raise UnknownJob(f"job {job_id!r} has ended and was pruned: nothing of it is kept")
        if view is None:
            raise UnknownJob(f"there is no job {job_id!r}; `swell jobs` lists all jobs")
        return view

    def stories(self, job_id: str) -> list[Story]:
        """Decisions about the job, and webhooks that failed, oldest first. Raises UnknownJob."""
        self.job(job_id)
        calendar, told = self._calendar, self._store.stories(job_id)
        if (late := self._board.share_changes(job_id)) is not None:
            told.append(late)
        return [shown_story(story, calendar) for story in told]

    def changes(self, since: int, also: Iterable[str] = ()) -> BoardChanges:
        """What became of jobs after a turn, with calendar times, ended ones too; see `ViewBoard.changes`.

        Of `archived` those are left that were pruned.
        """
        calendar, found = self._calendar, self._board.changes(since, also)
        ended = {job_id: self._store.job(job_id) for job_id in found.archived}
        views = [*found.views, *(view for view in ended.values() if view is not None)]
        return found._replace(
            views=[shown_job(view, calendar) for view in views],
            archived=[job_id for job_id, view in ended.items() if view is None],
            stories=[(job_id, shown_story(story, calendar)) for job_id, story in found.stories],
        )

    def wait_for_news(self, since: int, most_s: float) -> bool:
        """See `ViewBoard.wait_for_news`."""
        return self._board.wait_for_news(since, most_s)

    def metrics(
        self, job_id: str, names: Collection[str] = (), since_s: float | None = None
    ) -> MetricHistory:
        """What the job has reported, with calendar times. Raises UnknownJob.

        Args:
            names: only these; none: all.
            since_s: without points before this calendar time.
        """
        curves = self._store.curves(self.found(job_id).id, names)
        return metric_history(curves, self._calendar, since_s)
