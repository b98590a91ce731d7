"""What users ask of the head about a job: to take it, to cancel it, another deadline."""

from __future__ import annotations

from collections.abc import Callable, Collection

from swell.core.platform_core import PlatformCore
from swell.live.board import ViewBoard
from swell.live.inbox import Inbox
from swell.live.job_checks import check_job, check_promisable, check_room, has_ended_error
from swell.live.job_lookup import JobLookup
from swell.live.kind_choice import with_kind
from swell.live.retrying_journal import RetryingJournal
from swell.live.site import Site
from swell.live.submitter import Submitter, result_of, uncounted
from swell.model.event import CancelRequested, DeadlineChangeAsked
from swell.model.job import PLAIN, JobSpec, Origin
from swell.model.view import JobView, SubmitResult


class JobRequests:
    """Each returns once the journal has it. Times are calendar time. Calls come from any thread."""

    def __init__(
        self,
        site: Site,
        core: PlatformCore,
        board: ViewBoard,
        lookup: JobLookup,
        inbox: Inbox,
        journal: RetryingJournal,
        submitter: Submitter,
        now_s: Callable[[], float],
    ) -> None:
        """`now_s`: head time."""
        self._site, self._core, self._board, self._lookup = site, core, board, lookup
        self._inbox, self._journal, self._submitter, self._now_s = inbox, journal, submitter, now_s

    def submit(
        self,
        spec: JobSpec,
        origin: Origin = PLAIN,
        max_open: int | None = None,
        count: Callable[[], None] = uncounted,
    ) -> SubmitResult:
        """The new job, or the one of an earlier submission with the same key, once the journal has it.

        Raises InvalidJob, KeyConflict, Unavailable; WrongPhase if it is to continue without a checkpoint;
        TooManyOpenJobs if its tenant would have more than `max_open` jobs that have not ended; whatever
        `count` does, which is called before there is a new job.
        """
        self._journal.refuse_while_stalled()

        def checked(spec: JobSpec, in_flight: Collection[str]) -> JobSpec:
            spec = self._checked(spec)
            if max_open is not None:
                check_room(spec.tenant, {*in_flight, *self._board.open_of(spec.tenant)}, max_open)
            count()
            return spec

        return self._submitter.submit(spec, origin, checked)

    def _checked(self, spec: JobSpec) -> JobSpec:
        """The job as it is to be scheduled. Raises InvalidJob."""
        spec = with_kind(spec, self._board.devices_by_kind())
        check_job(spec, self._most_devices(spec), self._core.domain.sizes)
        return spec

    def _most_devices(self, spec: JobSpec) -> int:
        """Number of devices of the job's kind that are present, or may come.

        Where hosts may join, it is large enough for the job's smallest size.
        """
        kind = spec.kind
        own = sum(len(node.devices) for node in self._site.nodes if kind in ("", node.kind))
        ample = spec.devices_per_worker << spec.min_workers.bit_length() if self._site.hosts_may_join else 0
        return max(own, self._board.num_devices(kind), ample)

    def cancel(self, job_id: str) -> None:
        """Returns once the journal has it. Raises UnknownJob, Unavailable."""
        if self._lookup.job(job_id).finished_s is None:
            self._journal.refuse_while_stalled()
            receipt = self._inbox.request(CancelRequested(at_s=self._now_s(), job_id=job_id))
            result_of(receipt, f"job {job_id!r} may or may not be cancelled")

    def ask_deadline(self, job_id: str, deadline_s: float, accept_until_s: float | None = None) -> JobView:
        """Ask for another deadline of an open job, in calendar time; the job after the head's answer.

        One that is in its trial run is answered later: until then `asked_deadline_s` is set.

        Raises:
            UnknownJob, Unavailable, WrongPhase: the job has ended, or is being cancelled.
            InvalidJob: it cannot be strict.
        """
        view = self._lookup.job(job_id)
        check_promisable(view.name, view.elasticity)
        if view.phase.is_end:
            raise has_ended_error(view)
        self._journal.refuse_while_stalled()
        event = DeadlineChangeAsked(
            at_s=self._now_s(), job_id=job_id, deadline_s=deadline_s, accept_until_s=accept_until_s
        )
        receipt = self._inbox.request(event)
        if not result_of(receipt, f"job {job_id!r} may or may not have another deadline"):
            raise has_ended_error(self._lookup.job(job_id))
        return self._lookup.job(job_id)
