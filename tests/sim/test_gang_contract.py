"""Simulated gangs keep the contract of gangs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.gang_contract import ENDLESS, JOB, GangContract, Wanted
from tests.sim.worlds import BATCH, job

from swell.model.command import GangCommand, LaunchGang
from swell.model.event import AnyEvent
from swell.model.target import Configuration, Target
from swell.sim.change_cost import change_cost
from swell.sim.gangs import GangTimes
from swell.sim.simulate import cluster
from swell.sim.true_speed import BatchTruth
from swell.sim.world import Scenario, SimulatedWorld

RATES = {1: 1.0, 2: 1.8, 3: 2.4, 4: 3.0}


class AnyBatch(BatchTruth):
    """A step of any batch takes as long as one of the own."""

    def __init__(self) -> None:
        self.own_batch = BATCH

    def rate_per_s(self, workers: int, global_batch: int, steps: float) -> float:
        return RATES[workers] * global_batch / self.own_batch

    def noise_scale(self, global_batch: int, steps: float) -> float:
        return 1000.0

    def epoch_end(self, steps: float) -> float:
        return math.inf


class SimulatedGangs:
    """A simulated world without a head: its time goes on while something is waited for."""

    def __init__(self) -> None:
        self.devices = tuple(device for node in cluster(1, 4, "gpu") for device in node.devices)
        self.events: list[AnyEvent] = []
        self._job = job(JOB, steps=ENDLESS, rates=RATES)
        timings = GangTimes(report_s=1.0)
        self._world = SimulatedWorld(
            Scenario(
                nodes=cluster(1, 4, "gpu"),
                jobs=[self._job],
                cost=change_cost("changed", 4),
                timings=timings,
            )
        )
        self._world.next_events()  # the node, and the job

    def launch(
        self, generation: int, devices: tuple[str, ...], steps: int = ENDLESS, *, batch: int | None = None
    ) -> LaunchGang:
        truth = None if batch is None else AnyBatch()
        if steps != self._job.num_steps or truth is not None:
            self._job = replace(self._job, num_steps=steps, batches=truth)
            self._world._jobs[JOB] = self._job
        target = Target(devices=devices, configuration=Configuration(global_batch=batch))
        return LaunchGang(
            job_id=JOB, generation=generation, target=target, spec=self._job.spec, total_steps=steps
        )

    def perform(self, command: GangCommand) -> None:
        self._world.perform(command)

    def wait(self, kind: type[Wanted], generation: int | None = None, num: int = 1) -> Wanted:
        for _ in range(10_000):
            found = [
                event
                for event in self.events
                if isinstance(event, kind) and generation in (None, getattr(event, "generation", None))
            ]
            if len(found) >= num:
                return found[num - 1]
            batch = self._world.next_events()
            assert batch, f"no {kind.__name__} of generation {generation}; came: {self.events}"
            self.events += batch
        raise AssertionError(f"no {kind.__name__} of generation {generation} in all that time")

    def kill(self, device: str) -> None:
        self._world.all_gangs.lose(frozenset({device}), self._world.now_s)


@pytest.fixture
def world() -> SimulatedGangs:
    return SimulatedGangs()


class TestSimulatedGangs(GangContract):
    pass
