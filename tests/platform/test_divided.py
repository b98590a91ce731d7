"""Jobs whose workers are several processes with a model among them: resized, killed, held, gone on with."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.eventually import PATIENCE_S
from tests.platform.program import SCRIPTS, Program, job_id, read_diary, submission
from tests.train.fake_agent import fork_script

from swell.executors.local.processes.listing import is_alive
from swell.model.view import JobView

DIVIDED = SCRIPTS / "divided.py"
STEPS_PER_EPOCH = 4
NUM_PROCESSES = {"fsdp": 2, "tp": 2, "both": 4}
NUM_KILLS = 40
#: What a job is worth with each size, whatever the machine has to do besides.
ESTIMATES = ("--speed", "1:1000,2:2000", "--resize-up-s", 0.1, "--resize-down-s", 0.1, "--keep-estimates")


class Divided:
    """An endless job of one or two workers, and another that takes one worker's devices for a while."""

    def __init__(self, program: Program, folder: Path, kind: str) -> None:
        self.program, self.folder, self.kind, self.num = program, folder / "job", kind, NUM_PROCESSES[kind]
        self._start_platform()
        self.folder.mkdir()
        words = submission(self.folder, "--epochs", 100_000, "--workers", "1:2", *ESTIMATES, script=DIVIDED)
        self.id = job_id(program.ok(*words, "--devices-per-worker", self.num, "--", kind, 100_000))
        self.await_size(2)

    def _start_platform(self) -> None:
        self.program.ok("up", "--devices", f"paced:{2 * self.num}@640", "--set", "min_hold_s=0.5")

    # ------------------------------------------------------------ looking
    @property
    def pids(self) -> list[int]:
        """Of its processes that live, of all positions."""
        return [pid for pid in map(int, (self.folder / "processes").read_text().split()) if is_alive(pid)]

    def await_size(self, size: int) -> None:
        self.program.await_training(self.id, size, self.folder)

    # ------------------------------------------------------------ doing
    def shrink_and_grow(self, other: Path) -> None:
        other.mkdir()
        words = ("--epochs", 100, "--workers", 1, "--devices-per-worker", self.num, "--processes", 1)
        taker = job_id(self.program.ok(*submission(other, *words, "--speed", "1:640", "--keep-estimates")))
        self.await_size(1)
        self.program.ok("cancel", taker)
        self.await_size(2)

    def kill(self, chance: random.Random) -> None:
        """Kill any of its processes, at any moment; returns once it has as many workers as before."""
        self.program.await_steps(self.folder, chance.randrange(1, 4))
        time.sleep(chance.random() * 0.1)  # about a step
        os.kill(chance.choice(self.pids), signal.SIGKILL)
        self.program.await_job(self.id, lambda job: job.workers == 1, "the loss of a worker")
        self.await_size(2)

    def hold_and_resume(self) -> None:
        self.program.ok("hold", self.id)
        self.program.await_job(self.id, lambda job: job.reason_code == "held" and not job.live_pids, "held")
        assert self.pids == []
        self.program.ok("resume", self.id)
        self.await_size(2)

    def restart_platform(self) -> None:
        self.program.ok("down")
        assert self.pids == []
        self._start_platform()
        self.await_size(2)

    # ------------------------------------------------------------ checking
    def finish(self) -> JobView:
        """End it. It has made each step once, and learnt what a loop of torch does in one process."""
        done = self.program.finish(self.id, self.folder)
        steps = [entry.step for entry in read_diary(self.folder)]
        leaders = {entry.pid for entry in read_diary(self.folder)}
        assert steps == sorted(set(steps))
        assert done.steps - len(steps) < len(leaders)  # one that was killed could not note its last step
        assert done.repeated_steps == 0
        found, plain = self._weights(self.folder), self._plain(done.steps)
        assert found["steps"] == plain["steps"] == done.steps
        for name, values in plain["weights"].items():
            assert found["weights"][name] == pytest.approx(values, rel=1e-9, abs=1e-9), name
        return done

    def _plain(self, steps: int) -> Any:
        folder = self.folder.with_name("plain")
        folder.mkdir()
        words = ("plain", str(steps // STEPS_PER_EPOCH))
        process = fork_script(DIVIDED, words, folder / "log", {}, str(folder))
        process.join(PATIENCE_S)
        assert process.exitcode == 0, (folder / "log").read_text()
        return self._weights(folder)

    def _weights(self, folder: Path) -> Any:
        return json.loads((folder / "weights.json").read_text())


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[str], Divided]]:
    program = Program(tmp_path / "state")
    yield lambda kind: Divided(program, tmp_path, kind)
    program("down")
    assert program.processes() == set()


@pytest.mark.slow
@pytest.mark.parametrize("kind", NUM_PROCESSES)
def test_a_divided_model_learns_the_same_in_any_life(
    begin: Callable[[str], Divided], tmp_path: Path, kind: str
) -> None:
    job = begin(kind)
    chance = random.Random(kind)
    job.shrink_and_grow(tmp_path / "other")
    for _ in range(2):
        job.kill(chance)
    job.hold_and_resume()
    job.restart_platform()
    done = job.finish()
    assert {workers for _, workers in done.sizes} == {0, 1, 2}
    assert done.verified_steps, "new workers have proved themselves"
    assert f"process 1 of {job.num}" in job.program.ok("logs", job.id, "--worker", "1.1")


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_no_step_is_lost_with_any_process(begin: Callable[[str], Divided]) -> None:
    job = begin("fsdp")
    chance = random.Random(0)
    for _ in range(NUM_KILLS):
        job.kill(chance)
    done = job.finish()
    assert len([workers for _, workers in done.sizes if workers == 1]) >= NUM_KILLS


@pytest.mark.slow
def test_idle_devices_compute_a_step_of_two_processes_again(tmp_path: Path) -> None:
    program, folder = Program(tmp_path / "state"), tmp_path / "job"
    folder.mkdir()
    settings = ("--set", "audit_share=1", "--set", "checkpoint_interval_s=1")
    program.ok("up", "--devices", "paced:4@640", *settings)
    try:
        words = submission(folder, "--epochs", 100_000, "--workers", 1, script=DIVIDED)
        job = job_id(program.ok(*words, "--devices-per-worker", 2, "--", "fsdp", 100_000))
        done = program.await_job(job, lambda view: view.verified_steps is not None, "an audit")
        assert not done.held_by
        assert program.finish(job, folder).resizes == 0, "that was no joiner"
    finally:
        program("down")
