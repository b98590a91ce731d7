"""The head of the scheduler: a batch of events in, commands out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from swell.core.apply import apply
from swell.core.converge import Converger
from swell.core.learn import expect_resize, is_repair
from swell.core.planner import Planner
from swell.core.ports import Belief
from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model.cluster import Cluster
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, ResizeGang, StopGang, SuspendGang, WakeAt
from swell.model.event import AnyEvent, JobWarned, StepsReported
from swell.model.job import JobClass, Phase
from swell.model.plan import JobPlan, Plan, Reason, Refusal
from swell.model.view import JobView, Story

#: Until a job's trial run is over, its finish is guessed: a minute from now, or its deadline.
FIRST_GUESS_S = 60.0
#: A plan that asks for another one now would get the same answer, again and again.
LEAST_WAIT_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    min_hold_s: float = 5.0  #: a gang keeps its size at least so long, promises apart
    report_plan_s: float = 2.0  #: progress reports alone lead to a new plan at most so often
    yield_s: float = 60.0  #: a gang that does not give up devices which a promise lacks is stopped after that


@dataclass(frozen=True, slots=True)
class BelievedGang:
    """A gang as the head remembers it."""

    job_id: str
    generation: int  #: the latest one commanded
    phase: Phase
    steps: int


class Core:
    """No clock, thread, lock, socket or random state: time arrives inside events."""

    def __init__(self, planner: Planner, belief: Belief, settings: CoreSettings) -> None:
        self._planner = planner
        self._settings = settings
        self._state = HeadState(belief)

    # ------------------------------------------------------------ the turn
    def handle(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        """Apply every event of the batch, then plan once, at the time of the last."""
        state = self._state
        state.stories, state.ended = [], []
        for event in batch:
            apply(state, event)
        state.write_rows()
        if not self._needs_plan(batch):
            return []
        commands = self._end_trials()
        commands += self._drain() if state.is_draining else self._follow_plan()
        state.write_rows()
        self._check()
        return commands

    def _follow_plan(self) -> list[AnyCommand]:
        commands = self._profile_newcomers()
        plan = self._plan()
        self._decide(plan)
        converger = self._converger()
        commands += self._note(converger.run(plan.jobs), plan.jobs)
        for record in converger.stopped:
            self._state.tell(
                record, "stopped", f"gives up its devices: {self._late()}, and a promise lacks them"
            )
        self._explain_waits(plan)
        return commands + self._wake(min(plan.wake_s, self._next_late_s(plan)))

    def _late(self) -> str:
        return f"it came to no end of its step within {self._settings.yield_s:g} s"

    def _next_late_s(self, plan: Plan) -> float:
        """When the patience with the next one ends that is to give up devices, if it does."""
        is_short = any(job_plan.is_short for job_plan in plan.jobs.values())
        leaving = [r for r in self._state.records.values() if r.is_leaving and (is_short or r.is_cancelled)]
        due_s = [record.asked_s + self._settings.yield_s for record in leaving]
        return min((at_s for at_s in due_s if at_s > self._state.now_s), default=math.inf)

    def _explain_waits(self, plan: Plan) -> None:
        """A gang that is to be launched waits until the processes of others have left its devices."""
        for job_id, job_plan in plan.jobs.items():
            record = self._state.records[job_id]
            if record.phase is Phase.QUEUED and job_plan.devices:
                record.reason_code = "waiting"
                record.reason = f"waits until others have left its devices; then it {job_plan.reason.text}"

    def _drain(self) -> list[AnyCommand]:
        return self._note(self._converger().drain(), {}) + self._wake(math.inf)

    def _converger(self) -> Converger:
        state = self._state
        devices = frozenset(state.cluster.devices())
        return Converger(state.records.values(), devices, state.now_s, self._settings.yield_s)

    def _needs_plan(self, batch: Sequence[AnyEvent]) -> bool:
        """Anything but progress leads to a plan at once; progress alone does so now and then."""
        is_progress_only = all(isinstance(event, StepsReported | JobWarned) for event in batch)
        is_recent = self._state.now_s - self._state.planned_s < self._settings.report_plan_s
        return not (is_progress_only and is_recent)

    def _end_trials(self) -> list[AnyCommand]:
        """A trial run of a job that nobody wants any more would keep the others waiting."""
        return [
            StopGang(job_id=record.id, generation=record.generation)
            for record in self._state.ended
            if record.phase is Phase.CANCELLED and record.is_profiling
        ]

    def _profile_newcomers(self) -> list[AnyCommand]:
        state = self._state
        if not state.cluster.nodes:
            return []
        commands: list[AnyCommand] = []
        kind = state.cluster.nodes[0].kind
        for record in state.records.values():
            is_new = record.phase is Phase.QUEUED and record.total_steps is None and not record.is_profiling
            if is_new and state.sizes_of(record.spec).size:
                record.is_profiling = True
                state.explain(record, "profiling", "is in its trial run, to learn how fast it would go")
                commands.append(self._profile(record, kind))
        return commands

    def _profile(self, record: JobRecord, kind: str) -> ProfileJob:
        sizes = tuple(self._state.sizes_of(record.spec).tolist())
        return ProfileJob(job_id=record.id, spec=record.spec, sizes=sizes, device_kind=kind)

    def _plan(self) -> Plan:
        state, settings = self._state, self._settings
        snapshot = state.table.snapshot(
            state.now_s,
            state.cluster.num_devices,
            state.costs,
            state.belief.margin_share,
            settings.min_hold_s,
        )
        held = {job_id: _planned(state.records[job_id]) for job_id in snapshot.job_ids}
        is_held_back = np.array(
            [state.records[job_id].held_back_until_s > state.now_s for job_id in snapshot.job_ids], dtype=bool
        )
        state.planned_s = state.now_s
        planner = self._planner.named(state.policy) if state.policy else self._planner
        return planner.plan(snapshot, state.table.pinned() | is_held_back, state.cluster, held)

    def _decide(self, plan: Plan) -> None:
        """Admit or refuse those who wait for it, and keep everybody's reason and estimate."""
        for job_id, job_plan in plan.jobs.items():
            record = self._state.records[job_id]
            record.estimated_finish_s = job_plan.finish_s
            if job_plan.refusal is not None:
                self._refuse(record, job_plan.refusal)
                continue
            if record.spec.job_class is JobClass.STRICT and not record.is_decided:
                self._accept(record, job_plan.reason, plan.makes_promises)
            elif job_plan.reason.code != record.reason_code:
                self._state.tell(record, job_plan.reason.code, job_plan.reason.text)
            record.reason_code, record.reason = job_plan.reason.code, job_plan.reason.text

    def _accept(self, record: JobRecord, reason: Reason, is_promised: bool) -> None:
        record.is_decided, record.is_promised = True, is_promised
        self._state.touch(record)
        if is_promised:
            self._state.tell(record, "promised", f"is promised its deadline; {reason.text}")
        else:
            self._state.tell(record, "accepted", f"is accepted without a promise; {reason.text}")

    def _refuse(self, record: JobRecord, refusal: Refusal) -> None:
        record.is_decided = True
        record.counter_offer_s = refusal.earliest_deadline_s
        record.message = refusal.text
        self._state.end(record, Phase.REJECTED, "refused", refusal.text)

    def _note(self, commands: list[AnyCommand], plans: Mapping[str, JobPlan]) -> list[AnyCommand]:
        """Each change of a gang becomes a line of its job's story, with the reason for it."""
        state = self._state
        for command in commands:
            if isinstance(command, LaunchGang | ResizeGang | SuspendGang):
                record = state.records[command.job_id]
                state.tell(record, "decided", self._decision(record, command))
                if isinstance(command, ResizeGang):
                    record.resizes.ask(expect_resize(state, record, command, plans.get(record.id)))
            if not isinstance(command, WakeAt):
                state.touch(state.records[command.job_id])
        return commands

    def _decision(self, record: JobRecord, command: LaunchGang | ResizeGang | SuspendGang) -> str:
        before, after = record.num_workers, record.target_workers
        if isinstance(command, SuspendGang):
            after = 0
        elif is_repair(record, command):
            return f"is to go on with the {after} workers that are left"
        why = "the platform is stopping" if self._state.is_draining else record.reason
        return f"is to go from {before} to {after} workers: {why}"

    def _wake(self, planned_s: float) -> list[AnyCommand]:
        """Ask to be woken for what the plan waits for, unless that is asked already."""
        state = self._state
        waits = [record.held_back_until_s for record in state.records.values()]
        wake_s = min([planned_s, *(at_s for at_s in waits if at_s > state.now_s)])
        is_asked = state.wake_s is not None and state.now_s < state.wake_s <= wake_s
        if math.isinf(wake_s) or is_asked:
            return []
        state.wake_s = max(wake_s, state.now_s + LEAST_WAIT_S)
        return [WakeAt(at_s=state.wake_s)]

    def _check(self) -> None:
        """No device belongs to two jobs. A failure here is a defect, not a condition."""
        held = [device for record in self._state.records.values() for device in record.held]
        if len(held) != len(set(held)):
            raise RuntimeError(f"a device is held twice: {sorted(held)}")

    # ------------------------------------------------------------ what others may see
    @property
    def now_s(self) -> float:
        return self._state.now_s

    @property
    def cluster(self) -> Cluster:
        return self._state.cluster

    @property
    def num_stale(self) -> int:
        return self._state.num_stale

    @property
    def is_idle(self) -> bool:
        """No job holds a device."""
        return not any(record.held for record in self._state.records.values())

    @property
    def is_draining(self) -> bool:
        return self._state.is_draining

    def views(self) -> list[JobView]:
        """Jobs that have not ended, oldest first."""
        return [self._view(record) for record in self._state.records.values()]

    def ended_views(self) -> list[JobView]:
        """Jobs that ended in the latest batch; the head has forgotten them."""
        return [record.view() for record in self._state.ended]

    def stories(self) -> list[tuple[str, Story]]:
        """What the latest batch added to the jobs' stories."""
        return self._state.stories

    def _view(self, record: JobRecord) -> JobView:
        view = record.view()
        if view.estimated_finish_s is not None or record.phase.is_end:
            return view
        guess_s = record.spec.deadline_s or record.submitted_s + FIRST_GUESS_S
        return msgspec.structs.replace(view, estimated_finish_s=max(guess_s, self._state.now_s))

    # ------------------------------------------------------------ recovery
    def gangs(self) -> list[BelievedGang]:
        """The gangs whose processes should be there."""
        records = self._state.records.values()
        return [
            BelievedGang(record.id, record.generation, record.phase, int(record.done_steps))
            for record in records
            if record.phase.holds_devices
        ]

    def save(self) -> bytes:
        """All that the head remembers, for a fold of the journal."""
        return self._state.save()

    def load(self, data: bytes) -> None:
        self._state.load(data)
        self._state.write_rows()

    def under_way(self) -> list[AnyCommand]:
        """Commands whose answer is still out: said again after a restart, they are idempotent."""
        state = self._state
        kind = state.cluster.nodes[0].kind if state.cluster.nodes else ""
        commands = [c for record in state.records.values() if (c := self._pending(record, kind)) is not None]
        return commands if state.wake_s is None else [*commands, WakeAt(at_s=state.wake_s)]

    def _pending(self, record: JobRecord, kind: str) -> AnyCommand | None:
        job_id, generation = record.id, record.generation
        if record.is_profiling:
            return self._profile(record, kind)
        if record.phase is Phase.STARTING:
            return LaunchGang(
                job_id=job_id,
                generation=generation,
                devices=record.target,
                spec=record.spec,
                total_steps=record.known_total,
                max_local_batch=record.max_local_batch,
            )
        if record.phase is Phase.RUNNING and record.is_changing:
            return ResizeGang(job_id=job_id, generation=generation, devices=record.target)
        if record.is_ending:
            return StopGang(job_id=job_id, generation=generation)
        if record.phase is Phase.STOPPING:
            return SuspendGang(job_id=job_id, generation=generation)
        return None


def _planned(record: JobRecord) -> tuple[str, ...]:
    """The devices a job has, or is about to have."""
    return record.target if record.phase.holds_devices else ()
