"""The gangs of an executor, as the contract of gangs has them."""

from __future__ import annotations

import os
import signal

import msgspec
import pytest
from tests.executors.contract import ExecutorWorld
from tests.gang_contract import ENDLESS, GangContract, Wanted

from swell.model.command import GangCommand, LaunchGang
from swell.model.event import AnyEvent, GangResized, GangStarted
from swell.model.target import Configuration, Target


class ExecutorGangs:
    """See `GangWorld`. The contract's job has the name here that it has in the executor's world."""

    def __init__(self, world: ExecutorWorld) -> None:
        self.devices = world.devices[:4]
        self._world = world
        self._targets: dict[int, tuple[str, ...]] = {}

    @property
    def events(self) -> list[AnyEvent]:
        return [event for event in self._world.listener.events if hasattr(event, "job_id")]

    def launch(
        self, generation: int, devices: tuple[str, ...], steps: int = ENDLESS, *, batch: int | None = None
    ) -> LaunchGang:
        spec = self._world.make_job(steps=steps)
        if batch is not None:
            spec = msgspec.structs.replace(spec, max_batch=512)
        target = Target(devices=devices, configuration=Configuration(global_batch=batch))
        return LaunchGang(
            job_id=self._world.job_id, generation=generation, target=target, spec=spec, total_steps=steps
        )

    def perform(self, command: GangCommand) -> None:
        if hasattr(command, "target"):
            self._targets[command.generation] = command.target.devices
        self._world.executor.perform(msgspec.structs.replace(command, job_id=self._world.job_id))

    def wait(self, kind: type[Wanted], generation: int | None = None, num: int = 1) -> Wanted:
        return self._world.wait(kind, generation, num)

    def kill(self, device: str) -> None:
        formed = [event for event in self.events if isinstance(event, GangStarted | GangResized)][-1]
        rank = self._targets[formed.generation].index(device)
        os.kill(formed.pids[rank], signal.SIGKILL)


class ExecutorGangContract(GangContract):
    """Of the gangs of the executor that the module's own `world` has."""

    @pytest.fixture
    def world(self, world: ExecutorWorld) -> ExecutorGangs:
        return ExecutorGangs(world)
