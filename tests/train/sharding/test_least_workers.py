"""A divided job that one process cannot hold, under a limit that the kernel keeps, finds out how many can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.executors.listening import Listener
from tests.executors.puppets import make_spec, target

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.link import LocalExecutor
from swell.model.command import LaunchGang, ProfileJob
from swell.model.event import GangEnded, JobProfiled, Outcome, ProfilingFailed
from swell.model.job import EndCondition, JobSpec

WIDE = Path(__file__).parents[1] / "scripts" / "wide.py"
STEPS = 9
#: The state takes 906 MB, and half of it 453 MB. A gang needs more than its trial run: threads have stacks.
LIMIT_BYTES, TIMES = 780 * 10**6, 2
WAIT_S = 250.0


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[LocalExecutor]:
    made = LocalExecutor(AgentOptions(state_dir=tmp_path / "state"), parse_devices("cpu:4"))
    yield made
    made.shut_down()


def wide(folder: Path, way: str) -> JobSpec:
    args = (str(folder / "result.json"), str(STEPS), way, str(LIMIT_BYTES), str(TIMES))
    return make_spec(
        entry=str(WIDE), workdir=str(folder), args=args, global_batch=8, end=EndCondition(steps=STEPS)
    )


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_job_that_no_process_can_hold_has_as_many_as_its_trial_run_finds(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    listener, spec = Listener(), wide(tmp_path, "blocks")
    executor.start(listener.put)
    executor.perform(ProfileJob(job_id="wide", spec=spec, sizes=(1, 2, 4), device_kind="cpu"))
    profile = listener.wait(JobProfiled, limit_s=WAIT_S).profile
    assert profile.least_workers == 2
    executor.perform(
        LaunchGang(
            job_id="wide",
            generation=1,
            target=target(0, 1),
            spec=spec,
            total_steps=STEPS,
            max_local_batch=profile.max_local_batch,
        )
    )
    ended = listener.wait(GangEnded, limit_s=WAIT_S)
    assert ended.outcome is Outcome.SUCCEEDED, ended.message
    assert (tmp_path / "result.json").exists()


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_job_that_is_not_divided_is_told_what_would_help(executor: LocalExecutor, tmp_path: Path) -> None:
    listener = Listener()
    executor.start(listener.put)
    spec = wide(tmp_path, "whole")
    executor.perform(ProfileJob(job_id="whole", spec=spec, sizes=(1, 2, 4), device_kind="cpu"))
    failed = listener.wait(ProfilingFailed, limit_s=WAIT_S)
    assert failed.outcome is Outcome.FAILED
    assert "divide the state among several workers" in failed.message
