"""Real workers: torch, gloo, and `swell.train`."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.executors.contract import is_alive
from tests.executors.listening import Listener, eventually
from tests.executors.puppets import devices, make_spec, target

from swell.executors.local.agent.address import read_address
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.link import LocalExecutor
from swell.model.command import LaunchGang, ProfileJob, Reconfigure, SuspendGang
from swell.model.event import (
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    Outcome,
    StepsReported,
    WorkersLost,
)
from swell.model.job import JobSpec

pytest.importorskip("torch")
SCRIPT = Path(__file__).with_name("train_tiny.py")


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("real") / "state"


@pytest.fixture(scope="module")
def shared(state_dir: Path) -> Iterator[tuple[LocalExecutor, Listener]]:
    """One agent for all: its zygote imports torch once."""
    options = AgentOptions(state_dir=state_dir)
    executor, listener = LocalExecutor(options, parse_devices("paced:8@20000")), Listener()
    executor.start(listener.put)
    yield executor, listener
    executor.shut_down()


def tiny(tmp_path: Path, nap_s: float) -> JobSpec:
    return make_spec(entry=str(SCRIPT), workdir=str(tmp_path), args=(str(nap_s),), global_batch=64)


@pytest.mark.slow
def test_a_job_lives_through_everything(
    shared: tuple[LocalExecutor, Listener], state_dir: Path, tmp_path: Path
) -> None:
    executor, listener = shared
    spec, job = tiny(tmp_path, 0.01), "everything"

    def launch(generation: int, *numbers: int, total_steps: int | None) -> None:
        executor.perform(
            LaunchGang(
                job_id=job,
                generation=generation,
                target=target(*numbers),
                spec=spec,
                total_steps=total_steps,
            )
        )

    launch(1, 0, 1, total_steps=100_000)
    first = listener.wait(GangStarted, 1)
    executor.perform(Reconfigure(job_id=job, generation=2, target=target(0, 1, 2, 3)))
    grown = listener.wait(GangResized, 2)
    assert grown.pids[:2] == first.pids
    os.kill(grown.pids[0], signal.SIGKILL)
    lost = listener.wait(WorkersLost)
    assert lost.devices == devices(0)
    executor.perform(Reconfigure(job_id=job, generation=3, target=target(1, 2, 3)))
    assert listener.wait(GangResized, 3).pids == grown.pids[1:]
    executor.perform(Reconfigure(job_id=job, generation=4, target=target(1)))
    shrunk = listener.wait(GangResized, 4)
    assert shrunk.pids == grown.pids[1:2]
    assert shrunk.steps >= grown.steps
    executor.perform(SuspendGang(job_id=job, generation=4))
    suspended = listener.wait(GangSuspended, 4)
    assert not any(is_alive(pid) for pid in grown.pids)
    launch(5, 4, 5, total_steps=suspended.steps + 30)
    assert listener.wait(GangStarted, 5).steps == suspended.steps
    ended = listener.wait(GangEnded, 5)
    assert (ended.outcome, ended.steps) == (Outcome.SUCCEEDED, suspended.steps + 30), ended.message
    steps = [event.steps for event in listener.events if isinstance(event, StepsReported)]
    assert steps == sorted(steps), "no step was lost"
    address = read_address(state_dir)
    assert address is not None
    (zygote,) = psutil.Process(address.pid).children()
    eventually(lambda: zygote.num_threads() == 1)  # those that wrote logs have ended with them


@pytest.mark.slow
def test_a_profile_is_measured(shared: tuple[LocalExecutor, Listener], tmp_path: Path) -> None:
    executor, listener = shared
    executor.perform(
        ProfileJob(job_id="profile", spec=tiny(tmp_path, 0.0), sizes=(1, 2), device_kind="paced@20000")
    )
    profile = listener.wait(JobProfiled).profile
    assert profile.compute_s[64] >= 64 / 20000  # the pace
    assert profile.compute_s[32] >= 32 / 20000
    assert 0 < profile.allreduce_s[2] < 1
    assert profile.grad_bytes >= 4 * 9
    assert profile.samples_per_epoch == 512
