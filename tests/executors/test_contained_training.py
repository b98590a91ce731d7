"""Real training in real containers, and limits that the kernel enforces there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.executors.contained import contained_job, executors, started
from tests.executors.container_engines import TestedEngine
from tests.executors.contract import JOB, launch, resize
from tests.executors.listening import Listener, eventually
from tests.executors.puppets import devices, make_spec

from swell.executors.local.containers.engine import ContainerChoice
from swell.executors.local.containers.meter import ContainerMeter
from swell.executors.local.devices import parse_devices
from swell.executors.local.limits.limiter import CoreSharing
from swell.executors.local.link import LocalExecutor
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import GangEnded, GangResized, GangStarted, Outcome
from swell.model.job import JobSpec
from swell.model.share_mode import ShareMode
from swell.model.target import Configuration, Target

pytestmark = pytest.mark.soak
pytest.importorskip("torch")
SCRIPT = Path(__file__).with_name("train_tiny.py")
#: CPU time of one measurement, and how long one may take on a busy machine.
MEASURED_S, LONGEST_S = 0.5, 30.0


@pytest.fixture(scope="module", params=["docker", "podman"])
def engine(request: pytest.FixtureRequest) -> Iterator[TestedEngine]:
    with started(request.param) as engine:
        yield engine


def test_a_model_is_trained_at_three_sizes_in_one_container(engine: TestedEngine, tmp_path: Path) -> None:
    """With torch from the platform's packages: the image has none."""
    choice = ContainerChoice(engine.name)
    executor = LocalExecutor(tmp_path / "state", parse_devices("cpu:4"), containers=choice)
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
        assert len(engine.running()) == 1
        ended = listener.wait(GangEnded, 3)
        assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, 300), ended.message
    finally:
        executor.shut_down()


@pytest.mark.parametrize("mode", [ShareMode.WEIGHT, ShareMode.QUOTA])
def test_a_changed_share_is_obeyed(engine: TestedEngine, tmp_path: Path, mode: ShareMode) -> None:
    """Two busy jobs on one core, which the platform keeps to."""
    with executors(tmp_path / "state", engine, sharing=CoreSharing(1.0, mode)) as make:
        executor, listener = make(), Listener()
        executor.start(listener.put)
        for number, job_id in enumerate(("changed", "same")):
            command = launch(lambda **args: contained_job(engine, tmp_path, **args), devices(number), busy=1)
            executor.perform(msgspec.structs.replace(command, job_id=job_id))
        listener.wait(GangStarted, num=2)
        pids = {event.job_id: event.pids[0] for event in listener.events if isinstance(event, GangStarted)}
        assert all(len(os.sched_getaffinity(pid)) == 1 for pid in pids.values())
        meters = {job_id: ContainerMeter(pid, CoreSharing()) for job_id, pid in pids.items()}

        def measure() -> dict[str, float]:
            """Cores that each has used, until both together have got so much of them from others."""
            begun_s, begun = (
                time.monotonic(),
                {job_id: meter.usage().cpu_s for job_id, meter in meters.items()},
            )
            used_s: dict[str, float] = {}

            def is_measured() -> bool:
                used_s.update(
                    {job_id: meter.usage().cpu_s - begun[job_id] for job_id, meter in meters.items()}
                )
                return sum(used_s.values()) >= MEASURED_S

            eventually(is_measured, LONGEST_S)
            return {job_id: each_s / (time.monotonic() - begun_s) for job_id, each_s in used_s.items()}

        def is_obeyed() -> bool:
            cores = measure()
            if mode is ShareMode.QUOTA:  # on a busy machine the other one may have no more
                return cores["changed"] < 0.25
            return 0.1 < cores["changed"] / cores["same"] < 0.4

        before = measure()
        assert 0.4 < before["changed"] / before["same"] < 2.5
        target = Target(devices=devices(0), configuration=Configuration(share=0.2))
        executor.perform(Reconfigure(job_id="changed", generation=2, target=target))
        listener.wait(GangResized, 2)
        eventually(is_obeyed, LONGEST_S)


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
