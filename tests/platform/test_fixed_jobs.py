"""Commands as fixed jobs of the whole program: their ends, and what a kill or a stop of the platform does."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.executors import torchrun_train
from tests.platform.program import Program, job_id, kill

from swell.executors.local.processes.listing import is_alive

pytestmark = pytest.mark.slow

#: A child that ignores SIGTERM, in a session of its own; the command notes each of its starts.
STUBBORN = """
import json, os, subprocess, sys, time
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); "
words = [sys.executable, "-c", child + "time.sleep(600)"]
deaf = subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE)
deaf.stdout.readline()
with open("starts", "a") as file:
    file.write(json.dumps([os.getpid(), deaf.pid]) + "\\n")
deaf.wait()
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A platform for commands alone."""
    beside = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    program = Program(tmp_path_factory.mktemp("commands") / "state", {"PATH": beside})
    yield program
    program("down")
    assert program.processes() == set()


@pytest.fixture
def swell(own: Program) -> Program:
    if own.daemon_pid is None:
        own.up()
    return own


def submit(swell: Program, folder: Path, *words: object) -> str:
    """`words`: options, `--`, and the command, which runs in `folder`."""
    return job_id(swell.ok("submit", "--workdir", folder, *words))


def starts(folder: Path) -> list[list[int]]:
    """The processes of each start of `STUBBORN`."""
    path = folder / "starts"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def stubborn(swell: Program, folder: Path, *options: object) -> tuple[str, list[int]]:
    """A job that runs it, and the processes of its first start."""
    (folder / "stubborn.py").write_text(STUBBORN)
    job = submit(swell, folder, *options, "--", sys.executable, "stubborn.py")
    return job, await_start(folder, 1)


def await_start(folder: Path, num: int) -> list[int]:
    return eventually(lambda: starts(folder)[num - 1 : num], f"start {num}")[0]


def test_a_shell_script_ends_with_its_status_and_its_log(swell: Program, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(
        "echo on $SWELL_DEVICES\ntest -e data || { echo no data >&2; exit 3; }\n"
    )
    job = submit(swell, tmp_path, "--devices", 2, "--time", "1m", "--", "sh", "run.sh")
    failed = swell.await_end(job, "failed")
    assert failed.message == "its command ended with status 3; its log ends:\non node0/0,node0/1\nno data"
    assert swell("wait", job).returncode == 1
    assert swell.ok("logs", job).splitlines() == ["on node0/0,node0/1", "no data"]
    (tmp_path / "data").touch()
    again = submit(swell, tmp_path, "--devices", 2, "--time", "1m", "--", "sh", "run.sh")
    assert swell.await_end(again).message == ""


def test_torchrun_trains(swell: Program, tmp_path: Path) -> None:
    shutil.copy(torchrun_train.__file__, tmp_path / "train.py")
    words = ("--devices", 2, "--time", "5m", "--", "torchrun", "--nproc-per-node", 2, "train.py")
    jobs = [submit(swell, tmp_path, *words) for _ in range(2)]
    for job in jobs:
        swell.await_end(job)
        told = sorted(line for line in swell.ok("logs", job).splitlines() if line.startswith("rank "))
        assert [line.partition(" on ")[0] for line in told] == ["rank 0 of 2", "rank 1 of 2"]


def test_one_that_is_cancelled_leaves_nothing_behind(swell: Program, tmp_path: Path) -> None:
    job, pids = stubborn(swell, tmp_path, "--time", "10m", "--grace", "1s")
    swell.ok("cancel", job)
    swell.await_end(job, "cancelled")
    assert not any(map(is_alive, pids))


def test_its_limit_is_kept_while_the_daemon_is_dead(swell: Program, tmp_path: Path) -> None:
    job, pids = stubborn(swell, tmp_path, "--time", "8s", "--grace", "1s")
    daemon = swell.daemon_pid
    assert daemon is not None
    kill(daemon)
    eventually(lambda: not any(map(is_alive, pids)), "the end at its limit")
    swell.up()
    ended = swell.await_end(job, "timed-out")
    assert "its limit of time, 8 s, was over" in ended.message
    assert swell("wait", job).returncode == 7


def test_a_kill_of_the_agent_or_the_daemon_loses_no_command_unless_it_may_not_run_twice(
    swell: Program, tmp_path: Path
) -> None:
    job, first = stubborn(swell, tmp_path, "--time", "10m")
    kill(swell.agent_pid)
    second = await_start(tmp_path, 2)
    assert not any(map(is_alive, first)), "no two starts of it run at the same time"
    daemon = swell.daemon_pid
    assert daemon is not None
    kill(daemon)
    swell.up()
    assert all(map(is_alive, second)), "a kill of the daemon is no loss"
    swell.ok("cancel", job)
    swell.await_end(job, "cancelled")
    once = tmp_path / "once"
    once.mkdir()
    job, pids = stubborn(swell, once, "--time", "10m", "--retries", 0)
    os.kill(pids[0], 9)
    failed = swell.await_end(job, "failed")
    assert "killed by SIGKILL" in failed.message
    assert not any(map(is_alive, pids)) and len(starts(once)) == 1


def test_it_starts_again_after_the_platform_was_down(swell: Program, tmp_path: Path) -> None:
    job, first = stubborn(swell, tmp_path, "--time", "10m", "--grace", "1s")
    swell.ok("down")
    assert not any(map(is_alive, first)) and swell.processes() == set()
    swell.up()
    second = await_start(tmp_path, 2)
    assert all(map(is_alive, second))
    swell.ok("cancel", job)
    swell.await_end(job, "cancelled")


def test_a_promised_command_has_the_devices_of_one_that_may_be_suspended(
    swell: Program, tmp_path: Path
) -> None:
    options = ("--devices", 4, "--time", "10m", "--grace", "1s", "--may-suspend")
    long, first = stubborn(swell, tmp_path, *options)
    words = ("--devices", 4, "--time", "10s", "--deadline", "now+60s", "--or-nothing")
    strict = submit(swell, tmp_path, *words, "--", "sh", "-c", "cat starts > seen")
    ended = swell.await_end(strict)
    assert ended.is_promised and ended.kept
    assert not any(map(is_alive, first))
    assert (tmp_path / "seen").read_text().count("\n") == 1
    second = await_start(tmp_path, 2)
    assert all(map(is_alive, second))
    swell.ok("cancel", long)
    swell.await_end(long, "cancelled")
