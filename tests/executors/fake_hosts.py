"""Machines without processes: hosts whose workers keep the protocol, and a controller above them.

What a host answers may be delivered at once, as in the local engine, or wait until the test lets it through,
as over a network. Groups form and make steps by themselves as soon as all members have been told.
"""

from __future__ import annotations

import itertools
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
from tests.executors.puppets import JOB, make_spec

from swell.executors.controller.controller import Controller
from swell.executors.controller.protocol import EventTold, Inventory
from swell.executors.gang import host_messages as h
from swell.executors.gang.host_messages import KeptRuns
from swell.executors.gang.job_context import DeviceBinding, GangSettings, MeetingPoint
from swell.executors.retransmission import ReceivedNumbers
from swell.model.command import GangCommand, LaunchGang, ProfileJob, Reconfigure
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangEvent,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    NodeTested,
    Outcome,
    ProfilingFailed,
    StepsReported,
)
from swell.model.job import Elasticity
from swell.model.node import Node
from swell.model.target import FULL_SHARE, Configuration, Target
from swell.model.usage import DeviceReading, DeviceTest, GangUsage
from swell.wire import messages as m

DEVICES_OF_HOST = 4
Wanted = TypeVar("Wanted", bound=AnyEvent)
CODEC = msgspec.json.Decoder(h.ToHost), msgspec.json.Decoder(h.FromHost)


@dataclass
class FakeWorker:
    """`order` is the latest Regroup that it was told."""

    host: FakeHost
    run: str
    number: int
    devices: tuple[str, ...]
    order: m.Regroup | None = None
    welcome: m.Welcome | None = None
    environ: dict[str, str] = field(default_factory=dict)
    signals: list[int] = field(default_factory=list)

    def say(self, *said: m.FromWorker) -> None:
        for message in said:
            self.host.answer(h.WorkerSaid(run=self.run, worker=self.number, message=message))


