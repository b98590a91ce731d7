"""What users ask of the head about a job: to take it, to cancel or to hold it, another deadline."""

from __future__ import annotations

from collections.abc import Callable, Collection

from swell.core.kind_choice import named_kinds
from swell.core.platform_core import PlatformCore
from swell.live.board import ViewBoard
from swell.live.inbox import Inbox
from swell.live.job_checks import check_findings, check_job, check_promisable, check_room, has_ended_error
from swell.live.job_lookup import JobLookup
from swell.live.named_kinds import with_named_kinds
from swell.live.predecessors import with_predecessors
from swell.live.retrying_journal import RetryingJournal
from swell.live.site import Site
from swell.live.submitter import Submitter, result_of
from swell.model.errors import WrongPhase
from swell.model.event import (
    CancelRequested,
    DeadlineChangeAsked,
    DifferencesAccepted,
    HoldRequested,
    PriorityChanged,
    ResumeRequested,
)
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
    ) -> SubmitResult:
        """The new job, or the one of an earlier submission with the same key, once the journal has it.

        Raises InvalidJob, KeyConflict, Unavailable; WrongPhase if it is to continue without a checkpoint;
        TooManyOpenJobs if its tenant would have more than `max_open` jobs that have not ended.
        """
        self._journal.refuse_while_stalled()

        def checked(spec: JobSpec, in_flight: Collection[str]) -> JobSpec:
            spec = self._checked(spec)
            if max_open is not None:
                check_room(spec.tenant, {*in_flight, *self._board.open_of(spec.tenant)}, max_open)
            return spec

        return self._submitter.submit(spec, origin, checked)

    def _checked(self, spec: JobSpec) -> JobSpec:
        """The job as it is to be scheduled. Raises InvalidJob."""
        spec = with_predecessors(spec, self._lookup)
        spec = with_named_kinds(spec, self._board.devices_by_kind())
        check_job(spec, self._most_devices(spec), self._core.domain.sizes)
        return spec

    def _most_devices(self, spec: JobSpec) -> int:
        """Number of devices of the job's kind, or of the largest of several, that are there or may come.

        Where hosts may join, it is large enough for the job's smallest size.
        """
        ample = spec.devices_per_worker << spec.min_workers.bit_length() if self._site.hosts_may_join else 0
        if spec.kind or not spec.kinds:
            return max(self._devices_of(spec.kind), ample)
        kinds = named_kinds(spec.kinds, tuple(self._board.devices_by_kind()))
        return max(ample, *map(self._devices_of, kinds))

    def _devices_of(self, kind: str) -> int:
        """Devices of the kind, or of any if it is empty, that are present or the platform's own."""
        own = sum(len(node.devices) for node in self._site.nodes if kind in ("", node.kind))
        return max(own, self._board.num_devices(kind))

    def cancel(self, job_id: str) -> None:
        """Returns once the journal has it. Raises UnknownJob, Unavailable."""
        if self._lookup.job(job_id).finished_s is None:
            self._journal.refuse_while_stalled()
            receipt = self._inbox.request(CancelRequested(at_s=self._now_s(), job_id=job_id))
            result_of(receipt, f"job {job_id!r} may or may not be cancelled")

    def accept_differences(self, job_id: str, names: Collection[str]) -> JobView:
        """Let findings of its trial run not hold an open job any more; the job after that.

        Raises:
            UnknownJob, Unavailable; WrongPhase: the job has ended.
            InvalidJob: its trial run is over and has not found this.
        """
        view = self._lookup.job(job_id)
        if view.phase.is_end:
            raise has_ended_error(view, "is not limited by its findings any more")
        check_findings(view, names)
        self._journal.refuse_while_stalled()
        event = DifferencesAccepted(at_s=self._now_s(), job_id=job_id, names=tuple(names))
        result_of(self._inbox.request(event), f"job {job_id!r} may or may not be held any more")
        return self._lookup.job(job_id)

    def change_priority(self, job_id: str, priority: int | None, weight: float | None = None) -> JobView:
        """Give an open job another priority, another weight, or both; the job after that.

        Raises UnknownJob, Unavailable; WrongPhase: the job has ended.
        """
        view = self._lookup.job(job_id)
        if view.phase.is_end:
            raise has_ended_error(view, "has no other priority or weight")
        self._journal.refuse_while_stalled()
        event = PriorityChanged(at_s=self._now_s(), job_id=job_id, priority=priority, weight=weight)
        result_of(
            self._inbox.request(event), f"job {job_id!r} may or may not have another priority or weight"
        )
        return self._lookup.job(job_id)

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
            raise _has_no_other_deadline(view)
        self._journal.refuse_while_stalled()
        event = DeadlineChangeAsked(
            at_s=self._now_s(), job_id=job_id, deadline_s=deadline_s, accept_until_s=accept_until_s
        )
        receipt = self._inbox.request(event)
        if not result_of(receipt, f"job {job_id!r} may or may not have another deadline"):
            raise _has_no_other_deadline(self._lookup.job(job_id))
        return self._lookup.job(job_id)

    def hold(self, job_id: str) -> JobView:
        """Have a job give up its devices, with its state saved, and wait until it is resumed; the job then.

        No effect on one that is held. Raises UnknownJob, Unavailable; WrongPhase: it has ended, or is being
        cancelled.
        """
        return self._set_held(HoldRequested(at_s=self._now_s(), job_id=job_id), is_held=True)

    def resume(self, job_id: str) -> JobView:
        """Let a held job go on; no effect on another one. Raises as `hold` does."""
        return self._set_held(ResumeRequested(at_s=self._now_s(), job_id=job_id), is_held=False)

    def _set_held(self, event: HoldRequested | ResumeRequested, is_held: bool) -> JobView:
        view = self._lookup.job(event.job_id)
        if not view.phase.is_end:
            self._journal.refuse_while_stalled()
            receipt = self._inbox.request(event)
            result_of(receipt, f"job {view.id!r} may or may not be {'held' if is_held else 'resumed'}")
            view = self._lookup.job(event.job_id)
        if view.phase.is_end or view.is_held is not is_held:
            raise has_ended_error(view, f"cannot be {'held' if is_held else 'resumed'}")
        return view


def _has_no_other_deadline(view: JobView) -> WrongPhase:
    return has_ended_error(view, "has no other deadline", " --deadline TIME")
