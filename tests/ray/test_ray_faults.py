"""Kills of Ray's actors while a job trains. KILLS says how many, SEED which ones. Times are printed."""

from __future__ import annotations

import os
import random
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.conftest import check_learned as check_learned
from tests.platform.program import CheckLearned, Program, read_diary
from tests.platform.starts import NUM_DEVICES, await_size, begin
from tests.ray.one_machine import OneMachine, one_machine
from tests.ray.test_ray_slices import processes_with

KILLS, SEED = int(os.environ.get("KILLS", "20")), int(os.environ.get("SEED", "1"))
LIMIT_S = 240.0


@pytest.fixture
def cluster() -> Iterator[OneMachine]:
    with one_machine(["n1"], NUM_DEVICES) as made:
        yield made


@pytest.fixture
def program(cluster: OneMachine, tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path / "state", {})
    yield made
    print((tmp_path / "state" / "agent.log").read_text())
    made("down")
    made.await_processes(0)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_job_and_no_sample_is_lost_by_kills_of_actors(
    cluster: OneMachine, program: Program, tmp_path: Path, check_learned: CheckLearned
) -> None:
    cluster.add("n2")
    slices = ("--slice-devices", f"paced:{NUM_DEVICES}@640", "--set", "checkpoint_interval_s=20")
    done = program("up", "--engine", "ray", "--address", cluster.address, *slices)
    assert done.returncode == 0, done
    folder, times_s, chosen = tmp_path / "job", list[float](), random.Random(SEED)
    job = begin(program, folder)
    await_size(folder, 2 * NUM_DEVICES, 0)
    for _ in range(KILLS):
        actors = eventually(lambda: processes_with("ray::SliceActor"), "an actor", LIMIT_S)
        began_s, before = time.monotonic(), len(read_diary(folder))
        os.kill(chosen.choice(actors), signal.SIGKILL)
        eventually(lambda n=before: len(read_diary(folder)) >= n + 10, "ten more steps", LIMIT_S)  # type: ignore[misc]
        times_s.append(time.monotonic() - began_s)
    await_size(folder, 2 * NUM_DEVICES, len(read_diary(folder)))
    view = program.finish(job, folder)
    num = check_learned(folder)
    print(
        f"\nseed {SEED}: {num} steps, generation {view.generation}; until ten more steps after a kill: "
        f"median {statistics.median(times_s):.1f} s, most {max(times_s):.1f} s"
    )
