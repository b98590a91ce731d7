"""A world that is a heap of future events and plays the machines by the book.

The book is what commands and events say of themselves: a device is busy until the processes on it are
gone; a loss ends the change under way, and joiners are gone before it is reported; reports of one gang
arrive in order. The world asserts what machines cannot: that no device is handed to two gangs, and no
command is about a gang that cannot be.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import msgspec
from tests.core.fakes import SCALING_EXPONENT, STEPS_PER_S, profile

from swell.model.cluster import Cluster, Node
from swell.model.command import (
    AnyCommand,
    LaunchGang,
    ProfileJob,
    Reconfigure,
    StopGang,
    SuspendGang,
    WakeAt,
)
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangFound,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    NodeJoined,
    NodeLost,
    Outcome,
    ProfilingFailed,
    ResizeFailed,
    StepsReported,
    SuspendFailed,
    Woke,
    WorkersLost,
)
from swell.model.job import JobSpec
from swell.model.target import Target

REPORT_EVERY_S = 0.5
#: What a stop, which cannot fail, takes at most.
STOP_S = 0.3
#: Nobody trains for so long at a resize, and the gang says so.
PAUSE_S = 0.1


@dataclass
class Faults:
    """Shares of the occasions on which things go wrong."""

    trial_lost: float = 0.0
    launch_lost: float = 0.0
    resize_failed: float = 0.0
    worker_lost_in_resize: float = 0.0
    suspend_failed: float = 0.0
    worker_lost_in_suspend: float = 0.0
    repeated: float = 0.0  #: reports that come once more, later


ALL_FAULTS = Faults(
    trial_lost=0.2,
    launch_lost=0.2,
    resize_failed=0.2,
    worker_lost_in_resize=0.2,
    suspend_failed=0.2,
    worker_lost_in_suspend=0.1,
    repeated=0.2,
)


@dataclass(eq=False)
class Gang:
    """Processes of one job. `asked` is the latest command, `formed` the generation that trains."""

    job_id: str
    spec: JobSpec
    total_steps: float
    asked: AnyCommand
    steps: float
    members: tuple[str, ...] = ()  #: devices of the workers that are in the group
    joiners: tuple[str, ...] = ()  #: devices of workers that are being started
    formed: int = 0
    is_training: bool = False
    is_over: bool = False
    as_of_s: float = 0.0
    num_reports: int = 0  #: invalidates scheduled reports
    pause_s: float | None = None

    @property
    def generation(self) -> int:
        assert not isinstance(self.asked, ProfileJob | WakeAt)
        return self.asked.generation

    @property
    def slots(self) -> list[tuple[str, ...]]:
        """Devices of each worker, in rank order."""
        num = self.spec.devices_per_worker
        return [self.members[first : first + num] for first in range(0, len(self.members), num)]

    @property
    def newest(self) -> frozenset[str]:
        """Devices of the worker of highest rank."""
        return frozenset(self.slots[-1])

    @property
    def rate_per_s(self) -> float:
        """The truth: 10 % less than believed at first."""
        workers = len(self.members) // self.spec.devices_per_worker
        return 0.9 * STEPS_PER_S * workers**SCALING_EXPONENT if self.is_training else 0.0


@dataclass(order=True)
class Due:
    at_s: float
    order: int
    happen: Callable[[], None] = field(compare=False)


class FakeWorld:
    """Implements `core.ports.World`.

    Args:
        seed: of delays and of faults; delays differ, so events of different jobs come in any order.
    """

    def __init__(self, seed: int = 0, faults: Faults | None = None) -> None:
        self.now_s = 0.0
        self.faults = faults or Faults()
        self.cluster = Cluster()
        self.gangs: dict[str, Gang] = {}
        self.saved_steps: dict[str, float] = {}
        self.delivered: list[AnyEvent] = []
        self.performed: list[tuple[float, AnyCommand]] = []
        self._seed = seed
        self._random = Random(seed)
        self._order = itertools.count()
        self._pid = itertools.count(1000)
        self._heap: list[Due] = []
        self._batch: list[AnyEvent] = []
        self._busy: dict[str, str] = {}  #: device -> job whose process is on it
        self._launched: dict[str, int] = {}  #: generation of the latest launch
        self._profiling: set[str] = set()
        self._wake: Due | None = None

    # ------------------------------------------------------------ World
    def next_events(self) -> Sequence[AnyEvent]:
        """All that is due next; empty once nothing will ever happen again."""
        self._batch = []
        while self._heap and not self._batch:
            self.now_s = self._heap[0].at_s
            while self._heap and self._heap[0].at_s <= self.now_s:
                heapq.heappop(self._heap).happen()
        self.delivered += self._batch
        return self._batch

    def perform(self, command: AnyCommand) -> None:
        self.performed.append((self.now_s, command))
        match command:
            case ProfileJob():
                self._profile(command)
            case LaunchGang():
                self._launch(command)
            case Reconfigure() | SuspendGang() | StopGang():
                self._change(command)
            case WakeAt():
                self._wake = self._at(max(command.at_s, self.now_s), self._wake_up)

    # ------------------------------------------------------------ what tests do to it
    def send(self, event: AnyEvent, delay_s: float = 0.0) -> None:
        """Somebody outside says this: a user, or a report that comes once more."""
        self._after(delay_s, lambda: self._batch.append(event))

    def join(self, node: Node) -> None:
        self.cluster = self.cluster.with_node(node)
        self.send(NodeJoined(at_s=self.now_s, node=node))

    def lose_node(self, name: str) -> None:
        """The machine is gone, and with it all that ran there; who hears of it first is chance."""
        gone = frozenset(d for node in self.cluster.nodes if node.name == name for d in node.devices)
        self.cluster = self.cluster.without_node(name)
        self._after(self._random.choice((0.0, 0.5)), partial(self._miss, name))
        for gang in self.gangs.values():
            if gone.intersection(gang.members + gang.joiners):
                self._after(self._random.choice((0.0, 0.2)), partial(self._lose_on, gang, gone))

    def _miss(self, name: str) -> None:
        if name not in {node.name for node in self.cluster.nodes}:
            self._say(NodeLost(at_s=self.now_s, name=name))

    def lose_workers(self, job_id: str, num: int = 1) -> None:
        """Some of the job's newest workers die."""
        gang = self.gangs[job_id]
        num_devices = num * gang.spec.devices_per_worker
        devices = frozenset((gang.joiners + gang.members)[-num_devices:])
        self._after(0.0, partial(self._lose_on, gang, devices))

    def harbour(self, job_id: str, generation: int, devices: tuple[str, ...], job: JobSpec) -> None:
        """A gang of another journal trains here, and is found."""
        asked = LaunchGang(
            job_id=job_id, generation=generation, target=Target(devices=devices), spec=job, total_steps=1000
        )
        gang = Gang(job_id, job, 1000.0, asked, 0.0, members=devices, formed=generation)
        self.gangs[job_id], self._launched[job_id] = gang, generation
        self._settle(gang)
        self._train(gang)
        self.send(GangFound(**self._facts(gang), devices=devices, steps=0))

    @property
    def busy(self) -> dict[str, str]:
        """Device -> the job that has a process on it."""
        return dict(self._busy)

    # ------------------------------------------------------------ trial runs
    def _profile(self, command: ProfileJob) -> None:
        if command.job_id not in self._profiling:
            self._profiling.add(command.job_id)
            is_lost = self._goes_wrong(self.faults.trial_lost)
            self._after(self._delay_s(command), lambda: self._profiled(command, is_lost))

    def _profiled(self, command: ProfileJob, is_lost: bool) -> None:
        self._profiling.discard(command.job_id)
        facts: dict[str, Any] = {"at_s": self.now_s, "job_id": command.job_id, "attempt": command.attempt}
        if is_lost:
            self._say(ProfilingFailed(**facts, message="was killed", outcome=Outcome.LOST))
        elif command.spec.entry == "/dies_at_once.py":
            self._say(ProfilingFailed(**facts, message="it raised"))
        else:
            self._say(JobProfiled(**facts, profile=profile()))

    # ------------------------------------------------------------ gangs
    def _launch(self, command: LaunchGang) -> None:
        job_id = command.job_id
        if command.generation <= self._launched.get(job_id, 0):
            return  # said before: it is answered, or will be
        assert job_id not in self.gangs, f"{job_id} is launched while its processes are there"
        self._launched[job_id] = command.generation
        steps = self.saved_steps.get(job_id, 0.0)
        total = 100.0 if command.total_steps is None else command.total_steps
        gang = Gang(job_id, command.spec, total, command, steps, joiners=command.target.devices)
        self.gangs[job_id] = gang
        self._settle(gang)
        if not self._are_there(command.target.devices) or self._goes_wrong(self.faults.launch_lost):
            self._then(gang, command, lambda: self._end(gang, Outcome.LOST))
        else:
            self._then(gang, command, lambda: self._started(gang))

    def _started(self, gang: Gang) -> None:
        gang.members, gang.joiners = gang.joiners, ()
        gang.formed = gang.generation
        pids = self._pids(gang)
        self._say(GangStarted(**self._facts(gang), steps=int(gang.steps), pids=pids))
        self._train(gang)

    def _change(self, command: Reconfigure | SuspendGang | StopGang) -> None:
        gang = self.gangs.get(command.job_id)
        if gang is None:
            self._answer_for_the_dead(command)
            return
        is_repeated = command == gang.asked
        if is_repeated or command.generation < gang.generation or isinstance(gang.asked, StopGang):
            return
        if isinstance(command, StopGang):
            gang.asked = command
            self._after(self._delay_s(command, STOP_S), lambda: self._end(gang, Outcome.STOPPED))
        elif isinstance(command, SuspendGang):
            gang.asked = command
            self._then(gang, command, self._suspension(gang))
        else:
            self._resize(gang, command)

    def _answer_for_the_dead(self, command: Reconfigure | SuspendGang | StopGang) -> None:
        """Whoever asks after a gang that is gone hears that it is."""
        assert command.generation >= self._launched.get(command.job_id, 0)
        self._say(
            GangEnded(
                at_s=self.now_s,
                job_id=command.job_id,
                generation=command.generation,
                outcome=Outcome.LOST,
                steps=int(self.saved_steps.get(command.job_id, 0.0)),
            )
        )

    def _resize(self, gang: Gang, command: Reconfigure) -> None:
        gang.asked = command
        gang.joiners = tuple(device for device in command.target.devices if device not in gang.members)
        self._settle(gang)
        if not self._are_there(command.target.devices) or self._goes_wrong(self.faults.resize_failed):
            self._then(gang, command, lambda: self._resize_failed(gang))
        elif self._goes_wrong(self.faults.worker_lost_in_resize):
            self._then(gang, command, lambda: self._lose(gang, gang.newest))
        else:
            self._then(gang, command, lambda: self._resized(gang, command))

    def _resized(self, gang: Gang, command: Reconfigure) -> None:
        self._progress(gang)
        gang.members, gang.joiners = command.target.devices, ()
        self._settle(gang)
        gang.formed, gang.pause_s = command.generation, PAUSE_S
        self._say(GangResized(**self._facts(gang), steps=int(gang.steps), pids=self._pids(gang)))
        self._train(gang, PAUSE_S)

    def _resize_failed(self, gang: Gang) -> None:
        gang.joiners = ()
        self._settle(gang)
        self._say(ResizeFailed(**self._facts(gang), message="a joiner died"))

    def _suspension(self, gang: Gang) -> Callable[[], None]:
        if self._goes_wrong(self.faults.suspend_failed):
            return lambda: self._say(SuspendFailed(**self._facts(gang), message="disk full"))
        if self._goes_wrong(self.faults.worker_lost_in_suspend):
            return lambda: self._lose(gang, gang.newest)
        return lambda: self._suspended(gang)

    def _suspended(self, gang: Gang) -> None:
        self._progress(gang)
        self.saved_steps[gang.job_id] = gang.steps
        self._bury(gang)
        self._say(GangSuspended(**self._facts(gang), steps=int(gang.steps)))

    def _lose_on(self, gang: Gang, devices: frozenset[str]) -> None:
        if not gang.is_over and devices.intersection(gang.members + gang.joiners):
            self._lose(gang, devices)

    def _lose(self, gang: Gang, devices: frozenset[str]) -> None:
        """Workers on these devices are gone; joiners go with them, whoever of the group is left trains on."""
        self._progress(gang)
        lost = tuple(device for slot in gang.slots if devices.intersection(slot) for device in slot)
        if gang.joiners and not gang.members:
            self._end(gang, Outcome.LOST)
            return
        gang.joiners = ()
        gang.members = tuple(device for device in gang.members if device not in lost)
        self._settle(gang)
        if not gang.members:
            self._end(gang, Outcome.LOST)
        elif not lost:  # only joiners: the group trains on
            self._say(ResizeFailed(**self._facts(gang), message="a joiner died"))
        elif not isinstance(gang.asked, StopGang):
            generation = self._random.choice((gang.formed, gang.generation))
            facts = {**self._facts(gang), "generation": generation}
            self._say(WorkersLost(**facts, devices=lost, message="exit status -9"))
            self._train(gang)
        if not isinstance(gang.asked, StopGang):
            gang.asked = msgspec.structs.replace(gang.asked)  # nothing comes of it any more

    def _end(self, gang: Gang, outcome: Outcome) -> None:
        if gang.is_over:
            return
        steps = gang.steps if outcome is Outcome.SUCCEEDED else self.saved_steps.get(gang.job_id, 0.0)
        self._bury(gang)
        self._say(GangEnded(**self._facts(gang), outcome=outcome, steps=int(steps)))

    def _bury(self, gang: Gang) -> None:
        gang.is_over, gang.is_training = True, False
        self._settle(gang)
        del self.gangs[gang.job_id]

    # ------------------------------------------------------------ training
    def _train(self, gang: Gang, pause_s: float = 0.0) -> None:
        gang.is_training = True
        gang.as_of_s = self.now_s + pause_s
        self._report_later(gang)

    def _progress(self, gang: Gang) -> None:
        elapsed_s = max(0.0, self.now_s - gang.as_of_s)
        gang.steps = min(gang.total_steps, gang.steps + gang.rate_per_s * elapsed_s)
        gang.as_of_s = max(gang.as_of_s, self.now_s)

    def _report_later(self, gang: Gang) -> None:
        gang.num_reports += 1
        number = gang.num_reports
        left_s = gang.as_of_s - self.now_s + (gang.total_steps - gang.steps) / gang.rate_per_s
        self._after(min(REPORT_EVERY_S, left_s), lambda: self._report(gang, number))

    def _report(self, gang: Gang, number: int) -> None:
        if gang.is_over or not gang.is_training or number != gang.num_reports:
            return
        self._progress(gang)
        if gang.steps >= gang.total_steps - 1e-6:
            self._end(gang, Outcome.SUCCEEDED)
            return
        pause_s, gang.pause_s = gang.pause_s, None
        facts = {**self._facts(gang), "generation": gang.formed}
        workers = len(gang.members) // gang.spec.devices_per_worker
        self._say(
            StepsReported(
                **facts,
                steps=int(gang.steps),
                num_workers=workers,
                step_s=1.0 / gang.rate_per_s,
                pause_s=pause_s,
            )
        )
        self._report_later(gang)

    # ------------------------------------------------------------ the book
    def _settle(self, gang: Gang) -> None:
        """Processes of a gang are on its members' and joiners' devices and nowhere else."""
        devices = () if gang.is_over else gang.members + gang.joiners
        for device in [device for device, job in self._busy.items() if job == gang.job_id]:
            if device not in devices:
                del self._busy[device]
        for device in devices:
            owner = self._busy.setdefault(device, gang.job_id)
            assert owner == gang.job_id, f"{device} is handed to {gang.job_id} while {owner} is on it"

    def _are_there(self, devices: tuple[str, ...]) -> bool:
        return set(devices) <= set(self.cluster.devices())

    def _facts(self, gang: Gang) -> dict[str, Any]:
        return {"at_s": self.now_s, "job_id": gang.job_id, "generation": gang.generation}

    def _pids(self, gang: Gang) -> tuple[int, ...]:
        return tuple(next(self._pid) for _ in range(len(gang.members) // gang.spec.devices_per_worker))

    # ------------------------------------------------------------ time and chance
    def _say(self, event: AnyEvent) -> None:
        self.send(event)
        if self._goes_wrong(self.faults.repeated) and not isinstance(event, StepsReported | NodeLost):
            self.send(event, self._delay_s(event, 3.0))

    def _then(self, gang: Gang, command: AnyCommand, happen: Callable[[], None]) -> None:
        """Later, unless another command or a loss has come between."""

        def happen_if_still_asked() -> None:
            if gang.asked is command and not gang.is_over:
                happen()

        self._after(self._delay_s(command), happen_if_still_asked)

    def _wake_up(self) -> None:
        if self._wake is not None and self._wake.at_s <= self.now_s:
            self._wake = None
            self._batch.append(Woke(at_s=self.now_s))

    def _after(self, delay_s: float, happen: Callable[[], None]) -> Due:
        return self._at(self.now_s + delay_s, happen)

    def _at(self, at_s: float, happen: Callable[[], None]) -> Due:
        due = Due(at_s, next(self._order), happen)
        heapq.heappush(self._heap, due)
        return due

    def _delay_s(self, of: object, most_s: float = 1.0) -> float:
        """How long something takes: chance, but the same whenever it is asked for."""
        return most_s * Random(f"{self._seed} {of}").uniform(0.2, 1.0)

    def _goes_wrong(self, share: float) -> bool:
        return share > 0.0 and self._random.random() < share

    def is_quiet_until(self, at_s: float) -> bool:
        """Nothing happens before then."""
        return not self._heap or self._heap[0].at_s > at_s
