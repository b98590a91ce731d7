"""The local executor's gangs keep the contract, on real processes that only pretend to train."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import msgspec
import pytest
from tests.executors.listening import Listener
from tests.executors.puppets import devices
from tests.gang_contract import ENDLESS, JOB, GangContract, Wanted

from swell.executors.local.link import LocalExecutor
from swell.model.command import GangCommand, LaunchGang
from swell.model.event import AnyEvent, GangResized, GangStarted
from swell.model.job import JobSpec
from swell.model.target import Configuration, Target


class LocalGangs:
    def __init__(self, executor: LocalExecutor, listener: Listener, make_job: Callable[..., JobSpec]) -> None:
        self.devices = devices(0, 1, 2, 3)
        self._executor, self._listener, self._make_job = executor, listener, make_job
        self._targets: dict[int, tuple[str, ...]] = {}

    @property
    def events(self) -> list[AnyEvent]:
        return self._listener.events

    def launch(
        self, generation: int, devices: tuple[str, ...], steps: int = ENDLESS, *, batch: int | None = None
    ) -> LaunchGang:
        spec = self._make_job(steps=steps)
        if batch is not None:
            spec = msgspec.structs.replace(spec, max_batch=512)
        target = Target(devices=devices, configuration=Configuration(global_batch=batch))
        return LaunchGang(job_id=JOB, generation=generation, target=target, spec=spec, total_steps=steps)

    def perform(self, command: GangCommand) -> None:
        if hasattr(command, "target"):
            self._targets[command.generation] = command.target.devices
        self._executor.perform(command)

    def wait(self, kind: type[Wanted], generation: int | None = None, num: int = 1) -> Wanted:
        return self._listener.wait(kind, generation, num)

    def kill(self, device: str) -> None:
        formed = [event for event in self.events if isinstance(event, GangStarted | GangResized)][-1]
        rank = self._targets[formed.generation].index(device)
        os.kill(formed.pids[rank], signal.SIGKILL)


@pytest.fixture
def world(executor: LocalExecutor, listener: Listener, make_job: Callable[..., JobSpec]) -> LocalGangs:
    return LocalGangs(executor, listener, make_job)


class TestLocalGangs(GangContract):
    pass
