"""How long it takes until a job trains on a node that Ray has: see `starts`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.platform.program import Program
from tests.platform.starts import NUM_DEVICES, PACE, ROUNDS, StartTimes, await_leave, await_size, begin
from tests.ray.one_machine import OneMachine, why_not


@pytest.fixture
def cluster() -> Iterator[OneMachine]:
    if why_not():
        pytest.skip(f"no Ray cluster can be had here: {why_not()}")
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    try:
        with OneMachine(folder, ["n1"], NUM_DEVICES) as made, made.network():
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def program(cluster: OneMachine, tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path / "state", {})
    yield made
    print((tmp_path / "state" / "agent.log").read_text())
    made("down")
    made.await_processes(0)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_job_trains_on_a_node_that_ray_has(cluster: OneMachine, program: Program, tmp_path: Path) -> None:
    resource = f"CPU=paced@{PACE}"
    done = program("up", "--engine", "ray", "--address", cluster.address, "--device-resource", resource)
    assert done.returncode == 0, done
    folder, times = tmp_path / "job", StartTimes("ray")
    job = begin(program, folder)
    await_size(folder, NUM_DEVICES, 0)
    for _ in range(ROUNDS):
        times.take(program, folder, lambda: cluster.add("n2"))
        cluster.end("n2")
        await_leave(program, folder)
    program.finish(job, folder)
    times.tell()
