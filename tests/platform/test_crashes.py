"""Kills and stops in the middle: of the daemon, of workers, of the agent and of the zygote."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from tests.eventually import eventually
from tests.platform.program import ENDLESS, CheckLearned, Program, kill, read_diary

from swell.executors.local.processes.listing import is_alive

JOB = ("--epochs", ENDLESS, "--workers", "1:4")


def check_replay(swell: Program) -> None:
    found = swell.json("admin", "replay")
    assert found["first_difference"] is None
    assert found["num_compared"] > 0


@pytest.mark.slow
def test_training_goes_on_while_the_daemon_is_dead(
    swell: Program, tmp_path: Path, check_learned: CheckLearned
) -> None:
    daemon = swell.daemon_pid
    assert daemon is not None
    second = swell("up", "--devices", "paced:4@640")
    assert second.returncode == 2
    assert f"pid {daemon}" in second.stderr
    check_replay(swell)

    job = swell.submit(tmp_path, *JOB)
    before = swell.await_training(job, 4, tmp_path)
    assert swell.daemon_pid == daemon
    kill(daemon)
    swell.await_steps(tmp_path, 10)
    assert "start one with `swell up`" in swell("jobs").stderr
    swell.up()
    assert swell.daemon_pid not in (None, daemon)
    after = swell.json("show", job)
    assert (after["pids"], after["generation"]) == (list(before.pids), before.generation)
    done = swell.finish(job, tmp_path)
    assert (done.pids, done.generation, done.resizes) == (before.pids, before.generation, 0)
    assert check_learned(tmp_path) == done.steps
    assert [entry.step for entry in read_diary(tmp_path)] == list(range(1, done.steps + 1))
    check_replay(swell)


@pytest.mark.slow
def test_killed_workers_cost_no_step(swell: Program, tmp_path: Path, check_learned: CheckLearned) -> None:
    job = swell.submit(tmp_path, *JOB)
    first = swell.await_training(job, 4, tmp_path).pids
    leader = read_diary(tmp_path)[-1].pid
    assert leader == first[0]
    kill(leader)
    eventually(lambda: read_diary(tmp_path)[-1].pid != leader, "steps under another leader")
    swell.await_steps(tmp_path, 5)
    kill(first[2])
    swell.await_steps(tmp_path, 5)
    assert [is_alive(pid) for pid in first] == [False, True, False, True]
    done = swell.finish(job, tmp_path)
    assert done.pids[:4] == first
    codes = [told["code"] for told in swell.json("explain", job)]
    assert codes.count("workers_lost") == 2
    assert "started" not in codes[codes.index("workers_lost") :], "no worker was started again"
    assert check_learned(tmp_path) == done.steps


@pytest.mark.slow
def test_what_was_saved_outlives_everything(
    swell: Program, tmp_path: Path, check_learned: CheckLearned
) -> None:
    job = swell.submit(tmp_path, *JOB)
    swell.await_training(job, 4, tmp_path)
    assert "`swell up` continues its jobs" in swell.ok("down")
    assert swell.processes() == set()
    saved = read_diary(tmp_path)[-1].step
    begin = len(read_diary(tmp_path))
    swell.up()
    check_goes_on(tmp_path, saved, begin)

    zygote, agent, daemon = swell.zygote_pid, swell.agent_pid, swell.daemon_pid
    readers = {
        pid for pid in swell.processes() if "intake_process" in " ".join(psutil.Process(pid).cmdline())
    }
    for victim, unharmed in ((zygote, {agent, daemon, *readers}), (agent, {daemon, *readers})):
        doomed = swell.processes() - unharmed
        assert len(doomed) >= 4
        kill(victim)
        await_end_of(doomed)
        check_goes_on(tmp_path, saved, len(read_diary(tmp_path)))
    assert swell.daemon_pid == daemon
    assert swell.agent_pid != agent

    assert daemon is not None
    kill(daemon)
    told = eventually(lambda: down(swell), "the lock of the dead")
    assert "that a killed platform had left running" in told and f"last checkpoints: {job}" in told
    assert swell.processes() == set()
    begin = len(read_diary(tmp_path))
    swell.up()
    check_goes_on(tmp_path, saved, begin)
    assert swell.finish(job, tmp_path).steps == check_learned(tmp_path)
    check_replay(swell)


def down(swell: Program) -> str | None:
    """What it says; None while a process that the daemon had just forked still has the daemon's lock."""
    done = swell("down")
    if "does not answer" in done.stderr:
        return None
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def await_end_of(pids: set[int]) -> None:
    eventually(lambda: not any(map(is_alive, pids)), f"end of {pids}")


def check_goes_on(folder: Path, saved: int, begin: int) -> None:
    """The diary goes on after its first `begin` lines: from the checkpoint, not from the start."""
    entries = eventually(
        lambda: found if len(found := read_diary(folder)) > begin + 5 else None, f"steps in {folder}"
    )
    assert [entry.step for entry in entries[begin : begin + 5]] == list(range(saved + 1, saved + 6))
