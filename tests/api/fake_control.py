"""A platform without processes: it admits, refuses and remembers."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from tests.store.views import added_up, job_view, outcome_of

from swell import __version__
from swell.live.board import BoardChanges
from swell.live.counters import PlatformCounts, PlatformValues
from swell.live.job_checks import check_fixed, check_room
from swell.live.job_source import metric_history
from swell.live.platform import Platform
from swell.live.pruning import PruneRequest, choose
from swell.model.booking import Booking
from swell.model.calendar import Calendar
from swell.model.errors import (
    BookingRefused,
    InvalidInput,
    NodeInUse,
    Unavailable,
    UnknownBooking,
    UnknownJob,
    UnknownNode,
    WrongPhase,
)
from swell.model.event import JobSubmitted
from swell.model.job import PLAIN, AfterRefusal, JobClass, JobSpec, Origin, Phase
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
from swell.model.names import is_kind
from swell.model.quota import TenantDevices
from swell.model.throughput import JobThroughput
from swell.model.usage import DeviceTest
from swell.model.view import (
    BorrowedNodes,
    ClusterView,
    JobView,
    LostNode,
    MetricHistory,
    NodeLeaving,
    NodeView,
    PrunedJob,
    Story,
    SubmitResult,
)
from swell.store.curves import CurvePoint
from swell.wire.job_inputs import NO_INPUTS, JobInputs

#: A strict job is refused when less than this is left, and offered this.
NEEDS_S = 60.0


class FakeControl(Platform):
    """Strict jobs with a minute or more are promised, others are refused; the rest run for ever."""

    policy = "elasticflow"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stopped = threading.Event()
        self.started_s = time.time()
        self.num_devices = 8
        self.cores: float | None = None  #: of its node
        self.rack = "rack0"
        self.warnings: dict[str, str] = {}
        self.joined: tuple[NodeView, ...] = ()  #: beside its own node
        self.lost: tuple[LostNode, ...] = ()
        self.borrowed: BorrowedNodes | None = None
        self.fault = ""  #: that a test finds of the first device of a node
        self.allowed: list[str] = []
        self.removed: list[str] = []
        self.tenants: dict[tuple[str, str], TenantDevices] = {}  #: that have quotas
        self.counters = PlatformCounts()
        self.is_full = False  #: its disk
        self.curves: dict[str, list[CurvePoint]] = {}  #: of each job
        self.throughputs: dict[str, JobThroughput] = {}  #: of jobs with a profile
        self.specs: dict[str, JobSpec] = {}
        self.booked: dict[str, Booking] = {}
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._jobs: dict[str, JobView] = {}
        self._submissions: dict[str, JobSubmitted] = {}
        self._changed: dict[str, int] = {}  # job -> the turn in which it was put last
        self._turn = self._planned_turn = 0
        self._folded: set[str] = set()
        self.turns_kept = 1024  #: of which it is known what they changed
        self._told: list[tuple[int, str, Story]] = []

    def now_s(self) -> float:
        return time.time()

    def submit(
        self,
        spec: JobSpec,
        origin: Origin = PLAIN,
        max_open: int | None = None,
        inputs: JobInputs = NO_INPUTS,
    ) -> SubmitResult:
        with self._lock:
            if max_open is not None:
                own = [view for view in self._jobs.values() if view.tenant == spec.tenant]
                check_room(spec.tenant, [view.id for view in own if not view.phase.is_end], max_open)
            if self.is_full:
                raise Unavailable("no folder can be made for the job")
            job_id = f"{spec.name}-{len(self._jobs):04d}"
            self.specs[job_id] = spec
            self._submissions[job_id] = JobSubmitted(
                at_s=self.now_s(), job_id=job_id, spec=spec, origin=origin
            )
            self._put(msgspec.structs.replace(self._judged(job_id, spec), user=origin.user))
        return SubmitResult(id=job_id, is_new=True, continues=origin.continues)

    def has_key(self, key: str) -> bool:
        return any(one.origin.key == key for one in self._submissions.values() if key)

    def check_jobs(self, specs: Sequence[JobSpec], user: str) -> None:
        for spec in specs:
            check_fixed(spec, [self.num_devices], 0.0)

    def check_room(self, tenant: str, before: Collection[str], max_open: int | None) -> None:
        if max_open is not None:
            own = [view.id for view in self._jobs.values() if view.tenant == tenant and not view.phase.is_end]
            check_room(tenant, {*own, *before}, max_open)

    def submission(self, job_id: str) -> JobSubmitted:
        found = self._submissions.get(self.job(job_id).id)
        if found is None:
            raise UnknownJob(f"how job {job_id!r} was submitted is not known")
        return found

    def _judged(self, job_id: str, spec: JobSpec) -> JobView:
        now_s = self.now_s()
        view = job_view(
            id=job_id,
            name=spec.name,
            tenant=spec.tenant,
            job_class=spec.job_class,
            entry=spec.entry,
            elasticity=spec.elasticity,
            args=spec.args,
            global_batch=spec.global_batch,
            min_workers=spec.min_workers,
            max_workers=spec.max_workers,
            submitted_s=now_s,
            started_s=now_s,
            sizes=((now_s, 2),),
            deadline_s=spec.deadline_s,
            estimated_finish_s=now_s + NEEDS_S,
            is_promised=spec.job_class is JobClass.STRICT,
            reason="2 workers are what it gains most from",
        )
        if spec.job_class is not JobClass.STRICT or (spec.deadline_s or 0.0) >= now_s + NEEDS_S:
            return view
        why = "8 devices cannot finish it before its deadline"
        refused = {"is_promised": False, "counter_offer_s": now_s + NEEDS_S}
        if spec.after_refusal is AfterRefusal.SOFT:
            soft = {"job_class": JobClass.SOFT, "is_unpromised": True, "refusal": why}
            return msgspec.structs.replace(view, **refused, **soft)
        return msgspec.structs.replace(
            view,
            **refused,
            phase=Phase.REJECTED,
            workers=0,
            finished_s=now_s,
            estimated_finish_s=None,
            reason_code="refused",
            reason=why,
        )

    def put(self, view: JobView) -> None:
        with self._lock:
            self._put(view)

    def _put(self, view: JobView) -> None:
        self._turn += 1
        self._news.notify_all()
        self._jobs[view.id] = view
        self._changed[view.id] = self._turn
        self._folded.discard(view.id)

    def plan(self, finish_s: float) -> None:
        """A new plan, by which all open jobs end then."""
        with self._lock:
            self._turn += 1
            self._news.notify_all()
            self._planned_turn = self._turn
            for view in self._jobs.values():
                if not view.phase.is_end:
                    self._jobs[view.id] = msgspec.structs.replace(view, estimated_finish_s=finish_s)

    def fold(self) -> None:
        """From now on only the archive knows the jobs that have ended."""
        with self._lock:
            self._folded.update(view.id for view in self._jobs.values() if view.phase.is_end)

    def tell(self, job_id: str, story: Story) -> None:
        with self._lock:
            self._turn += 1
            self._news.notify_all()
            self._told.append((self._turn, job_id, story))

    def changes(self, since: int, also: Iterable[str] = ()) -> BoardChanges:
        with self._lock:
            is_all = since < self._turn - self.turns_kept
            late = [job_id for job_id, turn in self._changed.items() if is_all or turn > since]
            views = {job_id: self._jobs[job_id] for job_id in late if job_id not in self._folded}
            archived = [] if is_all else [job_id for job_id in late if job_id in self._folded]
            asked = [self._jobs[job_id] for job_id in also if job_id in self._jobs]
            views |= {view.id: view for view in asked if not view.phase.is_end}
            stories = [(job_id, story) for turn, job_id, story in self._told if turn > since]
            has_new_plan = self._planned_turn > since
            return BoardChanges(self._turn, list(views.values()), archived, is_all, has_new_plan, stories)

    def wait_for_news(self, since: int, most_s: float) -> bool:
        with self._news:
            return self._news.wait_for(lambda: self._turn > since, most_s)

    def cancel(self, job_id: str) -> None:
        view = self.job(job_id)
        if not view.phase.is_end:
            self.put(msgspec.structs.replace(view, phase=Phase.CANCELLED, finished_s=self.now_s()))

    def hold(self, job_id: str) -> JobView:
        return self._hold_or_resume(job_id, True)

    def resume(self, job_id: str) -> JobView:
        return self._hold_or_resume(job_id, False)

    def _hold_or_resume(self, job_id: str, is_held: bool) -> JobView:
        view = self.job(job_id)
        if view.phase.is_end:
            raise WrongPhase(f"job {job_id!r} is {view.phase}")
        phase = Phase.QUEUED if is_held else Phase.RUNNING
        self.put(msgspec.structs.replace(view, is_held=is_held, phase=phase))
        return self.job(job_id)

    def accept_differences(self, job_id: str, names: Collection[str]) -> JobView:
        view = self.job(job_id)
        if view.phase.is_end:
            raise WrongPhase(f"job {job_id!r} is {view.phase}")
        held_by = tuple(name for name in view.held_by if name not in names)
        self.put(msgspec.structs.replace(view, held_by=held_by))
        return self.job(job_id)

    def change_priority(self, job_id: str, priority: int | None, weight: float | None = None) -> JobView:
        view = self.job(job_id)
        if view.phase.is_end:
            raise WrongPhase(f"job {job_id!r} is {view.phase}")
        given = {"priority": priority, "weight": weight}
        news = {name: value for name, value in given.items() if value is not None}
        self.put(msgspec.structs.replace(view, **news))
        return self.job(job_id)

    def ask_deadline(self, job_id: str, deadline_s: float, accept_until_s: float | None = None) -> JobView:
        view, offer_s = self.job(job_id), self.now_s() + NEEDS_S
        if view.phase.is_end:
            raise WrongPhase(f"job {job_id!r} is {view.phase}")
        changes = {"deadline_s": deadline_s, "is_promised": True, "job_class": JobClass.STRICT, "refusal": ""}
        if deadline_s < offer_s:
            changes = {"refusal": "8 devices cannot finish it so soon", "counter_offer_s": offer_s}
            if accept_until_s is not None and accept_until_s >= offer_s:
                changes |= {"deadline_s": offer_s, "is_promised": True, "job_class": JobClass.STRICT}
        self.put(msgspec.structs.replace(view, **changes))
        return self.job(job_id)

    def jobs(self, query: JobQuery = EVERY_JOB, before: str = "") -> list[JobView]:
        if before:
            query = msgspec.structs.replace(query, before=place(self.job(before)))
        with self._lock:
            return newest([view for view in self._jobs.values() if query.matches(view)], query.limit)

    def history(self, query: JobQuery, period_s: float | None, origin_s: float) -> JobHistory:
        length_s = period_s or 3600.0
        ended = [view for view in self.jobs(query) if view.finished_s is not None]
        found = added_up(
            (math.floor(((view.finished_s or 0.0) - origin_s) / length_s), outcome_of(view)) for view in ended
        )
        periods = [
            OutcomePeriod(begin_s=origin_s + number * length_s, outcome=found[number])
            for number in sorted(found)
        ]
        return JobHistory(period_s=length_s, periods=tuple(periods))

    def usage(self, by: UsageGroup, parts: Sequence[UsagePart], user: str | None) -> UsageReport:
        return report_of(
            [HeldTime.of(view) for view in self.jobs() if user is None or view.user == user], by, parts
        )

    def candidates(self, wanted: str) -> list[JobView]:
        views = self.jobs()
        exact = [view for view in views if view.id == wanted]
        named = [view for view in views if view.name == wanted]
        return exact or named[-1:] or [view for view in views if view.id.startswith(wanted)]

    def count_jobs(self) -> Counter[Phase]:
        return Counter(view.phase for view in self.jobs())

    def job(self, job_id: str) -> JobView:
        with self._lock:
            if job_id not in self._jobs:
                raise UnknownJob(f"no job has the id {job_id!r}; see `swell jobs`")
            return self._jobs[job_id]

    def stories(self, job_id: str) -> list[Story]:
        view = self.job(job_id)
        return [
            Story(at_s=view.submitted_s, code="submitted", text="64 samples a step, 1000 steps"),
            Story(at_s=view.submitted_s + 1, code=view.reason_code, text=view.reason),
            *(story for _, told_of, story in self._told if told_of == job_id),
        ]

    def bookings(self) -> tuple[Booking, ...]:
        return tuple(self.booked.values())

    def booking(self, booking_id: str) -> Booking:
        if booking_id not in self.booked:
            raise UnknownBooking(f"there is no booking {booking_id!r}")
        return self.booked[booking_id]

    def book(self, booking: Booking) -> Booking:
        """Eight devices may be booked at a time."""
        if booking.num_devices > self.num_devices:
            why = "the promise of job vae-0001 needs 8 of them"
            raise BookingRefused(f"{why}; they are free from 2030-01-31T18:00:00+00:00 on")
        made = msgspec.structs.replace(booking, id=f"b-{len(self.booked)}")
        self.booked[made.id] = made
        return made

    def remove_booking(self, booking_id: str) -> Booking:
        found = self.booking(booking_id)
        del self.booked[booking_id]
        return found

    def metrics(
        self, job_id: str, names: Collection[str] = (), since_s: float | None = None
    ) -> MetricHistory:
        self.job(job_id)
        return metric_history(
            {name: points for name, points in sorted(self.curves.items()) if not names or name in names},
            Calendar(),
            since_s,
        )

    def log_dir(self, job_id: str) -> Path:
        return self.folder / self.job(job_id).id

    def cluster(self) -> ClusterView:
        running = [job for job in self.jobs() if job.phase.holds_devices]
        devices: dict[str, str | None] = {f"node0/{number}": None for number in range(8)}
        if running:
            devices["node0/0"] = devices["node0/1"] = running[0].id
        node = NodeView(
            name="node0",
            rack=self.rack,
            kind="paced@200",
            is_borrowed=False,
            devices=devices,
            cores=self.cores,
        )
        return ClusterView(
            version=__version__,
            policy=self.policy,
            now_s=self.now_s(),
            started_s=self.started_s,
            nodes=(node, *self.joined),
            num_devices=self.num_devices,
            num_free=sum(holder is None for holder in devices.values()),
            num_stale_reports=0,
            journal_bytes=40960,
            warnings=self.warnings,
            lost_nodes=self.lost,
            bookings=self.bookings(),
            borrowed=self.borrowed,
            hosts_may_join=True,
        )

    def tenant_devices(self) -> Mapping[tuple[str, str], TenantDevices]:
        return self.tenants

    def measures(self) -> PlatformValues:
        open_jobs = [job for job in self.jobs() if not job.phase.is_end]
        return PlatformValues(
            cluster=self.cluster(),
            jobs=Counter((job.phase, job.job_class) for job in open_jobs),
            promises={},
            num_workers=sum(job.workers for job in open_jobs),
            num_batches=7,
        )

    def drain_node(self, name: str) -> NodeView:
        leaving = NodeLeaving(since_s=self.now_s(), until_s=None, why="drained")
        return self._change_host(name, leaving)

    def undrain_node(self, name: str) -> NodeView:
        return self._change_host(name, None)

    def test_node(self, name: str) -> NodeView:
        node = self._node(name)
        if node.leaving is None:
            raise NodeInUse(f"node {name!r} cannot be tested: jobs may be placed on it")
        faults = [self.fault, *[""] * len(node.devices)]
        tested = zip(node.devices, faults, strict=False)
        tests = tuple(DeviceTest(device=one, flops_per_s=2e12, fault=fault) for one, fault in tested)
        after = msgspec.structs.replace(node, tests=tests, tested_s=self.now_s())
        self.joined = tuple(after if one.name == name else one for one in self.joined)
        return node

    def allow_kind(self, kind: str) -> ClusterView:
        if not is_kind(kind):
            raise InvalidInput(f"{kind!r} cannot be a kind of device")
        self.allowed.append(kind)
        return self.cluster()

    def _change_host(self, name: str, leaving: NodeLeaving | None) -> NodeView:
        changed = msgspec.structs.replace(self._node(name), leaving=leaving)
        self.joined = tuple(changed if node.name == name else node for node in self.joined)
        return changed

    def remove_node(self, name: str, force: bool = False) -> NodeView:
        node = self._node(name)
        if node.jobs and not force:
            raise NodeInUse(f"node {name!r} has workers of {', '.join(node.jobs)}: drain it")
        self.removed.append(name)
        return node

    def _node(self, name: str) -> NodeView:
        found = [node for node in self.cluster().nodes if node.name == name]
        if not found:
            raise UnknownNode(f"there is no node {name!r}")
        return found[0]

    def prune(self, request: PruneRequest) -> list[PrunedJob]:
        self.fold()
        with self._lock:
            ended = [view for view in self._jobs.values() if view.phase.is_end]
            chosen = choose(request, ended, self.folder)
            for job in chosen:
                if not request.is_dry_run:
                    del self._jobs[job.job_id]
                    self._turn += 1
                    self._news.notify_all()
                    self._changed[job.job_id] = self._turn
        return chosen

    def throughput(self, job_id: str) -> JobThroughput | None:
        return self.throughputs.get(self.job(job_id).id)

    def head_state(self) -> bytes:
        return b"{}"

    def stop(self) -> None:
        self.stopped.set()
