"""A daemon or an agent that was stopped by a signal: each command says so, and `down --force` ends it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, Program, eventually, kill

from swell.executors.local.processes.listing import is_alive
from swell.store.folder import StateFolder
from swell.store.lock import find_holder

#: What a check on this machine may take, with the start of the program, while others use it.
SOON_S = 15.0


def await_left_process(folder: Path) -> int:
    """The pid of one that plane.py has started, and that runs."""

    def look() -> int | None:
        text = (folder / "pid").read_text() if (folder / "pid").exists() else ""
        return int(text) if text.strip() and is_alive(int(text)) else None

    return eventually(look, "a process in a session of its own")


def check_nothing_is_left(swell: Program) -> None:
    assert swell.processes() == set()
    assert find_holder(StateFolder(swell.state).lock) is None


@pytest.mark.soak
def test_a_stopped_daemon_is_named_and_its_jobs_are_saved_by_force(swell: Program, tmp_path: Path) -> None:
    job = swell.submit(tmp_path, "--epochs", ENDLESS, "--workers", "2")
    swell.await_training(job, 2, tmp_path)
    daemon = swell.daemon_pid
    assert daemon is not None
    os.kill(daemon, signal.SIGSTOP)
    begun_s = time.monotonic()
    for words in (("jobs",), ("up",), ("down",)):
        done = swell(*words)
        assert done.returncode == (2 if words == ("up",) else 5), done
        assert f"pid {daemon}) " in done.stderr and "was stopped by a signal" in done.stderr, done.stderr
        assert f"`kill -CONT {daemon}`" in done.stderr and "`swell down --force`" in done.stderr
    assert time.monotonic() - begun_s < 3 * SOON_S
    forced = swell("down", "--force")
    assert forced.returncode == 0, forced
    assert f"killed the platform (pid {daemon})" in forced.stderr
    assert "`swell up` continues its jobs" in forced.stdout and "not saved" not in forced.stdout
    check_nothing_is_left(swell)
    (checkpoint, *_) = sorted((swell.state / "jobs" / job / "checkpoints").glob("step-*"))
    assert checkpoint


@pytest.mark.soak
def test_a_stopped_agent_is_named_and_goes_on_by_force(swell: Program, tmp_path: Path) -> None:
    job = swell.submit(tmp_path, "--epochs", ENDLESS, "--workers", "2")
    swell.await_training(job, 2, tmp_path)
    agent, daemon = swell.agent_pid, swell.daemon_pid
    assert daemon is not None
    os.kill(agent, signal.SIGSTOP)
    kill(daemon)
    up = swell("up")
    assert up.returncode == 2
    assert f"the agent (pid {agent}) was stopped by a signal" in up.stderr, up.stderr
    assert "`swell down --force`" in up.stderr
    forced = swell("down", "--force")
    assert forced.returncode == 0, forced
    assert f"resumed the agent (pid {agent}), which was stopped by a signal" in forced.stderr
    check_nothing_is_left(swell)


@pytest.mark.soak  # its twin in tests/executors/test_strays.py is quicker
def test_what_a_script_has_left_does_not_keep_a_platform_from_coming_up_again(
    swell: Program, tmp_path: Path
) -> None:
    (tmp_path / "daemon").write_text("setsid sleep 150 & echo $! > pid")
    job = swell.submit(tmp_path, "--epochs", ENDLESS, "--workers", "2")
    swell.await_training(job, 2, tmp_path)
    left = await_left_process(tmp_path)
    assert swell.daemon_pid is not None
    kill(swell.daemon_pid)
    kill(swell.agent_pid)
    assert is_alive(left)
    down = swell.ok("down")
    assert "left behind: " in down and not is_alive(left), down
    check_nothing_is_left(swell)
    swell.up()
