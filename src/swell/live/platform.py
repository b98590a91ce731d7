"""A platform while it is up: its parts, what is known of its jobs and nodes, and what users ask of it."""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

from swell import __version__
from swell.core.kinds import named_kinds
from swell.core.platform_core import PlatformCore
from swell.live.clock import LocalClock, followed, suspected
from swell.live.counters import PlatformValues
from swell.live.head_thread import Executor, HeadThread, Site
from swell.live.job_checks import (
    check_booked,
    check_findings,
    check_fixed,
    check_job,
    check_promisable,
    check_room,
    check_session,
    has_ended_error,
    with_named_kinds,
    with_predecessors,
)
from swell.live.job_source import JobSource
from swell.live.platform_warnings import disk_warning, policy_warnings
from swell.live.pruning import PruneRequest, PruneThread
from swell.live.submitter import ALPHABET, JobFiles, PendingSubmission, Submitter
from swell.live.watches import ABOUT_QUOTAS, Space, SpaceWatch
from swell.live.webhooks import Webhooks
from swell.model.booking import Booking
from swell.model.deadline_state import deadline_state
from swell.model.errors import (
    BookingRefused,
    InvalidInput,
    NodeInUse,
    UnknownBooking,
    UnknownNode,
    WrongPhase,
)
from swell.model.event import (
    AnyEvent,
    BookingMade,
    BookingRemoved,
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
from swell.model.job import PLAIN, Elasticity, JobSpec, Origin, Phase
from swell.model.job_query import JobQuery
from swell.model.names import KIND_RULE, is_kind
from swell.model.quota import NO_CLAIMS, Claims, TenantDevices, devices_of_tenants
from swell.model.throughput import JobThroughput
from swell.model.usage import GangUsage, total_usage
from swell.model.view import (
    ClusterView,
    JobView,
    NodeView,
    PrunedJob,
    SubmitResult,
    keeps_devices,
)
from swell.store.journal import JournalHistory, SqlJournal
from swell.wire.job_inputs import NO_INPUTS, JobInputs

#: What an owner may ask of an open job.
ChangeAsked = HoldRequested | ResumeRequested | DifferencesAccepted | PriorityChanged | DeadlineChangeAsked
#: What is shown of a node that is drained, and of one that is removed.
DRAINED = "drained, until `swell nodes drain --undo`"
REMOVED = "being removed"

#: Ended jobs of a name of which it is looked how long they took.
NUM_LEARNT = 20


class Platform(JobSource):
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
        system_clocks: LocalClock | None = None,
        webhooks: Webhooks | None = None,
        read_quotas: Callable[[], Claims] = lambda: NO_CLAIMS,
    ) -> None:
        """Args:
        tell: hears why the platform stands still, and an empty text when it goes on.
        webhooks: None: nothing is told to any address.
        read_quotas: see `QuotaWatch`.
        """
        self._webhooks = webhooks or Webhooks(store)
        head = HeadThread(site, core, store, executor, tell, system_clocks, self._webhooks, read_quotas)
        super().__init__(head.board, store, executor.device_readings)
        #: Warnings of what works beside the platform, by what they are about.
        self.remarks: dict[str, str] = {}
        #: What is counted from the daemon's start on.
        self.counters = head.counters
        self._site, self._core, self._executor, self._head = site, core, executor, head
        self._clock, self._inbox, self._journal = head.clock, head.inbox, head.journal
        self._submitter = Submitter(self._inbox, self._clock.now_s, store, JobFiles(site.jobs_dir))
        self._booking_lock = threading.Lock()
        self._disk = SpaceWatch(site.jobs_dir.resolve().parent)
        self._pruner = PruneThread(store, site.jobs_dir, self._clock.now_s, self._board.post_pruned)

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
    def policy(self) -> str:
        """Name of the policy that decides."""
        return self._site.policy

    @property
    def num_open(self) -> int:
        """Jobs that have not ended."""
        return self._board.num_open

    def head_state(self) -> bytes:
        """All that the head remembers, as it stands (`PlatformCore.save`); asking changes nothing.

        Raises Unavailable if the head does not come to the end of a turn.
        """
        return self._inbox.call_between_turns(self._core.save)

    def throughput(self, job_id: str) -> JobThroughput | None:
        """The curve of a job that has not ended; None if it has no profile, or has ended.

        Raises UnknownJob; Unavailable if the head does not come to the end of a turn.
        """
        found = self.found(job_id)
        return (
            None
            if found.phase.is_end
            else self._inbox.call_between_turns(lambda: self._core.throughput(found.id))
        )

    def _ask(self, event: AnyEvent, doubt: str) -> bool:
        """Hand an event to the head; False if it was stale. Raises Unavailable."""
        self._journal.refuse_while_stalled()
        return self._inbox.put_and_wait(event, doubt)

    # ------------------------------------------------------------ jobs
    def submit(
        self,
        spec: JobSpec,
        origin: Origin = PLAIN,
        max_open: int | None = None,
        inputs: JobInputs = NO_INPUTS,
    ) -> SubmitResult:
        """The new job, or the one of an earlier submission with the same key.

        Raises InvalidJob, KeyInUse, Unavailable; WrongPhase if it is to continue without a checkpoint;
        TooManyOpenJobs if its tenant would have more than `max_open` jobs that have not ended.
        """
        self._journal.refuse_while_stalled()

        def checked(spec: JobSpec, pending: Collection[PendingSubmission]) -> JobSpec:
            spec = self._checked(spec, origin.user, pending)
            before = [one.job_id for one in pending if one.spec.tenant == spec.tenant]
            self.check_room(spec.tenant, before, max_open)
            return spec

        return self._submitter.submit(spec, origin, checked, inputs)

    def has_key(self, key: str) -> bool:
        """Whether a job was submitted with this key."""
        return bool(key) and self._store.submission_of_key(key) is not None

    def check_jobs(self, specs: Sequence[JobSpec], user: str) -> None:
        """Raises InvalidJob if one of them could not be submitted; each may follow those before it."""
        names = set[str]()
        for spec in specs:
            after = tuple(word for word in spec.after if word not in names)
            self._checked(msgspec.structs.replace(spec, after=after), user)
            names.add(spec.name)

    def check_room(self, tenant: str, before: Collection[str], max_open: int | None) -> None:
        """Raises TooManyOpenJobs if a tenant could not have another one, once those before it are jobs."""
        if max_open is not None:
            own = [view.id for view in self._board.views() if view.tenant == tenant]
            check_room(tenant, {*before, *own}, max_open)

    def _checked(self, spec: JobSpec, user: str, pending: Collection[PendingSubmission] = ()) -> JobSpec:
        """The job as it is to be scheduled. Raises InvalidJob."""
        spec = with_predecessors(spec, self.candidates)
        if spec.booking:
            booking = self._board.latest.bookings.get(spec.booking)
            check_booked(spec, booking, user, self.now_s())
            spec = msgspec.structs.replace(spec, kind=booking.kind if booking else "", kinds=())
        spec = with_named_kinds(spec, self._board.devices_by_kind())
        kinds = [spec.kind]
        if spec.kinds and not spec.kind:
            kinds = [*named_kinds(spec.kinds, tuple(self._board.devices_by_kind()))]
        nodes = max((self._nodes_of(kind) for kind in kinds), key=sum, default=[])
        if spec.fixed is not None:
            there = None if self._site.hosts_may_join else nodes
            check_fixed(spec, there, self._site.longest_time_s)
            if spec.fixed.is_session:
                own: dict[str, JobSpec | JobView] = {
                    one.job_id: one.spec for one in pending if one.origin.user == user
                }
                own |= {view.id: view for view in self._board.jobs(lambda view: view.user == user)}
                check_session(spec, own, self._site.session_devices or max(1, sum(nodes) // 2))
            return msgspec.structs.replace(spec, estimate_s=self._learnt_s(spec.name, user))
        # Where hosts may join, there is room for the smallest size.
        ample = spec.devices_per_worker << spec.min_workers.bit_length() if self._site.hosts_may_join else 0
        check_job(spec, max(ample, sum(nodes)), self._core.domain.sizes)
        return spec

    def _nodes_of(self, kind: str) -> list[int]:
        """Devices of each node of the kind, or of any if it is empty, that is there or the platform's own."""
        nodes = {node.name: node for node in (*self._site.nodes, *self._board.latest.cluster.nodes)}
        return [len(node.devices) for node in nodes.values() if kind in ("", node.kind)]

    def _learnt_s(self, name: str, user: str) -> float | None:
        """Median length of the user's latest jobs of that name that succeeded; None: there are none."""
        query = JobQuery(phases=frozenset([Phase.SUCCEEDED]), name=name, limit=NUM_LEARNT)
        alike = [view for view in self._store.find(query) if (view.name, view.user) == (name, user)]
        lengths_s = [(view.finished_s or 0.0) - (view.started_s or 0.0) for view in alike if view.fixed]
        return median(lengths_s) if lengths_s else None

    def cancel(self, job_id: str) -> None:
        """No effect on a job that has ended. Raises UnknownJob, Unavailable."""
        if self.job(job_id).finished_s is None:
            event = CancelRequested(at_s=self._clock.now_s(), job_id=job_id)
            self._ask(event, f"job {job_id!r} may or may not be cancelled")

    def hold(self, job_id: str) -> JobView:
        """Have a job give up its devices, with its state saved, and wait until it is resumed; the job then.

        No effect on one that is held. Raises UnknownJob, Unavailable; WrongPhase: it has ended, is being
        cancelled, or runs a command that may not be suspended.
        """
        if keeps_devices(self.job(job_id)):
            raise WrongPhase(
                f"job {job_id!r} runs a command that cannot go on later, for it was submitted without "
                f"--may-suspend; let it run, or `swell cancel {job_id}`"
            )
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
        check_promisable(view.name, view.elasticity is not Elasticity.RESTART or view.total_steps is not None)
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
        read = self._readings()
        return tuple(
            msgspec.structs.replace(
                node,
                is_joined=node.name not in own,
                readings={device: read[device] for device in node.devices if device in read},
            )
            for node in nodes
        )

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

    def test_node(self, name: str) -> NodeView:
        """Have the devices of a drained node tested; the node as it is. Its `tests` and `tested_s` follow.

        Raises:
            UnknownNode, Unavailable.
            NodeInUse: jobs may be there, or come.
        """
        self._journal.refuse_while_stalled()
        node = self.node(name)
        if node.leaving is None or node.jobs:
            why = f"it has workers of {', '.join(node.jobs)}" if node.jobs else "jobs may be placed on it"
            raise NodeInUse(f"node {name!r} cannot be tested: {why}; drain it, and wait until it is empty")
        self._executor.test_node(name, tuple(node.devices))
        return node

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
                f"{kind[:80]!r} cannot be a kind of device: it has {KIND_RULE}; `swell nodes` names it"
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

    # ------------------------------------------------------------ bookings
    def bookings(self) -> tuple[Booking, ...]:
        """Those that are not over, the next one first."""
        now_s, found = self.now_s(), self._board.latest.bookings.values()
        times_s = {one.id: time_s for one in found if (time_s := one.time_after(now_s)) is not None}
        return tuple(sorted((one for one in found if one.id in times_s), key=lambda one: times_s[one.id]))

    def booking(self, booking_id: str) -> Booking:
        """Raises UnknownBooking."""
        if (found := self._board.latest.bookings.get(booking_id)) is None:
            raise UnknownBooking(f"there is no booking {booking_id!r}; `swell book --list` lists all")
        return found

    def book(self, booking: Booking) -> Booking:
        """Keep devices for the booking's owner at its times; the booking, with an id.

        Raises:
            BookingRefused: something is in the way; the text names the nearest time at which nothing is.
            InvalidInput: there are no such devices. UnknownNode, Unavailable.
        """
        self._journal.refuse_while_stalled()
        kind = self.node(booking.node).kind if booking.node else self._booked_kind(booking)
        with self._booking_lock:  # the head weighs one once it has heard of those before
            known, new = self._board.latest.bookings, ""
            while not new or new in known:
                new = f"b-{''.join(secrets.choice(ALPHABET) for _ in range(4))}"
            booking = msgspec.structs.replace(booking, id=new, kind=kind)
            receipt = self._inbox.call_between_turns(partial(self._weigh, booking))
            self._inbox.wait_for_receipt(receipt, f"booking {new!r} may or may not have been made")
        return booking

    def _booked_kind(self, booking: Booking) -> str:
        there = self._board.devices_by_kind()
        if not booking.kind and len(there) != 1:
            raise InvalidInput(
                f"--kind: name the kind of devices: {', '.join(sorted(there)) or 'there are none'}"
            )
        kind = booking.kind or next(iter(there))
        if (num := sum(self._nodes_of(kind))) < booking.num_devices:
            raise InvalidInput(f"--devices: the platform has {num} of kind {kind!r}; book no more than these")
        return kind

    def _weigh(self, booking: Booking) -> Future[bool]:
        """In the head's thread, between two turns: the next one has the booking."""
        if (refusal := self._core.weigh_booking(booking)) is not None:
            when = "no time is known at which they are free"
            if refusal.earliest_s is not None:
                at = datetime.fromtimestamp(refusal.earliest_s, UTC)
                when = f"they are free from {at.isoformat()} on"
            raise BookingRefused(f"{refusal.text}; {when}")
        return self._inbox.put_request(BookingMade(at_s=self._clock.now_s(), booking=booking))

    def remove_booking(self, booking_id: str) -> Booking:
        """Let any job have its devices again; the booking as it was. Raises UnknownBooking, Unavailable."""
        booking = self.booking(booking_id)
        event = BookingRemoved(at_s=self._clock.now_s(), booking_id=booking_id)
        self._ask(event, f"booking {booking_id!r} may or may not be removed")
        return booking

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
        space = self._disk.measure()
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
            bookings=self.bookings(),
            borrowed=self._board.latest.reclaims.view(self._clock.now_s()),
            hosts_may_join=self._site.hosts_may_join,
            engine=self._site.engine,
            accounts=self._core.account_shares,
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
        """Return what an operator is to be warned of now, by what it is about."""
        stall = f"the platform stands still, jobs that run train on: {self._journal.why}"
        warnings = {
            **self.remarks,
            **dict(policy_warnings(self._core, self._site.policy, nodes)),
            ABOUT_QUOTAS: self._head.quotas.why,
            "journal": stall if self._journal.why else "",
            "disk": disk_warning(self._disk.path, space, self._site.retention.min_free_bytes),
        }
        return {about: text for about, text in warnings.items() if text}

    def tenant_devices(self) -> Mapping[tuple[str, str], TenantDevices]:
        """Devices held and allowed, by tenant with a quota and kind of device. Cheap if no tenant has one."""
        quotas = self._core.quotas
        return devices_of_tenants(quotas, self._nodes(), self._board.views()) if quotas else {}

    def measures(self) -> PlatformValues:
        """What operators measure, after the last scheduling cycle."""
        open_jobs, now_s = self._board.open_jobs(), self._clock.now_s()
        views = [view for view, _ in open_jobs]
        return PlatformValues(
            cluster=self.cluster(),
            jobs=Counter((view.phase, view.job_class) for view in views),
            promises=Counter(
                deadline_state(view, now_s, expected_s) for view, expected_s in open_jobs if view.is_promised
            ),
            num_workers=sum(view.workers for view in views),
            num_batches=self._store.last_seq,
            webhooks=self._webhooks.counts,
            tenants=self.tenant_devices(),
            used=total_usage(
                GangUsage(
                    cpu_s=view.cpu_s or 0.0,
                    memory_bytes=view.memory_used_bytes or 0,
                    read_bytes=view.read_bytes,
                    written_bytes=view.written_bytes,
                )
                for view in views
            ),
        )
