"""Real training in real containers, and limits that the kernel enforces there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.eventually import eventually
from tests.executors.contained import contained_job, executors, started
from tests.executors.container_engines import TestedEngine
from tests.executors.contract import JOB, launch, resize
from tests.executors.listening import Listener
from tests.executors.puppets import devices, make_spec

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.containers.engine import ContainerKind
from swell.executors.local.devices import parse_devices
from swell.executors.local.link import LocalExecutor
from swell.model.command import LaunchGang
from swell.model.event import GangEnded, GangResized, GangStarted, Outcome
from swell.model.job import JobSpec
from swell.model.target import Target

pytestmark = pytest.mark.soak
pytest.importorskip("torch")
SCRIPT = Path(__file__).with_name("train_tiny.py")


@pytest.fixture(scope="module", params=["docker", "podman"])
def engine(request: pytest.FixtureRequest) -> Iterator[TestedEngine]:
    with started(request.param) as engine:
        yield engine


def test_a_model_is_trained_at_three_sizes_in_containers(engine: TestedEngine, tmp_path: Path) -> None:
    """With torch from the platform's packages: the image has none."""
    choice = ContainerKind(engine.name)
    options = AgentOptions(state_dir=tmp_path / "state", containers=choice)
    executor = LocalExecutor(options, parse_devices("cpu:4"))
    listener = Listener()
    executor.start(listener.put)
    try:
        spec = make_spec(
            entry=str(SCRIPT), workdir=str(tmp_path), args=("0.01",), global_batch=64, image=engine.image
        )
        executor.perform(
            LaunchGang(
                job_id=JOB, generation=1, target=Target(devices=devices(0)), spec=spec, total_steps=300
            )
        )
        first = listener.wait(GangStarted, 1)
        executor.perform(resize(2, devices(0, 1)))
        assert listener.wait(GangResized, 2).pids[:1] == first.pids
        executor.perform(resize(3, devices(0)))
        assert listener.wait(GangResized, 3).pids == first.pids
        eventually(lambda: len(engine.running()) == 1)
        ended = listener.wait(GangEnded, 3)
        assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, 300), ended.message
    finally:
        executor.shut_down()


def test_a_gang_beyond_its_memory_limit_is_told_so(engine: TestedEngine, tmp_path: Path) -> None:
    with executors(tmp_path / "state", engine) as make:
        executor, listener = make(), Listener()
        executor.start(listener.put)

        def make_job(**args: object) -> JobSpec:
            spec = contained_job(engine, tmp_path, **args)
            return msgspec.structs.replace(spec, memory_bytes=200 << 20)

        executor.perform(launch(make_job, devices(0), eat=400))
        ended = listener.wait(GangEnded, 1)
    assert "went beyond their memory limit of 209.7 MB" in ended.message, ended
