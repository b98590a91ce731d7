"""A world without processes for a choreography: workers that keep the protocol, links, and deaths.

What a worker does is what `swell.wire.messages` says it does. Nothing happens by itself: a test moves
messages, lets groups take steps, kills, and lets time pass, in any order it likes.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from swell.executors.gang.gang_controller import GangController
from swell.executors.gang.gang_record import GangRecord, State
from swell.executors.gang.host_messages import (
    Effect,
    OfWorker,
    SignalWorker,
    StartWorker,
    TellWorker,
    WorkerExited,
    WorkerForked,
    WorkerSaid,
)
from swell.executors.gang.job_context import DeviceBinding, GangSettings, JobContext, MeetingPoint
from swell.executors.gang.runtime import GangRuntime
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    ResizeFailed,
    WorkersLost,
)
from swell.model.gang_state import GangState
from swell.model.job import EndCondition, JobSpec
from swell.model.target import Target
from swell.wire import messages as m

JOB = "job-1"
SETTINGS = GangSettings()


def make_spec(**changes: Any) -> JobSpec:
    fields: dict[str, Any] = {
        "name": "digits",
        "entry": "/scripts/train.py",
        "workdir": "/scripts",
        "global_batch": 64,
        "end": EndCondition(steps=1000),
    }
    return JobSpec(**(fields | changes))


def make_stage(
    total_steps: int | None = 1000,
    num_devices: int = 8,
    job_id: str = JOB,
    settings: GangSettings = SETTINGS,
    **changes: Any,
) -> JobContext:
    bindings = {f"node0/{i}": DeviceBinding(torch_device="cpu", kind="cpu") for i in range(num_devices)}
    points = {host: MeetingPoint(address=f"10.9.0.1{host}", port=4711) for host in ("", "a", "b")}
    return JobContext(job_id, make_spec(**changes), total_steps, bindings, settings, meeting_points=points)


def devices(*numbers: int) -> tuple[str, ...]:
    return tuple(f"node0/{number}" for number in numbers)


def target(*numbers: int) -> Target:
    """Of these devices."""
    return Target(devices=devices(*numbers))


def hear(
    director: GangRuntime, kind: type[OfWorker], worker: int, now_s: float, **fields: object
) -> list[Effect]:
    """What a host says of one of its workers, and what follows."""
    return director.handle_worker_message(kind(run=director.run, worker=worker, **fields), now_s)  # type: ignore[arg-type]


def hear_said(director: GangRuntime, worker: int, message: m.FromWorker, now_s: float) -> list[Effect]:
    return hear(director, WorkerSaid, worker, now_s, message=message)


def hear_exited(director: GangRuntime, worker: int, status: int, tail: str, now_s: float) -> list[Effect]:
    return hear(director, WorkerExited, worker, now_s, status=status, log_tail=tail)


def signals(number: int, *workers: int, run: str = JOB) -> list[SignalWorker]:
    """What sends this signal to these workers."""
    return [SignalWorker(run=run, worker=worker, signal=number) for worker in workers]


def validate(gang: GangRecord) -> None:
    """What holds in each state of a gang, after any message."""
    state, formation = gang.state, gang.formation
    is_ending = state in (GangState.STOPPING, GangState.ENDED)
    assert bool(gang.failure) == (state is GangState.SHRINKING), gang
    if gang.ending is not None or state is GangState.STOPPING:
        assert gang.ending is not None and is_ending, gang
    if state in (GangState.TRAINING, GangState.SHRINKING):
        assert gang.wanted_slots == gang.slots, gang
    if state in (GangState.TRAINING, GangState.SHRINKING, GangState.NOTING):
        assert gang.has_started and gang.workers, gang
    if formation.is_saving:
        assert is_ending or state is GangState.SAVING, gang
    if state is GangState.ENDED:
        assert not gang.members and isinstance(gang.replies.answer, GangEnded | GangSuspended), gang
    slots = [member.slot for member in gang.members.values() if member.state is not State.LEFT]
    assert len(slots) == len(set(slots)), "two workers on the same devices"


@dataclass
class Puppet:
    """One worker. `phase` is booting, ready, meeting, training or broken.

    A thread forms the next group, whatever the main thread does. A worker that has entered a group is meeting
    until all members have.
    """

    number: int
    slot: tuple[str, ...]
    phase: str = "booting"
    inbox: deque[m.FromAgent] = field(default_factory=deque)
    outbox: deque[m.FromWorker] = field(default_factory=deque)
    order: m.Regroup | m.Suspend | None = None
    next: m.Regroup | None = None  #: of the group that forms
    has_met: bool = False  #: the others of that
    is_formed: bool = False  #: that group
    is_agreed: bool = False  #: its group changes at this step boundary
    regroup: m.Regroup | None = None  #: of the group that it is in, or was
    addresses: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)  #: groups, also such that it has yet to come to
    steps: int = 0
    status: int | None = None  #: dead, and how it died
    is_stuck: bool = False  #: its script comes to no collective; its line lives
    is_witness: bool = False  #: it is to save, and to note the step after that
    is_proving: bool = False
    awaits: m.Awaited = ""
    since_s: float = 0.0  #: it has been in the script, or waiting, so long
    taken_up: int = 0  #: the latest Regroup that it came to

    @property
    def votes(self) -> bool:
        """For a change of its group after this step."""
        return self.order is not None and (self.next is None or self.is_formed)

    @property
    def has_news(self) -> bool:
        return any(not isinstance(message, m.Progress | m.Alive) for message in self.outbox)

    def do(self, awaits: m.Awaited, now_s: float) -> None:
        if awaits != self.awaits or not awaits:
            self.awaits, self.since_s = awaits, now_s

    def beat(self, now_s: float) -> m.Alive:
        for_s = now_s - self.since_s
        place = "" if self.awaits else "/scripts/train.py:57 in evaluate"
        return m.Alive(
            generation=self.taken_up, steps=self.steps, awaits=self.awaits, for_s=for_s, place=place
        )


class PuppetWorld:
    """Runs a gang's effects on puppets, and checks what must hold at every report."""

    def __init__(self, gang: GangController, total_steps: int = 1000) -> None:
        self.gang = gang
        self.total_steps = total_steps
        self.now_s = 0.0
        self.puppets: dict[int, Puppet] = {}
        self.events: list[AnyEvent] = []
        self.checkpoint = 0
        self.is_disk_full = False
        self.told: list[tuple[str, int]] = []  #: messages about groups and proofs, and to which workers
        self.proof: m.Proved | None = m.Proved(steps=1)  #: what a worker comes to; None: to no end
        self.is_clean = True  #: the gang has heard of no trouble since the last Regroup
        self.newest_round = 0
        self.met: dict[int, set[int]] = {}  #: workers that have come to the store of a group
        self.target: tuple[str, ...] = ()
        self.targets: dict[int, tuple[str, ...]] = {}
        self.batches: dict[int, int | None] = {}

    # ------------------------------------------------------------ what a test does
    def command(self, command: object) -> None:
        if isinstance(command, LaunchGang | Reconfigure):
            self.targets.setdefault(command.generation, command.target.devices)
            self.batches.setdefault(command.generation, command.target.configuration.global_batch)
        self._apply(self.gang.command(command, self.now_s))  # type: ignore[arg-type]

    def tick(self, passed_s: float = 0.2) -> None:
        self.now_s += passed_s
        for puppet in list(self.puppets.values()):
            if puppet.status is None and puppet.phase != "booting":
                self._beat(puppet)
        self._apply(self.gang.tick(self.now_s))

    def _beat(self, puppet: Puppet) -> None:
        """A line keeps the order of what is said: a sign of life does not overtake."""
        if puppet.outbox and isinstance(puppet.outbox[-1], m.Alive):
            puppet.outbox.pop()
        if puppet.outbox:
            puppet.outbox.append(puppet.beat(self.now_s))
        else:
            self._apply(self.said(puppet.number, puppet.beat(self.now_s)))

    def said(self, number: int, message: m.FromWorker) -> list[Effect]:
        return hear_said(self.gang, number, message, self.now_s)

    def exited(self, number: int, status: int, log_tail: str = "") -> list[Effect]:
        return hear_exited(self.gang, number, status, log_tail, self.now_s)

    def kill(self, number: int, status: int = -signal.SIGKILL) -> None:
        puppet = self.puppets[number]
        if puppet.status is None:
            puppet.status = status
            puppet.inbox.clear()

    def raise_in(self, number: int) -> None:
        """Its script raises."""
        self.puppets[number].outbox.append(m.Failed(message="ZeroDivisionError: of the script"))
        self.kill(number, status=1)

    def run_out(self, number: int, num_samples: int = 32) -> None:
        """Its memory does not do for the step under way."""
        puppet = self.puppets[number]
        puppet.outbox.append(m.OutOfMemory(num_samples=num_samples, message="no room"))
        self.kill(number, status=143)

    def save(self) -> None:
        """A checkpoint is due: rank 0 of the group that trains saves, and says so."""
        for puppet in self.puppets.values():
            is_leader = puppet.regroup is not None and puppet.regroup.rank == 0
            is_able = puppet.phase == "training" and puppet.status is None and not puppet.is_stuck
            if is_leader and is_able and not self.is_disk_full and puppet.steps > self.checkpoint:
                self.checkpoint = puppet.steps
                puppet.outbox.append(m.CheckpointSaved(steps=puppet.steps, path="/checkpoints/x"))

    def stick(self, number: int) -> None:
        """Its script hangs: it answers to nothing but a kill."""
        puppet = self.puppets[number]
        if puppet.phase == "training" and puppet.status is None and not puppet.is_stuck:
            puppet.is_stuck = True
            puppet.do("", self.now_s)

    def hear(self, number: int) -> None:
        """The agent gets the worker's next word, or learns of its end after the last."""
        puppet = self.puppets[number]
        if puppet.outbox:
            message = puppet.outbox.popleft()
            self.is_clean &= not isinstance(message, m.Broken | m.JoinFailed)
            self._apply(self.said(number, message))
        elif puppet.status is not None:
            self.is_clean &= self.gang.members[number].state in (State.LEAVING, State.LEFT)
            del self.puppets[number]
            self._apply(self.exited(number, puppet.status, "last line"))

    def advance(self, number: int) -> None:
        """The worker does its next thing."""
        puppet = self.puppets[number]
        if puppet.status is not None:
            return
        if puppet.inbox:
            self._read(puppet, puppet.inbox.popleft())
        elif self._forms(puppet) or puppet.is_stuck:
            pass
        elif puppet.phase == "booting":
            puppet.phase = "ready"
            puppet.do("agent", self.now_s)
            puppet.outbox.append(m.Hello(token="t", worker=number, pid=number + 1000))
            puppet.outbox.append(m.Ready())
        elif puppet.is_proving and puppet.phase == "ready" and not puppet.order:
            if self.proof is not None:
                puppet.is_proving = False
                puppet.outbox.append(self.proof)
                puppet.status = 143 if self.proof.is_last else None
        elif puppet.is_agreed or (puppet.phase in ("ready", "broken") and puppet.votes):
            self._obey(puppet)
        elif puppet.phase == "meeting":
            self._meet(puppet)
        elif puppet.phase == "training":
            self._train(puppet)

    def meet(self, limit: int = 300) -> None:
        """Until all workers have entered the group of the newest order, and none trains in it yet."""
        for _ in range(limit):
            if all(puppet.phase == "meeting" for puppet in self.puppets.values()):
                return
            for number, puppet in list(self.puppets.items()):
                if puppet.phase != "meeting":
                    self.advance(number)
                if puppet.outbox:
                    self.hear(number)
        raise AssertionError(f"they do not meet: {self.describe()}")

    def settle(self, limit: int = 3000) -> None:
        """Everything is delivered, everybody moves, time passes: until nothing is left to do."""
        for _ in range(limit):
            for number in list(self.puppets):
                while number in self.puppets and (
                    self.puppets[number].outbox or self.puppets[number].status is not None
                ):
                    self.hear(number)
                if number in self.puppets:
                    self.advance(number)
            self.tick(0.05)
            if self.is_quiet():
                for number, puppet in list(self.puppets.items()):
                    while puppet.outbox:
                        self.hear(number)
                return
        raise AssertionError(f"no end: {self.describe()}")

    def is_quiet(self) -> bool:
        busy = any(
            p.status is not None
            or p.has_news
            or p.inbox
            or (p.order and not p.is_stuck)
            or p.phase in ("booting", "meeting", "broken")
            or (p.phase == "training" and p.awaits)
            for p in self.puppets.values()
        )
        is_answered = self.gang.is_over or self.gang.gang.replies.answer is not None
        return not busy and (is_answered or self.waits_in_vain())

    def waits_in_vain(self) -> bool:
        """All that are left are stuck, and only the head waits, to hear that they go on: they may."""
        is_killed_for_it = self.gang.gang.is_save_out
        return bool(self.puppets) and all(p.is_stuck for p in self.puppets.values()) and not is_killed_for_it

    def describe(self) -> str:
        inner = vars(self.gang)
        return f"{self.puppets} {self.events[-5:]} {inner}"

    # ------------------------------------------------------------ what workers do
    def _read(self, puppet: Puppet, message: m.FromAgent) -> None:
        if isinstance(message, m.StoreAddress):
            puppet.addresses.add(message.generation)
        elif isinstance(message, m.Abort):
            puppet.aborted.add(message.generation)
            if puppet.next is not None and puppet.next.generation == message.generation:
                self._fail_next(puppet)
            if not puppet.is_stuck:  # else it would notice when it came to a collective
                self._break_if_aborted(puppet)
        elif isinstance(message, m.Regroup | m.Suspend):
            assert not puppet.is_proving, "its group forms before its proof"
            self._follow(puppet, message)
        elif isinstance(message, m.Witness):
            assert puppet.regroup is not None and puppet.regroup.rank == 0
            puppet.is_witness = True
        elif isinstance(message, m.Prove):
            assert puppet.phase == "ready" and puppet.order is None
            puppet.is_proving = True

    def _follow(self, puppet: Puppet, order: m.Regroup | m.Suspend) -> None:
        if puppet.next is not None and puppet.next.generation == order.generation:
            return  # again
        puppet.order, puppet.next = order, None
        puppet.has_met = puppet.is_formed = False
        if isinstance(order, m.Suspend) or order.rank is None:
            return
        puppet.next = order
        if order.generation in puppet.aborted:
            self._fail_next(puppet)
        elif order.rank == 0:
            puppet.addresses.add(order.generation)
            puppet.outbox.append(m.Bound(generation=order.generation, address="127.0.0.1:1"))

    def _fail_next(self, puppet: Puppet) -> None:
        assert puppet.next is not None
        generation, puppet.next, puppet.order = puppet.next.generation, None, None
        puppet.is_formed = False
        puppet.outbox.append(m.JoinFailed(generation=generation, steps=puppet.steps, message="peer gone"))

    def _forms(self, puppet: Puppet) -> bool:
        """Whether the next group comes a step further: a worker meets the others, then connects to them."""
        if puppet.next is None or puppet.is_formed or puppet.next.generation not in puppet.addresses:
            return False
        met = self.met.setdefault(puppet.next.generation, set())
        if not puppet.has_met:
            puppet.has_met = True
            met.add(puppet.number)
        elif len(met) < puppet.next.num_workers:
            return False
        elif all(self._is_in(number, puppet.next.generation) for number in met):
            puppet.is_formed = True
        else:
            self._fail_next(puppet)
        return True

    def _is_in(self, number: int, generation: int) -> bool:
        peer = self.puppets.get(number)
        if peer is None or peer.status is not None:
            return False
        orders = (peer.next, peer.regroup if peer.phase in ("meeting", "training") else None)
        return any(order is not None and order.generation == generation for order in orders)

    def _break_if_aborted(self, puppet: Puppet) -> None:
        if puppet.regroup is not None and puppet.regroup.generation in puppet.aborted:
            self._break(puppet)

    def _break(self, puppet: Puppet) -> None:
        assert puppet.regroup is not None
        if puppet.phase in ("training", "meeting"):
            puppet.phase, puppet.is_agreed = "broken", False
            puppet.do("agent", self.now_s)
            generation = puppet.regroup.generation
            puppet.outbox.append(m.Broken(generation=generation, steps=puppet.steps, message="peer gone"))

    def _obey(self, puppet: Puppet) -> None:
        if not puppet.votes:  # what all had agreed on is off, and the others have left the group
            self._break(puppet)
            return
        (order, puppet.order), puppet.is_agreed = (puppet.order, None), False
        if isinstance(order, m.Suspend):
            if puppet.phase != "training":
                return  # its group is no more
            assert puppet.regroup is not None and puppet.regroup.generation == order.generation
            if puppet.regroup.rank == 0 and self.is_disk_full:
                puppet.outbox.append(m.SaveFailed(steps=puppet.steps, message="disk full"))
                return
            if self.is_disk_full:
                return
            if puppet.regroup.rank == 0:
                self.checkpoint = puppet.steps
                puppet.outbox.append(m.CheckpointSaved(steps=puppet.steps, path="/checkpoints/x"))
            self._leave(puppet, order.generation)
        elif order is not None and order.rank is None:
            self._leave(puppet, order.generation)
        elif order is not None:
            puppet.regroup, puppet.phase, puppet.taken_up = order, "meeting", order.generation
            puppet.next, puppet.is_formed = None, False
            puppet.do("", self.now_s)
            puppet.do("peers", self.now_s)

    def _leave(self, puppet: Puppet, generation: int) -> None:
        puppet.outbox.append(m.Left(generation=generation))
        puppet.status = 143

    def _peers(self, puppet: Puppet) -> list[Puppet]:
        assert puppet.regroup is not None
        generation = puppet.regroup.generation
        return [
            p
            for p in self.puppets.values()
            if p.status is None and p.regroup is not None and p.regroup.generation == generation
        ]

    def _meet(self, puppet: Puppet) -> None:
        assert puppet.regroup is not None
        peers = self._peers(puppet)
        generation = puppet.regroup.generation
        if len(peers) == puppet.regroup.num_workers and all(p.phase == "meeting" for p in peers):
            is_new = puppet.regroup.source is None
            steps = self.checkpoint if is_new else max(peer.steps for peer in peers)  # they compare
            for peer in peers:
                peer.phase, peer.steps = "training", steps
                peer.do("", self.now_s)
                peer.outbox.append(m.Joined(generation=generation, steps=steps))

    def _train(self, puppet: Puppet) -> None:
        assert puppet.regroup is not None
        generation = puppet.regroup.generation
        peers = self._peers(puppet)
        if len(peers) < puppet.regroup.num_workers or any(p.phase != "training" for p in peers):
            self._break(puppet)
            return
        if any(peer.is_stuck or peer.is_agreed for peer in peers):
            puppet.do("peers", self.now_s)
            return
        for peer in peers:
            peer.steps += 1
            peer.do("", self.now_s)
        leader = next(p for p in peers if p.regroup and p.regroup.rank == 0)
        if puppet.steps >= self.total_steps:
            for peer in peers:
                if peer.regroup and peer.regroup.rank == 0:
                    last = m.Progress(
                        generation=generation, steps=peer.steps, num_workers=len(peers), loss=0.5
                    )
                    peer.outbox.append(last)
                peer.outbox.append(m.Finished(steps=peer.steps))
                peer.status = 0
        elif all(peer.votes for peer in peers):
            for peer in peers:
                peer.is_agreed = True
        elif leader.is_witness:
            leader.is_witness = False
            failed = m.SaveFailed(steps=leader.steps, message="disk full", is_behind=True)
            saved = m.Witnessed(steps=leader.steps)
            leader.outbox.append(failed if self.is_disk_full else saved)
        else:
            leader.outbox.append(
                m.Progress(generation=generation, steps=leader.steps, num_workers=len(peers), step_s=0.1)
            )

    # ------------------------------------------------------------ what the gang wants
    def _apply(self, effects: Iterable[Effect]) -> None:
        validate(self.gang.gang)
        for effect in effects:
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        match effect:
            case StartWorker(worker=worker, devices=slot):
                assert worker not in self.puppets
                self.puppets[worker] = Puppet(worker, slot)
                self._apply(hear(self.gang, WorkerForked, worker, self.now_s, pid=worker + 1000))
            case TellWorker(worker=worker, message=message):
                self._check_order(message)
                self._check_abort(message)
                if isinstance(message, m.Witness | m.Prove | m.Regroup):
                    self.told.append((type(message).__name__, worker))
                puppet = self.puppets.get(worker)
                if puppet is not None and puppet.status is None:
                    puppet.inbox.append(message)
            case SignalWorker(worker=worker, signal=number):
                puppet = self.puppets.get(worker)
                if puppet is not None and puppet.status is None:
                    puppet.status, puppet.phase = -number, "dead"
            case event:
                self.events.append(event)
                self._check_report(event)

    def _check_order(self, message: m.FromAgent) -> None:
        """At most one Regroup is outstanding, unless something broke."""
        if not isinstance(message, m.Regroup) or message.generation == self.newest_round:
            return
        assert message.generation > self.newest_round
        if self.is_clean:
            alive = [p for p in self.puppets.values() if p.status is None]
            late = [p for p in alive if p.phase == "meeting" or p.next is not None]
            assert not late, f"{late} were still forming"
        self.newest_round, self.is_clean = message.generation, True

    def _check_abort(self, message: m.FromAgent) -> None:
        """A group that trains is left alone, whatever becomes of the next one."""
        if not isinstance(message, m.Abort):
            return
        group = [p for p in self.puppets.values() if p.regroup and p.regroup.generation == message.generation]
        is_whole = all(p.phase == "training" and p.status is None and not p.is_stuck for p in group)
        sizes = {p.regroup.num_workers for p in group if p.regroup}
        assert not (is_whole and sizes == {len(group)}), f"group {message.generation} trains"

    def _check_report(self, event: AnyEvent) -> None:
        alive = [d for p in self.puppets.values() for d in p.slot]
        if isinstance(event, GangEnded | GangSuspended):
            assert not self.puppets, "the gang ended while processes lived"
        elif isinstance(event, GangStarted | GangResized):
            assert sorted(alive) == sorted(self.targets[event.generation])
            assert sorted(event.pids) == sorted(p.number + 1000 for p in self.puppets.values())
        elif isinstance(event, WorkersLost):
            assert not set(event.devices) & set(alive), "devices called lost are still in use"
        elif isinstance(event, ResizeFailed):
            assert event.generation in self.targets


# ---------------------------------------------------------------- what a head asks
def launched(
    num_workers: int,
    total_steps: int = 1000,
    settings: GangSettings = SETTINGS,
    record: GangRecord | None = None,
    **changes: Any,
) -> PuppetWorld:
    """A gang of which the workers are about to start. `changes`: of its job."""
    gang = GangController(make_stage(total_steps, settings=settings, **changes), record or GangRecord())
    made, where, spec = PuppetWorld(gang, total_steps), target(*range(num_workers)), make_spec(**changes)
    made.command(LaunchGang(job_id=JOB, generation=1, target=where, spec=spec, total_steps=total_steps))
    return made


def resize(generation: int, *numbers: int) -> Reconfigure:
    return Reconfigure(job_id=JOB, generation=generation, target=target(*numbers))
