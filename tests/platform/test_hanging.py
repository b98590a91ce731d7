"""A daemon or an agent that was stopped by a signal: each command says so, and `down --force` ends it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, Program

from swell.store.folder import StateFolder
from swell.store.lock import find_holder

#: What a check on this machine may take, with the start of the program, while others use it.
SOON_S = 15.0


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
