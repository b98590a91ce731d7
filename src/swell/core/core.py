"""The head of the scheduler: a batch of events in, commands out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from swell.core.apply import apply
from swell.core.converge import Converger
from swell.core.latest import Latest
from swell.core.learn import expect_resize, is_repair
from swell.core.planner import Planner
from swell.core.ports import Belief
from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model.cluster import Cluster
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, ResizeGang, StopGang, SuspendGang, WakeAt
from swell.model.event import AnyEvent, GangResized, GangStarted, JobEvent, JobWarned, StepsReported
from swell.model.job import Elasticity, JobClass, Phase
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
        is_expected = state.is_settled and all(self._is_expected(event) for event in batch)
        for event in batch:
            apply(state, event)
        is_any_concerned = state.write_rows()
        commands = self._end_trials()
        if state.is_draining:
            commands += self._drain() if self._needs_plan(batch) else []
        else:
            commands += self._profile_newcomers()
            is_news = is_any_concerned or not all(isinstance(event, JobEvent) for event in batch)
            if is_news and not is_expected and self._needs_plan(batch):
                commands += self._follow_plan()
        state.write_rows()
        return commands

    def _is_expected(self, event: AnyEvent) -> bool:
        """Whether it says that a change is done, as planned, and no work was lost over it."""
        if not isinstance(event, GangStarted | GangResized):
            return False
        record = self._state.records.get(event.job_id)
        if record is None or record.spec.elasticity is Elasticity.RESTART:
            return True
        return event.steps >= int(record.done_steps)

    def _needs_plan(self, batch: Sequence[AnyEvent]) -> bool:
        """Anything but progress leads to a plan at once; progress alone does so now and then."""
        is_progress_only = all(isinstance(event, StepsReported | JobWarned) for event in batch)
        is_recent = self._state.now_s - self._state.planned_s < self._settings.report_plan_s
        return not (is_progress_only and is_recent)

    def _follow_plan(self) -> list[AnyCommand]:
        state, plan = self._state, self._plan()
        state.latest = Latest(plan)
        self._decide(plan)
        converger = self._converger()
        commands = self._note(converger.run(plan.changes, plan.is_short), plan.changes)
        for record in converger.stopped:
            state.tell(record, "stopped", f"gives up its devices: {self._late()}, and a promise lacks them")
        for record in converger.waiting:
            self._explain_wait(record, plan)
        state.is_settled = plan.is_final and not converger.waiting
        state.write_rows()
        return commands + self._wake(min(plan.wake_s, self._next_late_s(plan)))

    def _late(self) -> str:
        return f"it came to no end of its step within {self._settings.yield_s:g} s"

    def _next_late_s(self, plan: Plan) -> float:
        """When the patience with the next one ends that is to give up devices, if it does."""
        leaving = [
            record for record in self._state.special("leaving") if plan.is_short or record.is_cancelled
        ]
        due_s = [record.asked_s + self._settings.yield_s for record in leaving]
        return min((at_s for at_s in due_s if at_s > self._state.now_s), default=math.inf)

    def _explain_wait(self, record: JobRecord, plan: Plan) -> None:
        """A gang that is to be launched waits until the processes of others have left its devices."""
        if record.phase is Phase.QUEUED:
            then = plan.changes[record.id].reason.text
            record.reason_code = "waiting"
            record.reason = f"waits until others have left its devices; then it {then}"
            self._state.latest.note_explained(record.id)
            self._state.touch(record)

    def _drain(self) -> list[AnyCommand]:
        self._state.is_settled = False
        return self._note(self._converger().drain(), {}) + self._wake(math.inf)

    def _converger(self) -> Converger:
        state = self._state
        return Converger(
            state.records,
            state.special("ailing"),
            state.special("leaving"),
            state.holdings.owner,
            state.devices,
            state.now_s,
            self._settings.yield_s,
        )

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
        for record in state.special("new"):
            if not record.is_profiling and state.sizes_of(record.spec).size:
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
        is_pinned = state.table.pinned()
        for record in self._held_back():
            if record.id in state.table:
                is_pinned[state.table.row(record.id)] = True
        state.planned_s = state.now_s
        planner = self._planner.named(state.policy) if state.policy else self._planner
        return planner.plan(snapshot, is_pinned, state.cluster, state.holdings.targets)

    def _held_back(self) -> list[JobRecord]:
        """Jobs that are to stay as they are for a while, after something has failed."""
        state = self._state
        return [record for record in state.special("held back") if record.held_back_until_s > state.now_s]

    def _decide(self, plan: Plan) -> None:
        """Admit or refuse those who wait for it, and tell those for whom there is another reason now."""
        state, codes = self._state, plan.account.codes
        known = state.table.codes
        rows = [row for row, code in enumerate(codes) if code is not known[row] and code != known[row]]
        for row in sorted({*rows, *plan.undecided.tolist()}):
            record = state.records[plan.job_ids[row]]
            if row in plan.refusals:
                self._refuse(record, plan.refusals[row])
                continue
            reason = plan.account.reason(row)
            if record.spec.job_class is JobClass.STRICT and not record.is_decided:
                self._accept(record, reason, plan.makes_promises)
            else:
                state.tell(record, reason.code, reason.text)
            record.reason_code, record.reason = reason.code, reason.text
            known[row] = reason.code

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
                if command.job_id in plans:
                    record.reason = plans[command.job_id].reason.text
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
        wake_s = min([planned_s, *(record.held_back_until_s for record in self._held_back())])
        is_asked = state.wake_s is not None and state.now_s < state.wake_s <= wake_s
        if math.isinf(wake_s) or is_asked:
            return []
        state.wake_s = max(wake_s, state.now_s + LEAST_WAIT_S)
        return [WakeAt(at_s=state.wake_s)]

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
        return not self._state.holdings.owner

    @property
    def is_draining(self) -> bool:
        return self._state.is_draining

    def views(self) -> list[JobView]:
        """Jobs that have not ended, oldest first."""
        self._state.latest.write(self._state.records)
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
