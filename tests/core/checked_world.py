"""Which devices a head may take for free, by what it has commanded and been told, and whether it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from swell.core.loop import World
from swell.model.command import (
    AnyCommand,
    GangCommand,
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
    GangEvent,
    GangFound,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    ProfilingFailed,
    ResizeFailed,
    WorkersLost,
)
from swell.model.job import JobSpec
from swell.model.target import Target
from swell.sim.gang import SimGang


@dataclass(slots=True)
class ToldGang:
    """A gang whose end has not been told."""

    launched: int  #: generation
    asked: GangCommand | GangFound  #: the latest command about it
    members: frozenset[str]  #: devices of the workers that train; none before the start
    coming: frozenset[str]  #: devices that were asked for and not refused
    formed: int = 0  #: generation that trains; 0 before the start

    @property
    def occupied(self) -> frozenset[str]:
        return self.members | self.coming

    def ask(self, command: Reconfigure | SuspendGang | StopGang) -> None:
        is_stop = isinstance(command, StopGang)
        assert command.generation >= self.asked.generation, f"{command} is older than {self.asked}"
        if command.generation == self.asked.generation and not is_stop:
            assert command == self.asked, f"{command} has the generation of {self.asked}"
        elif isinstance(command, Reconfigure):
            self.coming = frozenset(command.target.devices)
        assert is_stop or not isinstance(self.asked, StopGang), f"{command} comes after {self.asked}"
        self.asked = command

    def hear(self, event: GangEvent) -> None:
        is_answer = event.generation == self.asked.generation > self.formed
        match event, self.asked:
            case (GangStarted(), LaunchGang()) | (GangResized(), Reconfigure()) if is_answer and self.coming:
                self.formed, self.members, self.coming = event.generation, self.coming, frozenset()
            case (ResizeFailed(), Reconfigure()) if is_answer:
                self.coming = frozenset()
            case (WorkersLost(devices=devices), _) if self._is_news(event, devices):
                self.members -= set(devices)
                self.coming = frozenset()

    def _is_news(self, event: GangEvent, devices: tuple[str, ...]) -> bool:
        """Of a loss: what was told before is about devices that it has no more."""
        is_of_now = self.formed <= event.generation <= self.asked.generation
        return is_of_now and not self.occupied.isdisjoint(devices)

    def is_ended_by(self, event: GangEvent) -> bool:
        is_end = isinstance(event, GangEnded | GangSuspended)
        return is_end and event.generation in (self.formed or self.asked.generation, self.asked.generation)


def check_batch(target: Target, spec: JobSpec) -> None:
    """A job is told no batch that it may not have; one that has a batch for each worker keeps that."""
    batch, num_workers = target.configuration.global_batch, len(target.devices) // spec.devices_per_worker
    if spec.batch_per_worker is not None:
        assert batch == spec.batch_per_worker * num_workers, (target, spec)
    elif batch is not None:
        assert spec.max_batch is not None and spec.least_batch <= batch <= spec.max_batch, (target, spec)


class CheckedWorld:
    """Asserts that no device is handed to two gangs, and that each command is about a gang that can be.

    Implements `core.loop.World`. Reports of generations that are history are ignored here as they are in
    the head.

    Args:
        gangs: of the world in truth, by job: none may have a device that the head could take for free.
    """

    def __init__(self, world: World, gangs: Callable[[], Mapping[str, SimGang]]) -> None:
        self._world = world
        self._true_gangs = gangs
        self._gangs: dict[str, ToldGang] = {}
        self._trials: dict[str, int] = {}  #: job -> attempt
        self._specs: dict[str, JobSpec] = {}
        self._last: dict[str, int] = {}  #: generation of the latest command about the job's gangs

    @property
    def occupied(self) -> dict[str, str]:
        """Device -> the job that has a process on it, as far as is told."""
        owner: dict[str, str] = {}
        for job_id, gang in self._gangs.items():
            for device in gang.occupied:
                before = owner.setdefault(device, job_id)
                assert before == job_id, f"{device} is handed to {before} and {job_id}"
        return owner

    # ------------------------------------------------------------ the port
    def next_events(self) -> Sequence[AnyEvent]:
        batch = self._world.next_events()
        for event in batch:
            self._hear(event)
        self._check()
        return batch

    def perform(self, command: AnyCommand) -> None:
        if isinstance(command, LaunchGang):
            self._specs[command.job_id] = command.spec
        if isinstance(command, LaunchGang | Reconfigure) and command.job_id in self._specs:
            check_batch(command.target, self._specs[command.job_id])
        match command:
            case ProfileJob():
                self._trials[command.job_id] = command.attempt
            case LaunchGang():
                self._launch(command)
            case Reconfigure() | SuspendGang() | StopGang():
                self._ask(command)
            case WakeAt():
                pass
        self._world.perform(command)
        self._check()

    # ------------------------------------------------------------ what is told
    def _hear(self, event: AnyEvent) -> None:
        if isinstance(event, JobProfiled | ProfilingFailed):
            if self._trials.get(event.job_id) == event.attempt:
                del self._trials[event.job_id]
        elif isinstance(event, GangFound):
            devices = frozenset(event.devices)
            self._gangs[event.job_id] = ToldGang(
                event.generation, event, devices, frozenset(), event.generation
            )
        elif isinstance(event, GangEvent):
            gang = self._gangs.get(event.job_id)
            if gang is None or event.generation < gang.launched:
                return
            if gang.is_ended_by(event):
                del self._gangs[event.job_id]
            else:
                gang.hear(event)

    # ------------------------------------------------------------ what is asked
    def _launch(self, command: LaunchGang) -> None:
        gang = self._gangs.get(command.job_id)
        if gang is not None:
            assert command == gang.asked, f"{command} while {gang} is there"
            return
        assert command.generation > self._last.get(command.job_id, 0), f"{command} is of a gang that ended"
        self._last[command.job_id] = command.generation
        devices = frozenset(command.target.devices)
        self._gangs[command.job_id] = ToldGang(command.generation, command, frozenset(), devices)

    def _ask(self, command: Reconfigure | SuspendGang | StopGang) -> None:
        gang = self._gangs.get(command.job_id)
        if gang is None:
            is_trial = isinstance(command, StopGang) and self._trials.pop(command.job_id, None) is not None
            assert is_trial, f"{command} is about a gang that is not there"
            return
        gang.ask(command)
        self._last[command.job_id] = max(command.generation, self._last.get(command.job_id, 0))

    def _check(self) -> None:
        told = self.occupied
        for job_id, gang in self._true_gangs().items():
            for device in gang.occupied:
                assert told.get(device) == job_id, f"{job_id} is on {device}, which is told of {told}"