class FakeHost:
    """See `host_messages`. Every message is encoded and decoded, as on a wire."""

    def __init__(self, name: str, fleet: Fleet | None, hear: Callable[[h.FromHost], None]) -> None:
        self.name, self._fleet, self._hear = name, fleet, hear
        self.runs: dict[str, h.OpenRun] = {}
        self.workers: dict[tuple[str, int], FakeWorker] = {}
        self.told: list[h.ToHost] = []
        self.offered: dict[str, DeviceBinding] = {}
        self.first_worker = 0
        self.refusal: tuple[Outcome, str] | None = None
        self.is_lacking = False  #: what the job needs: why it refuses
        self._is_once = False
        self.shares: dict[str, float] = {}
        self.cpu_s = 0.0
        self.is_reached = True
        self.is_held = False  #: what it answers waits
        self._held: deque[h.FromHost] = deque()
        self.is_deaf = False  #: what it is told waits
        self.is_cold = False  #: workers cannot start yet, so a new controller is offered no devices
        self._untold: deque[h.ToHost] = deque()
        self._kept = KeptRuns()
        self._num_devices = DEVICES_OF_HOST
        self._nodes: tuple[Node, ...] = ()
        self._pids: Iterator[int] = itertools.count(1000)  # the same on each host

    def offer(self, num: int = DEVICES_OF_HOST, nodes: tuple[Node, ...] = ()) -> None:
        self._num_devices, self._nodes = num, nodes
        cpu = DeviceBinding(torch_device="cpu", kind="cpu")
        self.offer_these({f"{self.name}/{i}": cpu for i in range(num)}, nodes)

    def offer_these(self, devices: dict[str, DeviceBinding], nodes: tuple[Node, ...]) -> None:
        """Nothing else."""
        self.offered = devices
        self.answer(h.DevicesOffered(devices=devices, num_cores=16, nodes=nodes))

    def node(self, num: int = DEVICES_OF_HOST) -> Node:
        """As a host of another machine names itself."""
        devices = tuple(f"{self.name}/{i}" for i in range(num))
        return Node(name=self.name, devices=devices, kind="cpu")

    def refuse_next(self) -> None:
        """One run, and no other."""
        self.refusal, self._is_once = (Outcome.LOST, "no room on its disk"), True

    def answer(self, message: h.FromHost) -> None:
        message = CODEC[1].decode(msgspec.json.encode(message))
        self._kept.note_answered(message)
        if self.is_held:
            self._held.append(message)
        else:
            self._hear(message)

    def tell_usage(self) -> None:
        for run in list(self.runs):
            self.answer(h.UsageRead(run=run, usage=GangUsage(cpu_s=self.cpu_s)))

    def let_through(self, num: int | None = None) -> None:
        """The next answers, or all of them; later ones are held if `num` is given."""
        self.is_held = num is not None
        for _ in range(len(self._held) if num is None else num):
            self._hear(self._held.popleft())

    def listen(self) -> None:
        """What it was told arrives."""
        self.is_deaf = False
        while self._untold and not self.is_deaf:
            self._act_on(self._untold.popleft())

    def cut_off(self) -> None:
        """It has no line: what it is told, and what it answers, waits."""
        self.is_reached, self.is_deaf, self.is_held = False, True, True

    def reconnect(self) -> None:
        self.is_reached = True
        self.listen()
        self.let_through()

    def meet_new_controller(self) -> None:
        """Whatever was on its way to or from the former one is lost."""
        self._untold.clear()
        self._held.clear()
        self.is_deaf = self.is_held = False
        self.is_reached = True
        for message in self._kept.kept():
            self._hear(CODEC[1].decode(msgspec.json.encode(message)))
        if self.is_cold:
            self.answer(h.DevicesOffered(devices={}, num_cores=16))
        else:
            self.offer(self._num_devices, self._nodes)

    def begin_again(self) -> None:
        """Its process and all workers have died, and another process imports modules now."""
        self._kept, self.is_cold = KeptRuns(), True
        self.runs.clear()
        self.workers.clear()

    def tell(self, message: h.ToHost) -> None:
        message = CODEC[0].decode(msgspec.json.encode(message))
        if self.is_deaf or self._untold:
            self._untold.append(message)
        else:
            self._act_on(message)

    def _act_on(self, message: h.ToHost) -> None:
        self.told.append(message)
        self._kept.note_told(message)
        match message:
            case h.OpenRun():
                self._open(message)
            case h.StartWorker():
                self._start(message)
            case h.TellWorker(run=run, worker=number, message=said):
                if (worker := self.workers.get((run, number))) is not None:
                    self._read(worker, said)
            case h.SignalWorker(run=run, worker=number, signal=signal_number):
                self._signal(run, number, signal_number)
            case h.SetShare(run=run, share=share):
                self.shares[run] = share
            case h.CloseRun(run=run):
                assert not [key for key in self.workers if key[0] == run], "closed with workers in it"
                self.runs.pop(run, None)
            case h.TestDevices(node=name, devices=devices):
                sound = DeviceTest(device="", flops_per_s=1.0, memory_per_s=1.0, sum_per_s=1.0)
                results = tuple(msgspec.structs.replace(sound, device=device) for device in devices)
                self.answer(NodeTested(at_s=0.0, name=name, results=results))
            case h.KeepGang():
                pass

    def _open(self, order: h.OpenRun) -> None:
        assert order.run not in self.runs
        if self.refusal is not None:
            outcome, why = self.refusal
            self.refusal = None if self._is_once else self.refusal
            refused = h.RunRefused(run=order.run, outcome=outcome, why=why, is_lacking=self.is_lacking)
            self.answer(refused)
            return
        self.runs[order.run] = order
        self.shares[order.run] = FULL_SHARE if order.share is None else order.share
        at = MeetingPoint(address=f"{self.name}.example", port=4711)
        is_restarted = order.spec.elasticity is not Elasticity.LIVE
        opened = h.RunOpened(
            run=order.run,
            first_worker=max(self.first_worker, self._fleet.num_workers[order.run] if self._fleet else 0),
            meeting_point=at if is_restarted else None,
        )
        self.answer(opened)

    def _start(self, order: h.StartWorker) -> None:
        if order.run not in self.runs:
            return
        assert all(device.startswith(f"{self.name}/") for device in order.devices)
        key = order.run, order.worker
        worker = self.workers[key] = FakeWorker(
            self, order.run, order.worker, order.devices, environ=order.environ
        )
        self.first_worker = max(self.first_worker, order.worker + 1)
        if self._fleet is not None:
            self._fleet.num_workers[order.run] = max(self._fleet.num_workers[order.run], order.worker + 1)
        pid = next(self._pids)
        self.answer(h.WorkerForked(run=order.run, worker=order.worker, pid=pid))
        worker.say(m.Hello(token="t", worker=order.worker, pid=pid))

    def _read(self, worker: FakeWorker, said: m.FromAgent) -> None:
        if isinstance(said, m.Welcome):
            worker.welcome = said
            worker.say(m.Ready())
        elif self._fleet is not None:
            self._fleet.obey(worker, said)

    def _signal(self, run: str, number: int, signal_number: int) -> None:
        worker = self.workers.get((run, number))
        if worker is not None:
            worker.signals.append(signal_number)
            if signal_number in (signal.SIGKILL, signal.SIGTERM):
                self.exit(worker, -signal_number)

    def exit(self, worker: FakeWorker, status: int) -> None:
        """The process is gone."""
        del self.workers[worker.run, worker.number]
        tail = "last line" if status else ""
        exited = h.WorkerExited(run=worker.run, worker=worker.number, status=status, log_tail=tail)
        self.answer(exited)


