"""Looks up jobs of a platform, open and ended, with their sums and curves, in calendar time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from swell.live.board import BoardChanges, ViewBoard
from swell.live.clock import shown_job, shown_story
from swell.model.calendar import Calendar
from swell.model.errors import UnknownJob
from swell.model.event import JobSubmitted
from swell.model.job import Phase
from swell.model.job_query import EVERY_JOB, JobQuery, newest, place
from swell.model.job_sums import (
    HeldTime,
    JobHistory,
    OutcomePeriod,
    UsageGroup,
    UsagePart,
    UsageReport,
    report_of,
)
from swell.model.usage import DeviceReading, total_reading
from swell.model.view import JobView, MetricCurve, MetricHistory, Story
from swell.store.curves import CurvePoint
from swell.store.journal import SqlJournal

#: Jobs shown where the beginning of an id could be that of any of them.
NUM_CANDIDATES = 6
#: Lengths of a period of history that are chosen from, where none is given.
MINUTE_S, HOUR_S, DAY_S, WEEK_S = 60.0, 3600.0, 86400.0, 7 * 86400.0
LENGTHS_S = (5 * MINUTE_S, HOUR_S, DAY_S, WEEK_S)
#: Columns of a metric's history, and the fields of its tallies.
COLUMNS = {
    name: name for name in ("first_step", "last_step", "num_workers", "count", "mean", "min", "max", "last")
}
COLUMNS |= {"not_finite": "num_odd"}
#: More than these, and the next longer ones are chosen.
MANY_PERIODS = 48


class JobSource:
    """Looks up jobs on the board and in the archive, in calendar time. Calls come from any thread."""

    def __init__(
        self,
        board: ViewBoard,
        store: SqlJournal,
        readings: Callable[[], Mapping[str, DeviceReading]] = dict,
    ) -> None:
        """`readings`: tells what devices do now, by their ids."""
        self._board, self._store, self._readings = board, store, readings

    def _shown(self, view: JobView) -> JobView:
        """The view with calendar times, and with what its devices do."""
        read = self._readings()
        reading = total_reading(read[device] for device in view.devices if device in read)
        return msgspec.structs.replace(shown_job(view, self._board.calendar), reading=reading)

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
        calendar = self._board.calendar
        query = msgspec.structs.replace(
            _in_head_time(query, calendar), before=place(self.found(before)) if before else None
        )
        found = {view.id: view for view in self._board.jobs(query.matches, query.limit)}
        if not query.phases or any(phase.is_end for phase in query.phases):
            found |= {view.id: view for view in self._store.find(query)}  # one may have ended since
        return [shown_job(view, calendar) for view in newest(list(found.values()), query.limit)]

    def candidates(self, wanted: str) -> list[JobView]:
        """The job with this id; else the newest with this name; else a few whose ids begin with it."""
        exact = self.find(wanted)
        found = [exact] if exact else self._board.jobs(lambda view: view.name == wanted, 1)
        if not exact and (ended := self._store.named(wanted)):
            found = newest([*found, ended], 1)
        if not found:
            begun = self._board.jobs(lambda view: view.id.startswith(wanted), NUM_CANDIDATES)
            begun += self._store.begun(wanted, NUM_CANDIDATES)
            found = list({view.id: view for view in begun}.values())[:NUM_CANDIDATES]
        return [self._shown(view) for view in found]

    def count_jobs(self) -> dict[Phase, int]:
        """Number of jobs in each phase, including archived jobs."""
        open_jobs = Counter(view.phase for view in self._board.views())
        return dict(open_jobs + Counter(self._store.count()))

    def job(self, job_id: str) -> JobView:
        """The job, with calendar times. Raises UnknownJob."""
        return self._shown(self.found(job_id))

    def found(self, job_id: str) -> JobView:
        """Return the view of a job, in head time. Raises UnknownJob."""
        view = self.find(job_id)
        if view is None and self._store.pruned_s(job_id) is not None:
            raise UnknownJob(f"job {job_id!r} has ended and was pruned: nothing of it is kept")
        if view is None:
            raise UnknownJob(f"there is no job {job_id!r}; `swell jobs` lists all jobs")
        return view

    def find(self, job_id: str) -> JobView | None:
        """Return the view of a job, in head time; None if there is no such job, or none any more."""
        return self._board.job(job_id) or self._store.job(job_id)

    def stories(self, job_id: str) -> list[Story]:
        """Decisions about the job, and webhooks that failed, oldest first. Raises UnknownJob."""
        self.found(job_id)
        return [shown_story(story, self._board.calendar) for story in self._store.stories(job_id)]

    def changes(self, since: int, also: Iterable[str] = ()) -> BoardChanges:
        """What became of jobs after a turn, with calendar times, ended ones too; see `ViewBoard.changes`.

        Of `archived` those are left that were pruned.
        """
        calendar, found = self._board.calendar, self._board.changes(since, also)
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

    # ------------------------------------------------------------ sums and curves
    def history(self, query: JobQuery, period_s: float | None, origin_s: float) -> JobHistory:
        """Ended jobs that match the query, added up in periods of equal length from `origin_s` on.

        Args:
            period_s: length of a period; None: one that suits the time that the jobs span.
        """
        calendar = self._board.calendar
        query = _in_head_time(query, calendar)
        if (ends_s := self._store.span(query)) is None:
            return JobHistory(period_s=period_s or LENGTHS_S[0])
        if period_s is None:
            most_s = (ends_s[1] - ends_s[0]) / MANY_PERIODS
            period_s = next((length_s for length_s in LENGTHS_S if most_s <= length_s), WEEK_S)
        found = self._store.add_up(query, period_s, origin_s - calendar.offset_s)
        periods = [
            OutcomePeriod(begin_s=origin_s + number * period_s, outcome=found[number])
            for number in sorted(found)
        ]
        return JobHistory(period_s=period_s, periods=tuple(periods))

    def usage(self, by: UsageGroup, parts: Sequence[UsagePart], user: str | None) -> UsageReport:
        """Device time of all jobs, pruned ones too.

        Args:
            user: whose jobs count, the owner's is empty; None: those of all.
        """
        ahead_s = self._board.calendar.offset_s
        held = {view.id: HeldTime.of(view) for view in self._board.jobs(lambda one: user in (None, one.user))}
        ended = self._store.device_time(parts[0][0] - ahead_s, parts[-1][1] - ahead_s)
        for job in ended:  # it may have ended since
            held.pop(job.id, None)
        jobs = (job for job in (*held.values(), *ended) if user in (None, job.user))
        return report_of(jobs, by, parts, ahead_s)

    def metrics(
        self, job_id: str, names: Collection[str] = (), since_s: float | None = None
    ) -> MetricHistory:
        """What the job has reported, with calendar times. Raises UnknownJob.

        Args:
            names: only these; none: all.
            since_s: without points before this calendar time.
        """
        curves = self._store.curves(self.found(job_id).id, names)
        return metric_history(curves, self._board.calendar, since_s)


def _in_head_time(query: JobQuery, calendar: Calendar) -> JobQuery:
    since_s, until_s = query.since_s, query.until_s
    return msgspec.structs.replace(
        query,
        since_s=None if since_s is None else since_s - calendar.offset_s,
        until_s=None if until_s is None else until_s - calendar.offset_s,
    )


def metric_history(
    curves: Mapping[str, Sequence[CurvePoint]], calendar: Calendar, since_s: float | None
) -> MetricHistory:
    """Return the history of metrics in calendar time, without reports before `since_s`."""
    series = []
    for name, points in curves.items():
        timed = [(calendar.time_of(point.at_s), point.tally) for point in points]
        late = [(at_s, tally) for at_s, tally in timed if since_s is None or at_s >= since_s]
        columns = {column: [getattr(tally, told) for _, tally in late] for column, told in COLUMNS.items()}
        if points:
            reduction, times_s = points[-1].tally.reduction, [at_s for at_s, _ in late]
            series.append(MetricCurve(name=name, reduction=reduction, at_s=times_s, **columns))
    return MetricHistory(series=series)
