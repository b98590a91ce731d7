"""A world without processes for a choreography: workers that keep the protocol, links, and deaths.

What a worker does is what `swell.wire.messages` says it does. Nothing happens by itself: a test moves
messages, lets groups take steps, kills, and lets time pass, in any order it likes.
"""

from __future__ import annotations

import signal
from collections import deque
from dataclasses import dataclass, field

from swell.executors.local.devices import DeviceBinding
from swell.executors.local.effects import Effect, Kill, Report, Send, Spawn
from swell.executors.local.gang import Gang
from swell.executors.local.member import State
from swell.executors.local.stage import Stage
from swell.model.command import LaunchGang, ResizeGang
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    ResizeFailed,
    WorkersLost,
)
from swell.model.job import EndCondition, JobSpec
from swell.wire import messages as m

JOB = "job-1"


def make_spec(**changes: object) -> JobSpec:
    fields: dict[str, object] = {
        "name": "digits",
        "entry": "/scripts/train.py",
        "workdir": "/scripts",
        "global_batch": 64,
        "end": EndCondition(steps=1000),
    }
    return JobSpec(**{**fields, **changes})  # type: ignore[arg-type]


def make_stage(total_steps: int | None = 1000, num_devices: int = 8, **changes: object) -> Stage:
    bindings = {f"node0/{i}": DeviceBinding(torch_device="cpu", kind="cpu") for i in range(num_devices)}
    return Stage(JOB, make_spec(**changes), total_steps, "/checkpoints", bindings)


def is_stopped(pid: int) -> bool:
    """No puppet ever is."""
    return False


def devices(*numbers: int) -> tuple[str, ...]:
    return tuple(f"node0/{number}" for number in numbers)


@dataclass
class Puppet:
    """One worker. `phase` is booting, ready, meeting, training or broken."""

    number: int
    slot: tuple[str, ...]
    phase: str = "booting"
    inbox: deque[m.FromAgent] = field(default_factory=deque)
    outbox: deque[m.FromWorker] = field(default_factory=deque)
    order: m.Regroup | m.Suspend | None = None
    regroup: m.Regroup | None = None  #: the one it carries out, or lives in
    addresses: set[int] = field(default_factory=set)
    steps: int = 0
    status: int | None = None  #: dead, and how it died

    @property
    def has_news(self) -> bool:
        return any(not isinstance(message, m.Progress) for message in self.outbox)