@dataclass
class Head:
    """What a head would go by: its gangs, and of each job the latest command until that is answered."""

    heard: ReceivedNumbers = field(default_factory=ReceivedNumbers)  #: of the controller
    gangs: dict[str, int] = field(default_factory=dict)  #: generation, by job
    asked: dict[str, GangCommand | ProfileJob] = field(default_factory=dict)
    untaken: deque[GangCommand | ProfileJob] = field(default_factory=deque)
    done: dict[str, LaunchGang | Reconfigure] = field(default_factory=dict)  #: the latest that was, by job

    def order(self, command: GangCommand | ProfileJob) -> None:
        self.untaken.append(command)
        self.asked[command.job_id] = command
        if not isinstance(command, ProfileJob):
            known = self.gangs.get(command.job_id)
            if known is not None or isinstance(command, LaunchGang):
                self.gangs[command.job_id] = max(known or 0, command.generation)

    def hear(self, event: AnyEvent) -> None:
        job_id, asked = getattr(event, "job_id", ""), self.asked.get(getattr(event, "job_id", ""))
        if isinstance(event, JobProfiled | ProfilingFailed):
            self.asked.pop(job_id, None)
        elif isinstance(event, GangEvent) and not isinstance(event, StepsReported):
            if not isinstance(asked, ProfileJob | None) and asked.generation == event.generation:
                del self.asked[job_id]
                if isinstance(event, GangStarted | GangResized) and isinstance(
                    asked, LaunchGang | Reconfigure
                ):
                    self.done[job_id] = asked
            is_end = isinstance(event, GangEnded | GangSuspended)
            if is_end and event.generation >= self.gangs.get(job_id, event.generation + 1):
                del self.gangs[job_id]

    def adopt(self, inventory: Inventory) -> list[GangEnded]:
        """Another controller: gangs that it does not have are lost; what was not answered is said again."""
        is_first = not self.heard.sender
        if not self.heard.begin_sender(inventory.boot_id) or is_first:
            return []
        live = {gang.job_id for gang in inventory.work.gangs}
        changes = [
            Reconfigure(job_id=done.job_id, generation=done.generation, target=done.target)
            for gang in inventory.work.gangs
            if (done := self.done.get(gang.job_id)) is not None and gang.generation < done.generation
        ]
        launches = {command.job_id for command in self.untaken if isinstance(command, LaunchGang)}
        lost = [
            GangEnded(at_s=0.0, job_id=job, generation=generation, outcome=Outcome.LOST, steps=0)
            for job, generation in self.gangs.items()
            if job not in live | inventory.work.ended.keys() | launches
        ]
        for end in lost:
            del self.gangs[end.job_id]
            self.asked.pop(end.job_id, None)
        self.untaken = deque(
            command
            for job, command in self.asked.items()
            if isinstance(command, ProfileJob) or command in self.untaken or job in live
        )
        self.untaken.extendleft(changes)
        return lost


