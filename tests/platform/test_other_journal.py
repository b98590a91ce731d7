"""The journal is put back from an older copy, or lost, while workers run: no device is given to two gangs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.program import DEVICES, ENDLESS, CheckLearned, Program, kill, read_diary

from swell.executors.local.processes.listing import is_alive


@pytest.mark.slow
def test_a_copy_goes_back_while_the_workers_of_a_killed_daemon_train(
    swell: Program, tmp_path: Path, check_learned: CheckLearned
) -> None:
    """Nothing has to be ended first."""
    folder = tmp_path / "job"
    folder.mkdir()
    job = swell.submit(folder, "--epochs", ENDLESS, "--workers", "2")
    pids = swell.await_training(job, 2, folder).live_pids
    assert swell("admin", "backup", str(tmp_path / "copy.db")).returncode == 0
    assert swell.daemon_pid is not None
    kill(swell.daemon_pid)
    assert swell("restore", str(tmp_path / "copy.db")).returncode == 0
    assert all(map(is_alive, pids)), "they train on"
    swell.up()
    done = swell.finish(job, folder)
    assert check_learned(folder) == done.steps
    steps = [entry.step for entry in read_diary(folder)]
    assert len(steps) == len(set(steps)), "no step was made twice"


@pytest.mark.slow
def test_jobs_go_on_from_their_checkpoints_after_the_loss_of_the_state_folder(
    tmp_path: Path, check_learned: CheckLearned
) -> None:
    """The folders of jobs are on another disk, as it were; all else comes from the newest copy."""
    swell, copies, folder = Program(tmp_path / "state"), tmp_path / "copies", tmp_path / "job"
    folder.mkdir()
    up = ("up", "--devices", DEVICES, "--set", "checkpoint_interval_s=1")
    try:
        swell.ok(*up, "--backup-to", str(copies), "--backup-every", "1s")
        job = swell.submit(folder, "--epochs", ENDLESS, "--workers", "2")
        swell.await_training(job, 2, folder)
        saved = swell.state / "jobs" / job / "checkpoints"
        eventually(lambda: list(saved.glob("step-*")), "a checkpoint")
        number = len(list(copies.glob("swell-*.db")))
        newest = max(copies.glob("swell-*.db"))
        eventually(lambda: max(copies.glob("swell-*.db")) > newest, f"a copy after the first {number}")
        for pid in (swell.daemon_pid, swell.agent_pid):
            assert pid is not None
            kill(pid)
        eventually(lambda: not swell.processes(), "the end of all workers")
        (swell.state / "jobs").rename(tmp_path / "jobs")
        shutil.rmtree(swell.state)
        told = swell("restore", str(copies))
        assert told.returncode == 0 and str(max(copies.glob("swell-*.db"))) in told.stdout, told
        shutil.rmtree(swell.state / "jobs")
        (tmp_path / "jobs").rename(swell.state / "jobs")
        assert "--backup-to" in swell.ok("up")
        before = len(read_diary(folder))
        eventually(lambda: len(read_diary(folder)) > before, "a step after the loss")
        done = swell.finish(job, folder)
        assert check_learned(folder) == done.steps
        assert read_diary(folder)[before].step > 1, "it went on from a checkpoint"
    finally:
        swell("down")
