"""Gangs whose optimizer's state is divided, with mirrors, keep the contract: real processes that train."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.executors.contract import ExecutorWorld, MakeJob
from tests.executors.executor_gangs import ExecutorGangContract
from tests.executors.puppets import devices, make_spec
from tests.executors.shared_platform import SharedPlatform
from tests.gang_contract import ENDLESS

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.link import LocalExecutor
from swell.model.event import GangEnded, GangStarted, Outcome
from swell.model.job import JobSpec

#: `make test-gpu` has it name a GPU eight times.
DEVICES = os.environ.get("TEST_PLATFORM_DEVICES", "paced:8@2000")
SCRIPT = Path(__file__).parents[1] / "train" / "scripts" / "endless.py"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, importable: None) -> Iterator[SharedPlatform]:
    state_dir = tmp_path_factory.mktemp("sharded") / "state"
    options = AgentOptions(state_dir=state_dir)
    made = SharedPlatform(
        state_dir, lambda: LocalExecutor(options, parse_devices(DEVICES)), devices(*range(8))
    )
    yield made
    made.close()


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    def make(divided: str = "mirrors", save_each_s: float = 3600.0, **args: object) -> JobSpec:
        return make_spec(
            entry=str(SCRIPT), workdir=str(tmp_path), args=(divided,), checkpoint_interval_s=save_each_s
        )

    return make


@pytest.mark.slow
class TestShardedGangs(ExecutorGangContract):
    pass


@pytest.mark.slow
def test_without_mirrors_a_gang_is_lost_with_any_worker_and_goes_on_from_its_checkpoint(
    world: ExecutorWorld,
) -> None:
    world.launch(world.devices[:3], divided="shard", save_each_s=0.5, steps=ENDLESS)
    pids = world.wait(GangStarted, 1).pids

    def has_saved() -> bool:
        return any(getattr(event, "save_s", None) is not None for event in world.listener.events)

    eventually(has_saved)
    os.kill(pids[1], signal.SIGKILL)
    assert world.wait(GangEnded, 1).outcome is Outcome.LOST
    world.launch(world.devices[:2], generation=2, divided="shard", steps=ENDLESS)
    assert world.wait(GangStarted, 2).steps > 0