class PuppetWorld:
    """Runs a gang's effects on puppets, and checks what must hold at every report."""

    def __init__(self, gang: Gang, total_steps: int = 1000) -> None:
        self.gang = gang
        self.total_steps = total_steps
        self.now_s = 0.0
        self.puppets: dict[int, Puppet] = {}
        self.events: list[AnyEvent] = []
        self.checkpoint = 0
        self.is_disk_full = False
        self.is_clean = True  #: the gang has heard of no trouble since the last Regroup
        self.newest_round = 0
        self.target: tuple[str, ...] = ()
        self.targets: dict[int, tuple[str, ...]] = {}

    # ------------------------------------------------------------ what a test does
    def command(self, command: object) -> None:
        if isinstance(command, LaunchGang | ResizeGang):
            self.targets[command.generation] = command.devices
        self._apply(self.gang.command(command, self.now_s))  # type: ignore[arg-type]

    def tick(self, passed_s: float = 0.2) -> None:
        self.now_s += passed_s
        for puppet in list(self.puppets.values()):
            if puppet.status is None and puppet.phase != "booting":
                self._apply(self.gang.said(puppet.number, m.Alive(), self.now_s))
        self._apply(self.gang.tick(self.now_s))

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
        puppet.outbox.append(m.OutOfMemory(num_samples=num_samples, steps=puppet.steps, message="no room"))
        self.kill(number, status=143)

    def hear(self, number: int) -> None:
        """The agent gets the worker's next word, or learns of its end after the last."""
        puppet = self.puppets[number]
        if puppet.outbox:
            message = puppet.outbox.popleft()
            self.is_clean &= not isinstance(message, m.Broken | m.JoinFailed)
            self._apply(self.gang.said(number, message, self.now_s))
        elif puppet.status is not None:
            self.is_clean &= self.gang._roster.members[number].state is State.LEFT
            del self.puppets[number]
            self._apply(self.gang.exited(number, puppet.status, "last line", self.now_s))

    def advance(self, number: int) -> None:
        """The worker does its next thing."""
        puppet = self.puppets[number]
        if puppet.status is not None:
            return
        if puppet.inbox:
            self._read(puppet, puppet.inbox.popleft())
        elif puppet.phase == "booting":
            puppet.phase = "ready"
            puppet.outbox.append(m.Hello(token="t", worker=number, pid=number + 1000))
            puppet.outbox.append(m.Ready(grad_bytes=4, state_bytes=8, samples_per_epoch=64))
        elif puppet.phase in ("ready", "broken") and puppet.order is not None:
            self._obey(puppet)
        elif puppet.phase == "meeting":
            self._meet(puppet)
        elif puppet.phase == "training":
            self._train(puppet)

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
        unfinished = ("booting",) if self.gang._setback.is_waiting else ("booting", "meeting")
        busy = any(
            p.status is not None or p.has_news or p.inbox or p.order or p.phase in unfinished
            for p in self.puppets.values()
        )
        return not busy and (self.gang.is_over or self.gang._answer is not None)

    def describe(self) -> str:
        inner = {name: value for name, value in vars(self.gang).items() if name != "_stage"}
        return f"{self.puppets} {self.events[-5:]} {inner}"

    # ------------------------------------------------------------ what workers do
    def _read(self, puppet: Puppet, message: m.FromAgent) -> None:
        if isinstance(message, m.Address):
            puppet.addresses.add(message.generation)
        elif not isinstance(message, m.Welcome):
            puppet.order = message

    def _obey(self, puppet: Puppet) -> None:
        order, puppet.order = puppet.order, None
        if isinstance(order, m.Suspend):
            assert puppet.regroup is not None
            if puppet.regroup.rank == 0 and self.is_disk_full:
                puppet.outbox.append(m.SaveFailed(steps=puppet.steps, message="disk full"))
                return
            if self.is_disk_full:
                return
            if puppet.regroup.rank == 0:
                self.checkpoint = puppet.steps
                puppet.outbox.append(m.Saved(steps=puppet.steps, path="/checkpoints/x"))
            self._leave(puppet, order.generation)
        elif order is not None and order.rank is None:
            self._leave(puppet, order.generation)
        elif order is not None:
            puppet.regroup, puppet.phase = order, "meeting"
            if order.rank == 0:
                puppet.addresses.add(order.generation)
                puppet.outbox.append(m.Bound(generation=order.generation, address="127.0.0.1:1"))

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
        if puppet.order is not None:  # a newer order takes the place of this one
            self._obey(puppet)
            return
        peers = self._peers(puppet)
        generation = puppet.regroup.generation
        if len(peers) == puppet.regroup.num_workers and all(generation in p.addresses for p in peers):
            source = puppet.regroup.source
            steps = self.checkpoint
            if source is not None:
                steps = next(p.steps for p in peers if p.regroup and p.regroup.rank == source)
            for peer in peers:
                peer.phase, peer.steps = "training", steps
                peer.outbox.append(m.Joined(generation=generation, steps=steps))

    def _train(self, puppet: Puppet) -> None:
        assert puppet.regroup is not None
        generation = puppet.regroup.generation
        peers = self._peers(puppet)
        if len(peers) < puppet.regroup.num_workers or any(p.phase != "training" for p in peers):
            puppet.phase = "broken"
            puppet.outbox.append(m.Broken(generation=generation, steps=puppet.steps, message="peer gone"))
            return
        for peer in peers:
            peer.steps += 1
        if puppet.steps >= self.total_steps:
            for peer in peers:
                peer.outbox.append(m.Finished(steps=peer.steps, loss=0.5))
                peer.status = 0
        elif all(peer.order is not None for peer in peers):
            for peer in peers:
                self._obey(peer)
        else:
            leader = next(p for p in peers if p.regroup and p.regroup.rank == 0)
            leader.outbox.append(
                m.Progress(generation=generation, steps=leader.steps, num_workers=len(peers), step_s=0.1)
            )

    # ------------------------------------------------------------ what the gang wants
    def _apply(self, effects: object) -> None:
        for effect in effects:  # type: ignore[attr-defined]
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        match effect:
            case Spawn(worker, slot):
                assert worker not in self.puppets
                self.puppets[worker] = Puppet(worker, slot)
                self._apply(self.gang.forked(worker, worker + 1000, self.now_s))
            case Send(worker, message):
                self._check_order(message)
                puppet = self.puppets.get(worker)
                if puppet is not None and puppet.status is None:
                    puppet.inbox.append(message)
            case Kill(worker, number):
                puppet = self.puppets.get(worker)
                if puppet is not None and puppet.status is None:
                    puppet.status, puppet.phase = -number, "dead"
            case Report(event):
                self.events.append(event)
                self._check_report(event)

    def _check_order(self, message: m.FromAgent) -> None:
        """At most one Regroup is outstanding, unless something broke."""
        if not isinstance(message, m.Regroup) or message.generation == self.newest_round:
            return
        assert message.generation > self.newest_round
        if self.is_clean:
            late = [p for p in self.puppets.values() if p.status is None and p.phase == "meeting"]
            assert not late, f"{late} were still forming"
        self.newest_round, self.is_clean = message.generation, True

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
