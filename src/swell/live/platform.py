"""A platform while it is up: its parts, what is known of its jobs and nodes, and what users ask of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from swell import __version__
from swell.core.kind_choice import named_kinds
from swell.core.platform_core import PlatformCore
from swell.live.clock import SystemClocks, followed, suspected
from swell.live.counters import Measures, usage_of
from swell.live.disk_space import DiskSpace, Space
from swell.live.head_thread import Executor, HeadThread, Site
from swell.live.job_checks import (
    check_findings,
    check_job,
    check_promisable,
    check_room,
    has_ended_error,
    with_named_kinds,
    with_predecessors,
)
from swell.live.job_lookup import JobLookup
from swell.live.pruning import Pruner, PruneRequest
from swell.live.submitter import JobFolders, Submitter
from swell.live.watches import ABOUT_QUOTAS
from swell.live.webhooks import Webhooks
from swell.model.deadline_state import deadline_state
from swell.model.errors import InvalidInput, NodeInUse, UnknownNode
from swell.model.event import (
    AnyEvent,
    CancelRequested,
    DeadlineChangeAsked,
    DifferencesAccepted,
    HoldRequested,
    KindAllowed,
    NodeCleared,
    NodeWarned,
    PriorityChanged,
    ResumeRequested,
)
from swell.model.job import PLAIN, JobSpec, Origin
from swell.model.kind import RULE, is_kind
from swell.model.quota import NO_QUOTAS, Quotas, TenantDevices, devices_of_tenants
from swell.model.share_mode import ABOUT_PROMISES, ABOUT_SHARES
from swell.model.sizes import format_bytes
from swell.model.throughput import JobThroughput
from swell.model.usage import total_usage
from swell.model.view import ClusterView, JobView, NodeView, PrunedJob, SubmitResult
from swell.store.journal import JournalHistory, SqlJournal

#: What an owner may ask of an open job.
ChangeAsked = HoldRequested | ResumeRequested | DifferencesAccepted | PriorityChanged | DeadlineChangeAsked
#: What is shown of a node that is drained, and of one that is removed.
DRAINED = "drained, until `swell nodes drain --undo`"
REMOVED = "being removed"


class Platform(JobLookup):
    """What the control API asks. Calls come from any thread, but for `recover` and `run`; times are calendar
    time. Those that change something return once the journal has it, which takes milliseconds, or raise
    Unavailable.
    """

    def __init__(
        self,
        site: Site,
        core: PlatformCore,
        store: SqlJournal,
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
        self._webhooks = webhooks or Webhooks(store)
        head = HeadThread(site, core, store, executor, tell, system_clocks, self._webhooks, read_quotas)
        super().__init__(head.board, store)
        #: Warnings of what works beside the platform, by what they are about.
        self.remarks: dict[str, str] = {}
        #: What is counted from the daemon's start on.
        self.counters = head.counters
        self._site, self._core, self._executor, self._head = site, core, executor, head
        self._clock, self._inbox, self._journal = head.clock, head.inbox, head.journal
        self._submitter = Submitter(self._inbox, self._clock.now_s, store, JobFolders(site.jobs_dir))
        self._disk = DiskSpace(site.jobs_dir.resolve().parent)
        self._pruner = Pruner(store, site.jobs_dir, self._clock.now_s, self._board.note_pruned)

    # ------------------------------------------------------------ the head
    def recover(self, history: JournalHistory) -> None:
        """See `HeadThread.recover`."""
        self._head.recover(history)

    def start(self) -> None:
        """See `HeadThread.start`."""
        self._head.start()

    def run(self) -> None:
        """See `HeadThread.run`."""
        self._pruner.start(self._site.retention)
        try:
            self._head.run()
        finally:
            self._pruner.stop()

    def stop(self) -> None:
        """Suspend every job and end the platform, processes and all; returns before that is done."""
        self._head.stop()

    @property
    def num_open(self) -> int:
        """Jobs that have not ended."""
        return self._board.num_open

    def head_state(self) -> bytes:
        """All that the head remembers, as it stands (`PlatformCore.save`); asking changes nothing.

        Raises Unavailable if the head does not come to the end of a turn.
        """
        return self._inbox.consult(self._core.save)

    def throughput(self, job_id: str) -> JobThroughput | None:
        """The curve of a job that has not ended; None if it has no profile, or has ended.

        Raises UnknownJob; Unavailable if the head does not come to the end of a turn.
        """
        found = self.found(job_id)
        return None if found.phase.is_end else self._inbox.consult(lambda: self._core.throughput(found.id))

    def _ask(self, event: AnyEvent, doubt: str) -> bool:
        """Hand an event to the head; False if it was stale. Raises Unavailable, see `Inbox.ask`."""
        self._journal.refuse_while_stalled()
        return self._inbox.ask(event, doubt)

    # ------------------------------------------------------------ jobs
    def submit(
        self,
        spec: JobSpec,
        origin: Origin = PLAIN,
        max_open: int | None = None,
    ) -> SubmitResult:
        """The new job, or the one of an earlier submission with the same key.

        Raises InvalidJob, KeyConflict, Unavailable; WrongPhase if it is to continue without a checkpoint;
        TooManyOpenJobs if its tenant would have more than `max_open` jobs that have not ended.
        """
        self._journal.refuse_while_stalled()

        def checked(spec: JobSpec, in_flight: Collection[str]) -> JobSpec:
            spec = self._checked(spec)
            if max_open is not None:
                own = [view.id for view in self._board.views() if view.tenant == spec.tenant]
                check_room(spec.tenant, {*in_flight, *own}, max_open)
            return spec

        return self._submitter.submit(spec, origin, checked)

    def _checked(self, spec: JobSpec) -> JobSpec:
        """The job as it is to be scheduled. Raises InvalidJob."""
        spec = with_predecessors(spec, self.candidates)
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
        own, there = self._site.nodes, self._board.latest.cluster.nodes
        return max(
            sum(len(node.devices) for node in nodes if kind in ("", node.kind)) for nodes in (own, there)
        )

    def cancel(self, job_id: str) -> None:
        """No effect on a job that has ended. Raises UnknownJob, Unavailable."""
        if self.job(job_id).finished_s is None:
            event = CancelRequested(at_s=self._clock.now_s(), job_id=job_id)
            self._ask(event, f"job {job_id!r} may or may not be cancelled")

    def hold(self, job_id: str) -> JobView:
        """Have a job give up its devices, with its state saved, and wait until it is resumed; the job then.

        No effect on one that is held. Raises UnknownJob, Unavailable; WrongPhase: it has ended, or is being
        cancelled.
        """
        return self._set_held(HoldRequested(at_s=self._clock.now_s(), job_id=job_id), "held")

    def resume(self, job_id: str) -> JobView:
        """Let a held job go on; no effect on another one. Raises as `hold` does."""
        return self._set_held(ResumeRequested(at_s=self._clock.now_s(), job_id=job_id), "resumed")

    def _set_held(self, event: HoldRequested | ResumeRequested, done: str) -> JobView:
        self._change(event, f"be {done}", f"cannot be {done}")
        view = self.job(event.job_id)
        if view.phase.is_end or view.is_held is not isinstance(event, HoldRequested):
            raise has_ended_error(view, f"cannot be {done}")
        return view

    def _change(self, event: ChangeAsked, what: str, consequence: str, option: str = "") -> bool:
        """Hand an event about an open job to the head; False if it was stale.

        Raises UnknownJob, Unavailable; WrongPhase: the job has ended.
        """
        view = self.job(event.job_id)
        if view.phase.is_end:
            raise has_ended_error(view, consequence, option)
        return self._ask(event, f"job {view.id!r} may or may not {what}")

    def accept_differences(self, job_id: str, names: Collection[str]) -> JobView:
        """Let findings of its trial run not hold an open job any more; the job after that.

        Raises:
            UnknownJob, Unavailable; WrongPhase: the job has ended.
            InvalidJob: its trial run is over and has not found this.
        """
        if not (view := self.job(job_id)).phase.is_end:
            check_findings(view, names)
        event = DifferencesAccepted(at_s=self._clock.now_s(), job_id=job_id, names=tuple(names))
        self._change(event, "be held any more", "is not limited by its findings any more")
        return self.job(job_id)

    def change_priority(self, job_id: str, priority: int | None, weight: float | None = None) -> JobView:
        """Give an open job another priority, another weight, or both; the job after that.

        Raises UnknownJob, Unavailable; WrongPhase: the job has ended.
        """
        event = PriorityChanged(at_s=self._clock.now_s(), job_id=job_id, priority=priority, weight=weight)
        self._change(event, "have another priority or weight", "has no other priority or weight")
        return self.job(job_id)

    def ask_deadline(self, job_id: str, deadline_s: float, accept_until_s: float | None = None) -> JobView:
        """Ask for another deadline of an open job; the job after the head's answer.

        One that is in its trial run is answered later: until then `asked_deadline_s` is set.

        Raises:
            UnknownJob, Unavailable, WrongPhase: the job has ended, or is being cancelled.
            InvalidJob: it cannot be strict.
        """
        view = self.job(job_id)
        check_promisable(view.name, view.elasticity)
        event = DeadlineChangeAsked(
            at_s=self._clock.now_s(), job_id=job_id, deadline_s=deadline_s, accept_until_s=accept_until_s
        )
        without = ("has no other deadline", " --deadline TIME")
        if not self._change(event, "have another deadline", *without):
            raise has_ended_error(self.job(job_id), *without)
        return self.job(job_id)

    def prune(self, request: PruneRequest) -> list[PrunedJob]:
        """Remove ended jobs; what was, or would be, freed. Raises UnknownJob, Unavailable. May take long."""
        calendar, before_s = self._board.calendar, request.ended_before_s
        if before_s is not None:
            request = msgspec.structs.replace(request, ended_before_s=before_s - calendar.offset_s)
        pruned = self._pruner.prune(request)
        return [msgspec.structs.replace(job, ended_s=calendar.time_of(job.ended_s)) for job in pruned]

    def log_dir(self, job_id: str) -> Path:
        """Folder of the job's log files, `worker-N.log` each. Raises UnknownJob."""
        return self._site.jobs_dir / self.found(job_id).id

    # ------------------------------------------------------------ nodes
    def node(self, name: str) -> NodeView:
        """Raises UnknownNode."""
        nodes = {node.name: node for node in self._nodes()}
        if name not in nodes:
            there = f"these are there: {', '.join(nodes)}" if nodes else "none has joined"
            raise UnknownNode(f"there is no node {name!r}; {there}")
        return nodes[name]

    def _nodes(self) -> tuple[NodeView, ...]:
        """Those that are there, after the last scheduling cycle."""
        own = {node.name for node in self._site.nodes}
        nodes = self._board.nodes()
        return tuple(msgspec.structs.replace(node, is_joined=node.name not in own) for node in nodes)

    def drain_node(self, name: str) -> NodeView:
        """Place nothing on the node any more, and move what is there, until `undrain_node` or it is lost.

        Raises UnknownNode, Unavailable.
        """
        self.node(name)
        self._change_node(NodeWarned(at_s=self._clock.now_s(), name=name, why=DRAINED))
        return self.node(name)

    def undrain_node(self, name: str) -> NodeView:
        """Jobs may be placed on the node again, whatever had it left. Raises UnknownNode, Unavailable."""
        if self.node(name).leaving is not None:
            self._change_node(NodeCleared(at_s=self._clock.now_s(), name=name))
        return self.node(name)

    def _change_node(self, event: NodeWarned | NodeCleared) -> None:
        self._ask(event, f"node {event.name!r} may or may not be left")

    def allow_kind(self, kind: str) -> ClusterView:
        """Jobs may have devices of this kind, which are there or will be; the cluster after it.

        Raises:
            InvalidInput: no kind may be called so.
            Unavailable.
        """
        if not is_kind(kind):
            raise InvalidInput(
                f"{kind[:80]!r} cannot be a kind of device: it has {RULE}; `swell nodes` names it"
            )
        event = KindAllowed(at_s=self._clock.now_s(), kind=kind)
        self._ask(event, f"kind {kind!r} may or may not be allowed")
        return self.cluster()

    def remove_node(self, name: str, force: bool = False) -> NodeView:
        """Have the host of a node leave; the node as it was. `NodeLost` comes once its workers are gone.

        Of a node that is lost, the host is told to leave, or its name is forgotten: what is returned has no
        devices.

        Args:
            force: even if jobs have workers there, which these lose.

        Raises:
            UnknownNode, Unavailable.
            NodeInUse: jobs have workers there, or it is of the platform's own machine.
        """
        self._journal.refuse_while_stalled()
        if name in {lost.name for lost in self._board.lost_nodes()}:
            self._executor.remove_host(name)
            return NodeView(name=name, rack="", kind="", is_borrowed=False, devices={}, is_joined=True)
        node = self.node(name)
        if not node.is_joined:
            raise NodeInUse(
                f"node {name!r} is of the platform's own machine; only one that has joined can be removed: "
                "`swell nodes drain` keeps jobs away from this one, and `swell up --devices` changes it"
            )
        if node.jobs and not force:
            raise NodeInUse(
                f"node {name!r} has workers of {', '.join(node.jobs)}: `swell nodes drain {name}` moves them "
                "to other nodes first; with --force they are lost: their jobs go on without them, or from "
                "their last checkpoints"
            )
        self._change_node(NodeWarned(at_s=self._clock.now_s(), name=name, why=REMOVED))
        self._executor.remove_host(name)
        return node

    # ------------------------------------------------------------ the platform
    def now_s(self) -> float:
        """The platform's calendar time, to which `now` in a deadline refers."""
        return self._board.calendar.time_of(self._clock.now_s())

    def cluster(self) -> ClusterView:
        """Nodes, holders of devices, disk space and warnings, after the last scheduling cycle."""
        nodes = self._nodes()
        owners = [owner for node in nodes for owner in node.devices.values()]
        free = [
            device for node in nodes if not node.leaving for device in node.devices.values() if not device
        ]
        space = self._disk.look()
        return ClusterView(
            version=__version__,
            policy=self._site.policy,
            now_s=self.now_s(),
            started_s=self._board.calendar.time_of(self._head.started_s),
            nodes=nodes,
            num_devices=len(owners),
            num_free=len(free),
            num_stale_reports=self._board.latest.num_stale,
            journal_bytes=self._store.bytes_on_disk,
            clock_note=self._clock_note(),
            disk_free_bytes=0 if space is None else space.free,
            disk_bytes=0 if space is None else space.total,
            warnings=self._warnings(space, nodes),
            lost_nodes=self._board.lost_nodes(),
            borrowed=self._board.latest.reclaims.view(self._clock.now_s()),
            hosts_may_join=self._site.hosts_may_join,
            engine=self._site.engine,
            no_nodes=self._site.no_nodes,
        )

    def _clock_note(self) -> str:
        """A step of the machine's clock, while a job is open whose deadline has moved by it or may yet."""
        if ahead_s := self._clock.ahead_s:
            return suspected(ahead_s)
        calendar = self._board.calendar
        stepped_s = calendar.stepped_s
        if stepped_s is None or not any(
            view.deadline_s is not None and view.submitted_s < stepped_s for view in self._board.views()
        ):
            return ""
        return followed(calendar.step_s, self._clock.now_s() - stepped_s)

    def _warnings(self, space: Space | None, nodes: Sequence[NodeView]) -> dict[str, str]:
        """Return what an operator is to be warned of now, by what it is about.

        Args:
            space: for files of jobs; None: their disk does not answer.
        """
        warnings = dict(self.remarks)
        if lacks := [lack for lack in (self._executor.lack, self._lack_of_neighbours(nodes)) if lack]:
            warnings[ABOUT_SHARES] = "; ".join(lacks)
        if self._core.makes_promises and (crowded := [node for node in nodes if _is_crowded(node)]):
            warnings[ABOUT_PROMISES] = _told_of_whole_cores(self._site.policy, crowded)
        num_failed, failed = self._core.failed_plans
        if failed is not None:
            of_kind = f" for kind {failed.kind}" if failed.kind else ""
            warnings["plan"] = (
                f"no plan could be made{of_kind}, {num_failed} times in a row, and the last one is followed: "
                f"{failed.why}; `swell doctor` shows the trace"
            )
        if self._head.quotas.why:
            warnings[ABOUT_QUOTAS] = self._head.quotas.why
        if notices := self._store.notices:
            warnings["journal file"] = "; ".join(notices)
        if self._journal.why:
            warnings["journal"] = f"the platform stands still, jobs that run train on: {self._journal.why}"
        if space is None:
            warnings["disk"] = (
                f"{self._disk.path} does not answer: jobs train on, and their checkpoints, logs and starts "
                "wait for it; look after its file server"
            )
        elif space.free < (limit := self._site.retention.min_free_bytes):
            warnings["disk"] = (
                f"only {format_bytes(space.free)} are free on the disk of {self._disk.path}, "
                f"less than min_free_bytes={limit}: make room (`swell admin prune`), or lower the setting"
            )
        return warnings

    def _lack_of_neighbours(self, nodes: Sequence[NodeView]) -> str:
        """Why a policy that divides cores divides none; empty: it does, or is no such policy."""
        if any(map(_is_crowded, nodes)) or not nodes or not self._core.domain.shares_cores:
            return ""
        return (
            f"policy {self._site.policy} divides the cores that jobs of a node share, and here each device "
            "has a core of its own: shares change nothing while a worker uses one core; give `swell up` more "
            "devices than cores, as --devices cpu:4 --cores 2"
        )

    def tenant_devices(self) -> Mapping[tuple[str, str], TenantDevices]:
        """Devices held and allowed, by tenant with a quota and kind of device. Cheap if no tenant has one."""
        quotas = self._core.quotas
        return devices_of_tenants(quotas, self._nodes(), self._board.views()) if quotas else {}

    def measures(self) -> Measures:
        """What operators measure, after the last scheduling cycle."""
        open_jobs, now_s = self._board.open_jobs(), self._clock.now_s()
        views = [view for view, _ in open_jobs]
        return Measures(
            cluster=self.cluster(),
            jobs=Counter((view.phase, view.job_class) for view in views),
            promises=Counter(
                deadline_state(view, now_s, expected_s) for view, expected_s in open_jobs if view.is_promised
            ),
            num_workers=sum(view.workers for view in views),
            num_batches=self._store.last_seq,
            webhooks=self._webhooks.counts,
            tenants=self.tenant_devices(),
            used=total_usage(usage_of(view) for view in views),
        )


def _is_crowded(node: NodeView) -> bool:
    return node.cores is not None and node.cores < len(node.devices)


def _told_of_whole_cores(policy: str, crowded: Sequence[NodeView]) -> str:
    """What becomes of slots beyond the cores where deadlines are promised."""
    num_slots = sum(len(node.devices) for node in crowded)
    num_whole = sum(max(1, math.floor(node.cores or 0.0)) for node in crowded)
    return (
        f"policy {policy} promises deadlines, and {num_slots} devices share fewer cores: while a deadline is "
        f"promised, {num_whole} of them are used, so that each worker has a core; else all are"
    )
