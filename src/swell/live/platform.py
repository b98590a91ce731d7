"""A platform while it is up: its parts, and what others may ask of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import msgspec

from swell.core.platform_core import PlatformCore
from swell.live.board import BoardChanges, BoardNews, ViewBoard
from swell.live.clock import HeadClock, SystemClocks
from swell.live.clock_watch import ClockWatch
from swell.live.folding import JournalFolds
from swell.live.head_questions import HeadQuestions
from swell.live.head_thread import HeadParts, HeadThread
from swell.live.inbox import Inbox
from swell.live.job_folders import JobFolders
from swell.live.job_lookup import JobLookup
from swell.live.job_requests import JobRequests
from swell.live.measures import Measures
from swell.live.metrics import MetricNews
from swell.live.operator_tally import OperatorTally
from swell.live.platform_warnings import PlatformWarnings
from swell.live.ports import Executor, History, Store
from swell.live.pruning import Pruner
from swell.live.quota_watch import QuotaWatch
from swell.live.retention import PrunedJob, PruneRequest
from swell.live.retrying_journal import RetryingJournal
from swell.live.site import Site
from swell.live.site_nodes import SiteNodes
from swell.live.status import PlatformStatus
from swell.live.submitter import Submitter
from swell.live.tenant_devices import TenantDevices
from swell.live.trial_log import TrialLog
from swell.live.turn_feed import TurnFeed
from swell.live.webhooks.counts import WebhookCounts
from swell.live.webhooks.delivery_notes import DeliveryNotes
from swell.live.webhooks.webhooks import Webhooks
from swell.model.device_usage import UsageEntry
from swell.model.event import JobSubmitted
from swell.model.job import PLAIN, JobSpec, Origin, Phase
from swell.model.job_query import EVERY_JOB, JobQuery
from swell.model.outcome import JobHistory
from swell.model.quota import NO_QUOTAS, Quotas
from swell.model.throughput import JobThroughput
from swell.model.view import ClusterView, JobView, MetricHistory, NodeView, Story, SubmitResult


class Platform:
    """Implements what the control API needs. Calls come from any thread, but for `recover` and `run`."""

    def __init__(
        self,
        site: Site,
        core: PlatformCore,
        store: Store,
        executor: Executor,
        tell: Callable[[str], None] = lambda why: None,
        system_clocks: SystemClocks | None = None,
        webhooks: Webhooks | None = None,
        read_quotas: Callable[[], Quotas] = lambda: NO_QUOTAS,
    ) -> None:
        """Args:
        tell: hears why the platform stands still, and an empty text when it goes on.
        webhooks: None: nothing is told to any address.
        read_quotas: see `QuotaWatch`.
        """
        #: Warnings of what works beside the platform, by what they are about.
        self.remarks: dict[str, str] = {}
        self._core, self._store, self._jobs_dir = core, store, site.jobs_dir
        self._clock, self._board = HeadClock(system_clocks), ViewBoard()
        self._watch, self._tally = ClockWatch(self._clock), OperatorTally()
        self._quotas = QuotaWatch(read_quotas)
        self._inbox = Inbox(self._clock)
        self._journal = RetryingJournal(store, tell)
        self._folders = JobFolders(site.jobs_dir)
        self._questions = HeadQuestions(self._inbox)
        now_s = self._clock.now_s
        feed = _feed(self._tally, webhooks)
        folds = JournalFolds(core, store, self._journal, self._board, feed, self._questions)
        self._pruner = Pruner(store, site.jobs_dir, folds.archive_all, now_s, self._board.note_pruned)
        self._head = HeadThread(self._head_parts(site, executor, feed, webhooks, folds))
        self._lookup = JobLookup(self._board, store, DeliveryNotes(site.jobs_dir))
        self._requests = JobRequests(
            site,
            core,
            self._board,
            self._lookup,
            self._inbox,
            self._journal,
            Submitter(self._inbox, now_s, store, self._folders),
            now_s,
        )
        own = [node.name for node in site.nodes]
        self._nodes = SiteNodes(own, self._board, self._inbox, now_s, executor.remove_host)
        self._status = self._new_status(site, executor, webhooks)

    def _head_parts(
        self, site: Site, executor: Executor, feed: TurnFeed, webhooks: Webhooks | None, folds: JournalFolds
    ) -> HeadParts:
        return HeadParts(
            site=site,
            core=self._core,
            store=self._store,
            executor=executor,
            clock=self._clock,
            watch=self._watch,
            quotas=self._quotas,
            inbox=self._inbox,
            board=self._board,
            folders=self._folders,
            journal=self._journal,
            tally=self._tally,
            feed=feed,
            webhooks=webhooks,
            folds=folds,
            questions=self._questions,
            pruner=self._pruner,
        )

    def _new_status(self, site: Site, executor: Executor, webhooks: Webhooks | None) -> PlatformStatus:
        return PlatformStatus(
            site,
            self._store,
            self._board,
            self._clock,
            self._watch,
            self._nodes,
            PlatformWarnings(
                site, self._core, self._store, self._journal, executor, self._quotas, self.remarks
            ),
            self._tally,
            lambda: WebhookCounts() if webhooks is None else webhooks.counts,
            lambda: self._core.quotas,
            lambda: self._head.started_s,
        )

    # ------------------------------------------------------------ the head
    def recover(self, history: History) -> None:
        """See `HeadThread.recover`."""
        self._head.recover(history)

    @property
    def num_open(self) -> int:
        """Jobs that have not ended."""
        return self._board.num_open

    def start(self) -> None:
        """See `HeadThread.start`."""
        self._head.start()

    def run(self) -> None:
        """See `HeadThread.run`."""
        self._head.run()

    def stop(self) -> None:
        """See `HeadThread.stop`."""
        self._head.stop()

    def head_state(self) -> bytes:
        """All that the head remembers, as it stands (`PlatformCore.save`); asking changes nothing.

        Raises Unavailable if the head does not come to the end of a turn.
        """
        return self._questions.ask(self._core.save)

    def throughput(self, job_id: str) -> JobThroughput | None:
        """The curve of a job that has not ended; None if it has no profile, or has ended.

        Raises UnknownJob; Unavailable if the head does not come to the end of a turn.
        """
        found = self._lookup.found(job_id)
        return None if found.phase.is_end else self._questions.ask(lambda: self._core.throughput(found.id))

    # ------------------------------------------------------------ requests
    def submit(
        self,
        spec: JobSpec,
        origin: Origin = PLAIN,
        max_open: int | None = None,
    ) -> SubmitResult:
        """See `JobRequests.submit`."""
        return self._requests.submit(spec, origin, max_open)

    def cancel(self, job_id: str) -> None:
        """See `JobRequests.cancel`."""
        self._requests.cancel(job_id)

    def hold(self, job_id: str) -> JobView:
        """See `JobRequests.hold`."""
        return self._requests.hold(job_id)

    def resume(self, job_id: str) -> JobView:
        """See `JobRequests.resume`."""
        return self._requests.resume(job_id)

    def accept_differences(self, job_id: str, names: Collection[str]) -> JobView:
        """See `JobRequests.accept_differences`."""
        return self._requests.accept_differences(job_id, names)

    def change_priority(self, job_id: str, priority: int | None, weight: float | None = None) -> JobView:
        """See `JobRequests.change_priority`."""
        return self._requests.change_priority(job_id, priority, weight)

    def ask_deadline(self, job_id: str, deadline_s: float, accept_until_s: float | None = None) -> JobView:
        """See `JobRequests.ask_deadline`."""
        return self._requests.ask_deadline(job_id, deadline_s, accept_until_s)

    def prune(self, request: PruneRequest) -> list[PrunedJob]:
        """Remove ended jobs; what was, or would be, freed. Raises UnknownJob, Unavailable."""
        calendar, before_s = self._board.calendar, request.ended_before_s
        if before_s is not None:
            request = msgspec.structs.replace(request, ended_before_s=before_s - calendar.offset_s)
        pruned = self._pruner.prune(request)
        return [msgspec.structs.replace(job, ended_s=calendar.time_of(job.ended_s)) for job in pruned]

    # ------------------------------------------------------------ jobs
    def submission(self, job_id: str) -> JobSubmitted:
        """See `JobLookup.submission`."""
        return self._lookup.submission(job_id)

    def jobs(self, query: JobQuery = EVERY_JOB, before: str = "") -> list[JobView]:
        """See `JobLookup.jobs`."""
        return self._lookup.jobs(query, before)

    def history(self, query: JobQuery, period_s: float | None, origin_s: float) -> JobHistory:
        """See `JobLookup.history`."""
        return self._lookup.history(query, period_s, origin_s)

    def used_between(self, since_s: float, until_s: float, user: str | None) -> list[UsageEntry]:
        """See `JobLookup.used_between`."""
        return self._lookup.used_between(since_s, until_s, user)

    def candidates(self, wanted: str) -> list[JobView]:
        """See `JobLookup.candidates`."""
        return self._lookup.candidates(wanted)

    def count_jobs(self) -> dict[Phase, int]:
        """See `JobLookup.count_jobs`."""
        return self._lookup.count_jobs()

    def job(self, job_id: str) -> JobView:
        """See `JobLookup.job`."""
        return self._lookup.job(job_id)

    def stories(self, job_id: str) -> list[Story]:
        """See `JobLookup.stories`."""
        return self._lookup.stories(job_id)

    def changes(self, since: int, also: Iterable[str] = ()) -> BoardChanges:
        """See `JobLookup.changes`."""
        return self._lookup.changes(since, also)

    def news(self, since: int) -> BoardNews:
        """See `ViewBoard.news`."""
        return self._lookup.news(since)

    def wait_for_news(self, since: int, most_s: float) -> bool:
        """See `ViewBoard.wait_for_news`."""
        return self._lookup.wait_for_news(since, most_s)

    def metrics(
        self, job_id: str, names: Collection[str] = (), since_s: float | None = None
    ) -> MetricHistory:
        """See `JobLookup.metrics`."""
        return self._lookup.metrics(job_id, names, since_s)

    def metric_news(self, since: int | None, job_ids: Collection[str]) -> MetricNews:
        """See `JobLookup.metric_news`."""
        return self._lookup.metric_news(since, job_ids)

    def log_dir(self, job_id: str) -> Path:
        """Folder of the job's log files. Raises UnknownJob."""
        return self._jobs_dir / self.job(job_id).id

    # ------------------------------------------------------------ the platform and its nodes
    def now_s(self) -> float:
        """See `PlatformStatus.now_s`."""
        return self._status.now_s()

    def cluster(self) -> ClusterView:
        """See `PlatformStatus.cluster`."""
        return self._status.cluster()

    def tenant_devices(self) -> Mapping[tuple[str, str], TenantDevices]:
        """See `PlatformStatus.tenant_devices`."""
        return self._status.tenant_devices()

    def measures(self) -> Measures:
        """See `PlatformStatus.measures`."""
        return self._status.measures()

    def node(self, name: str) -> NodeView:
        """Raises UnknownNode."""
        return self._nodes.named(name)

    def drain_node(self, name: str) -> NodeView:
        """See `SiteNodes.drain`."""
        self._journal.refuse_while_stalled()
        return self._nodes.drain(name)

    def undrain_node(self, name: str) -> NodeView:
        """See `SiteNodes.undrain`."""
        self._journal.refuse_while_stalled()
        return self._nodes.undrain(name)

    def allow_kind(self, kind: str) -> ClusterView:
        """See `SiteNodes.allow_kind`; the cluster after it."""
        self._journal.refuse_while_stalled()
        self._nodes.allow_kind(kind)
        return self.cluster()

    def remove_node(self, name: str, is_forced: bool = False) -> NodeView:
        """See `SiteNodes.remove`."""
        self._journal.refuse_while_stalled()
        return self._nodes.remove(name, is_forced)


def _feed(tally: OperatorTally, webhooks: Webhooks | None) -> TurnFeed:
    feed = TurnFeed()
    feed.add(tally)
    feed.add(TrialLog())
    if webhooks is not None:
        feed.add(webhooks)
    return feed