class Line:
    """A daemon's end. What it is told is kept, and handed on where somebody wants it."""

    def __init__(
        self,
        hear: Callable[[EventTold], None] = lambda told: None,
        reconcile: Callable[[Inventory], None] = lambda inventory: None,
    ) -> None:
        self._hear, self._reconcile = hear, reconcile
        self.events: list[AnyEvent] = []
        self.inventory: Inventory | None = None
        self.is_open, self.is_full = True, False
        self.readings: list[dict[str, DeviceReading]] = []

    def send(self, message: msgspec.Struct) -> None:
        if isinstance(message, h.DevicesRead):
            self.readings.append(message.readings)
        if isinstance(message, EventTold):
            self.events.append(message.event)
            self._hear(message)
        elif isinstance(message, Inventory):
            self.inventory = message
            self._reconcile(message)


class Fleet:
    """A controller, some hosts, and the clock that the controller goes by."""

    def __init__(
        self, state_dir: Path, names: Iterable[str] = "abc", gang_settings: GangSettings | None = None
    ) -> None:
        self.time_s = 0.0
        self._state_dir, self._gang_settings = state_dir, gang_settings or GangSettings()
        self._num_controllers = 0
        self._head, self._num_commands = Head(), 0
        self.inventory: Inventory | None = None
        self.hosts: dict[str, FakeHost] = {}
        self.num_workers = Counter[str]()  #: by run, that there were: their logs lie in the common storage
        self.proves = True  #: workers answer at once that are to prove themselves
        self.steps: dict[str, int] = {}  #: by run, as the state of its members has it
        self.events: list[AnyEvent] = []
        self._formed: set[tuple[str, int, int]] = set()  #: run, worker and generation
        self.controller = self._new_controller(())
        self.attach("session")
        self.meet()
        for name in names:
            self.join(name)

    # ------------------------------------------------------------ the controller's life
    def _new_controller(self, awaited: Iterable[str]) -> Controller:
        self._num_controllers += 1
        boot_id = f"boot-{self._num_controllers}"
        controller = Controller(self._state_dir, self._gang_settings, boot_id, lambda: self.time_s)
        controller.await_hosts(tuple(awaited))
        return controller

    def attach(self, session: str) -> None:
        """A daemon's new line."""
        self.line = Line(self._hear_event, self._reconcile)
        self.controller.attach(self.line, session)

    def replace_controller(self, come: Iterable[str] | None = None) -> None:
        """It dies; another one comes, and the hosts that are named, or all."""
        self.line.is_open = False
        self.controller = self._new_controller(self.hosts)
        self.attach("session")
        for name in self.hosts if come is None else come:
            self.return_host(name)

    def return_host(self, name: str) -> None:
        """It comes to a controller that is new to it."""
        host = self.hosts[name]
        self.controller.join_host(name, host.tell, lambda: host.is_reached)
        host.meet_new_controller()
        self.meet()

    def meet(self) -> None:
        """The daemon says again what may be lost, once it has been told what runs."""
        while self.controller._takeover.is_over and self._head.untaken:
            self._num_commands += 1
            self.controller.perform(self._num_commands, self._head.untaken.popleft())

    def _reconcile(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.events += self._head.adopt(inventory)

    def _hear_event(self, told: EventTold) -> None:
        if self._head.heard.take_number(told.number):
            self._head.hear(told.event)
            self.events.append(told.event)

    def join_machine(self, name: str) -> FakeHost:
        """A host that names its node."""
        host = self.join(name)
        host.offer(nodes=(host.node(),))
        return host

    def join(self, name: str) -> FakeHost:
        host = FakeHost(name, self, lambda message: self.controller.handle_host_message(name, message))
        self.hosts[name] = host
        self.controller.join_host(name, host.tell, lambda: host.is_reached)
        host.offer()
        return host

    def check_claims(self) -> None:
        """A gang that is on a device is asked before another may have it."""
        runs = self.controller._runs
        for gang in runs.live_gangs:
            launches = {device: launch(device, job="another") for device in gang.devices}
            missed = [device for device, command in launches.items() if not runs.obstacle(command)]
            assert not missed, f"no gang would know that {gang.job_id} is on {missed}"

    @property
    def gangs(self) -> set[str]:
        """Jobs that have a gang, as far as the daemon knows."""
        return set(self._head.gangs)

    def lose(self, name: str, why: str = "its machine is gone") -> None:
        """A host goes, and what it has with it."""
        self.hosts.pop(name).workers.clear()
        self.controller.lose_host(name, why)
        self.meet()

    def perform(self, command: GangCommand | ProfileJob) -> None:
        self._head.order(command)
        self.meet()

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(10 * seconds)):
            self.time_s += 0.1
            for host in list(self.hosts.values()):
                host.tell_usage()
            self.controller.tick()

    def workers(self, run: str) -> list[FakeWorker]:
        return [w for host in self.hosts.values() for w in host.workers.values() if w.run == run]

    def rounds(self, run: str) -> set[int]:
        """Generations of the wire that members were told last."""
        return {worker.order.generation for worker in self.workers(run) if worker.order is not None}

    # ------------------------------------------------------------ what workers do together
    def obey(self, worker: FakeWorker, said: m.FromAgent) -> None:
        match said:
            case m.Regroup(rank=None, generation=generation):
                worker.say(m.Left(generation=generation))
                worker.host.exit(worker, 143)
            case m.Regroup():
                worker.order = said
                if said.rank == 0:
                    worker.say(m.Bound(generation=said.generation, address="10.9.0.11:4000"))
            case m.StoreAddress(generation=generation):
                self._form(worker.run, generation)
            case m.Suspend(generation=generation):
                if worker.order is not None and worker.order.rank == 0:
                    worker.say(m.CheckpointSaved(steps=self.steps[worker.run], path="x"))
                worker.say(m.Left(generation=generation))
                worker.host.exit(worker, 143)
            case m.Witness():
                worker.say(m.Witnessed(steps=self.steps[worker.run]))
            case m.Prove() if self.proves:
                worker.say(m.Proved(steps=self.steps.get(worker.run)))
            case m.Abort(generation=generation):
                if worker.order is not None and worker.order.generation == generation:
                    steps = self.steps.get(worker.run, 0)
                    worker.say(m.Broken(generation=generation, steps=steps, message="peer gone"))
        if isinstance(said, m.Regroup) and said.num_workers == 1:
            self._form(worker.run, said.generation)

    def _form(self, run: str, generation: int) -> None:
        group = [w for w in self.workers(run) if w.order is not None and w.order.generation == generation]
        if not group or group[0].order is None or len(group) < group[0].order.num_workers:
            return
        steps = self.steps.setdefault(run, 0)
        now = {(run, worker.number, generation) for worker in group}
        if now <= self._formed:
            return
        assert run.startswith("trial:") or not now & self._formed, "a generation forms twice"
        self._formed |= now
        for worker in group:
            worker.say(m.Joined(generation=generation, steps=steps))
        self.step(run)

    def step(self, run: str) -> None:
        """One step of the whole group."""
        group = self.workers(run)
        leaders = (worker for worker in group if worker.order is not None and worker.order.rank == 0)
        leader = next(leaders, None)
        if leader is None or leader.order is None:
            return  # the next group is being told already
        self.steps[run] += 1
        progress = m.Progress(
            generation=leader.order.generation, steps=self.steps[run], num_workers=len(group), step_s=0.1
        )
        leader.say(progress)

    def save(self, run: str) -> None:
        """The leader saves, and the whole group makes another step."""
        for worker in self.workers(run):
            if worker.order is not None and worker.order.rank == 0:
                worker.say(m.CheckpointSaved(steps=self.steps[run], path="x"))
        self.step(run)


# ---------------------------------------------------------------- what a head asks and hears
def launch(
    *devices: str,
    generation: int = 1,
    job: str = JOB,
    share: float | None = None,
    elasticity: Elasticity = Elasticity.LIVE,
) -> LaunchGang:
    where = Target(devices=devices, configuration=Configuration(share=share))
    spec = make_spec(elasticity=elasticity)
    return LaunchGang(job_id=job, generation=generation, target=where, spec=spec, total_steps=1000)


def change(generation: int, *devices: str, share: float | None = None) -> Reconfigure:
    where = Target(devices=devices, configuration=Configuration(share=share))
    return Reconfigure(job_id=JOB, generation=generation, target=where)


def of_kind(fleet: Fleet, kind: type[Wanted]) -> list[Wanted]:
    return [event for event in fleet.events if isinstance(event, kind)]
