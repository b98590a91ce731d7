"""Gangs whose optimizer's state is divided, with mirrors, on two hosts that have joined: `make test-soak`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.executors.contract import ExecutorWorld, MakeJob
from tests.executors.executor_gangs import ExecutorGangContract
from tests.executors.joined_hosts import DEVICES, HOSTS, JoinedHosts
from tests.executors.listening import eventually
from tests.executors.puppets import make_spec
from tests.executors.shared_platform import SharedPlatform
from tests.gang_contract import ENDLESS

from swell.executors.local.link import LocalExecutor
from swell.model.event import GangEnded, StepsReported
from swell.model.job import JobSpec

SCRIPT = Path(__file__).parents[1] / "train" / "scripts" / "endless.py"
WITHIN_S = 120.0

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sharded-hosts")


@pytest.fixture(scope="module")
def hosts(folder: Path) -> Iterator[JoinedHosts]:
    made = JoinedHosts(folder, folder / "state")
    yield made
    made.close()


@pytest.fixture(scope="module")
def platform(folder: Path, hosts: JoinedHosts, importable: None) -> Iterator[SharedPlatform]:
    def new_executor() -> LocalExecutor:
        return LocalExecutor(folder / "state", [], listen="127.0.0.1:0")

    made = SharedPlatform(folder / "state", new_executor, DEVICES, hosts.bring, WITHIN_S)
    yield made
    made.close()


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    def make(**args: object) -> JobSpec:
        return make_spec(
            entry=str(SCRIPT), workdir=str(tmp_path), args=("mirrors",), checkpoint_interval_s=3600.0
        )

    return make


@pytest.fixture
def world(platform: SharedPlatform, make_job: MakeJob) -> Iterator[ExecutorWorld]:
    with platform.world(make_job) as world:
        yield world


class TestShardedGangsOnHosts(ExecutorGangContract):
    pass


def test_a_host_that_is_killed_takes_no_step_with_it(world: ExecutorWorld, hosts: JoinedHosts) -> None:
    """Two of four workers are on it. It is the last test, for the host does not come back."""
    world.launch(world.devices[:4], steps=ENDLESS)
    world.wait(StepsReported, 1)
    hosts.processes[HOSTS[1]].kill()

    def reports() -> list[StepsReported]:
        return [event for event in world.listener.events if isinstance(event, StepsReported)]

    eventually(lambda: reports()[-1].num_workers == 2 and reports()[-1].steps > 20)
    steps = [step for event in reports() for step in _steps_of(event)]
    assert steps == list(range(1, len(steps) + 1)), "no step was lost, and none done again"
    assert not any(isinstance(event, GangEnded) for event in world.listener.events)


def _steps_of(report: StepsReported) -> range:
    told = report.curves["loss"]
    return range(told.first_step, told.last_step + 1)
