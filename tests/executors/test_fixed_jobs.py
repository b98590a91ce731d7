"""Fixed jobs on real processes: any command, its limit of time, and the end of all that it has started."""

from __future__ import annotations

import os
import signal
import struct
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.eventually import eventually
from tests.executors.contract import ExecutorWorld
from tests.executors.joined_engine import JoinedEngine
from tests.executors.puppets import make_spec
from tests.executors.shared_platform import SharedPlatform

from swell.executors.local.processes.listing import is_alive, list_processes
from swell.executors.local.processes.strays import read_mark
from swell.model.command import LaunchGang
from swell.model.event import GangEnded, GangStarted, GangSuspended, Outcome
from swell.model.job import FIXED_ENTRY, Elasticity, EndCondition, FixedTerms, JobSpec
from swell.model.target import Target
from swell.wire.lease_end import LEASE_FILE

#: Saves what it has when it gets SIGTERM, which takes a moment.
SAVES = """
    import signal, sys, time
    def save(number, frame):
        time.sleep(0.5)
        open("saved", "w").close()
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    open("ready", "w").close()
    time.sleep(600)
"""
#: Does not end by SIGTERM, and neither does what it has started in a session of its own.
STAYS = """
    import os, signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    here = [sys.executable, "-c", "import time; time.sleep(600)"]
    away = subprocess.Popen(here, start_new_session=True)
    open("pids", "w").write(f"{os.getpid()} {away.pid}")
    os.rename("pids", "ready")
    time.sleep(600)
"""


def fixed(
    folder: Path,
    *command: str,
    parts: int = 1,
    devices: int = 1,
    time_s: float = 600.0,
    grace_s: float = 20.0,
    **fields: Any,
) -> JobSpec:
    """A job of so many devices in each part."""
    return make_spec(
        entry=FIXED_ENTRY,
        args=command,
        workdir=str(folder),
        end=EndCondition(),
        elasticity=Elasticity.FIXED,
        min_workers=parts,
        max_workers=parts,
        devices_per_worker=devices,
        fixed=FixedTerms(time_s=time_s, grace_s=grace_s),
        **fields,
    )


class Fixed:
    """One fixed job of a world, whose working directory is `folder`."""

    def __init__(self, world: ExecutorWorld, folder: Path, state_dir: Path) -> None:
        self.world, self.folder, self.state_dir = world, folder, state_dir

    def launch(self, *command: str, generation: int = 1, **fields: Any) -> None:
        spec = fixed(self.folder, *command, **fields)
        devices = self.world.devices[: spec.min_workers * spec.devices_per_worker]
        self.world.executor.perform(
            LaunchGang(
                job_id=self.world.job_id,
                generation=generation,
                target=Target(devices=devices),
                spec=spec,
                total_steps=None,
            )
        )

    def script(self, text: str, name: str = "script.py") -> Path:
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return path

    def run(self, *command: str, **fields: Any) -> GangEnded:
        """Until it has ended."""
        self.launch(*command, **fields)
        return self.world.wait(GangEnded)

    def await_file(self, name: str = "ready") -> str:
        eventually((self.folder / name).exists)
        return (self.folder / name).read_text()

    @property
    def log(self) -> str:
        logs = sorted((self.state_dir / "jobs" / self.world.job_id).glob("worker-*.log"))
        return "".join(path.read_text() for path in logs)


@pytest.fixture
def job(world: ExecutorWorld, platform: SharedPlatform, tmp_path: Path) -> Fixed:
    return Fixed(world, tmp_path, platform.state_dir)


@pytest.fixture
def neighbour(job: Fixed, tmp_path: Path) -> Iterator[int]:
    """The process of another job, which runs meanwhile and has the same zygote."""
    folder, world = tmp_path / "neighbour", job.world
    folder.mkdir()
    other = Fixed(
        replace(world, job_id=f"{world.job_id}-neighbour", devices=world.devices[1:]), folder, job.state_dir
    )
    other.launch("sh", "-c", "echo $$ > pid; mv pid ready; exec sleep 600")
    pid = int(other.await_file())
    yield pid
    other.world.stop(2)
    other.world.wait(GangEnded, 2)


def test_a_command_that_ends_well_has_succeeded_and_its_output_is_the_log(job: Fixed) -> None:
    ended = job.run("sh", "-c", "echo one; echo two >&2")
    assert (ended.outcome, ended.message) == (Outcome.SUCCEEDED, "")
    assert job.log == "one\ntwo\n"


def test_its_exit_status_and_the_last_lines_of_its_log_are_told(job: Fixed) -> None:
    ended = job.run("sh", "-c", "echo no such data >&2; exit 3")
    assert ended.outcome is Outcome.FAILED
    assert ended.message == "its command ended with status 3; its log ends:\nno such data"


@pytest.mark.parametrize("command", ["no-such-command", "/no/such/command"])
def test_a_command_that_is_not_there_ends_with_127(job: Fixed, command: str) -> None:
    ended = job.run(command, "--verbose")
    assert ended.outcome is Outcome.FAILED
    first, last = ended.message.splitlines()
    assert first == "its command ended with status 127; its log ends:"
    assert last == f"there is no command '{command}' on this machine: install it there, or give its full path"


def test_a_command_that_may_not_be_run_ends_with_126(job: Fixed) -> None:
    ended = job.run(str(job.script("echo never")))
    assert ended.outcome is Outcome.FAILED
    assert "status 126" in ended.message and "Permission denied; make it executable" in ended.message


def test_its_command_is_searched_in_its_own_path(job: Fixed) -> None:
    (job.folder / "bin").mkdir()
    job.script("#!/bin/sh\necho mine", "bin/tool").chmod(0o700)
    assert job.run("tool", env=(("PATH", f"{job.folder}/bin:/bin"),)).outcome is Outcome.SUCCEEDED
    assert job.log == "mine\n"


@pytest.mark.parametrize(("name", "outcome"), [("TERM", Outcome.FAILED), ("KILL", Outcome.LOST)])
def test_only_sigkill_loses_it_and_other_signals_are_its_own_end(
    job: Fixed, name: str, outcome: Outcome
) -> None:
    ended = job.run("sh", "-c", f"kill -{name} $$")
    assert (ended.outcome, ended.message) == (outcome, f"its command was killed by SIG{name}")


def test_at_its_limit_it_gets_sigterm_and_the_time_that_it_was_given(job: Fixed) -> None:
    script = job.script(SAVES)
    ended = job.run("sh", "-c", f"{sys.executable} {script}; echo never", time_s=1.0)
    assert (ended.outcome, ended.message) == (Outcome.TIMED_OUT, "its limit of time, 1 s, was over")
    assert (job.folder / "saved").exists(), "the shell had ended long before"
    assert "never" not in job.log


def test_what_ignores_sigterm_is_killed_with_all_that_it_has_started(job: Fixed) -> None:
    job.launch(sys.executable, str(job.script(STAYS)), grace_s=1.0)
    pids = [int(pid) for pid in job.await_file().split()]
    job.world.stop(2)
    assert job.world.wait(GangEnded).outcome is Outcome.STOPPED
    assert not any(map(is_alive, pids))


def test_a_command_that_ends_leaves_nothing_behind(job: Fixed) -> None:
    ended = job.run("sh", "-c", "sleep 600 & setsid sleep 600 & echo $! > pid")
    assert ended.outcome is Outcome.SUCCEEDED
    marks = {process.pid: read_mark(process.pid) for process in list_processes() if not process.is_dead}
    left = [pid for pid, mark in marks.items() if mark and mark.state_dir == str(job.state_dir.resolve())]
    names = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in left}
    assert "sleep" not in names


@pytest.mark.parametrize(
    ("rest", "outcome"),
    [
        ("true", Outcome.SUCCEEDED),
        ("exec sleep 600", Outcome.TIMED_OUT),
        ("trap '' TERM; sleep 600 & wait; sleep 600", Outcome.TIMED_OUT),
    ],
)
def test_what_it_has_started_without_mark_or_group_ends_with_it(
    job: Fixed, neighbour: int, rest: str, outcome: Outcome
) -> None:
    """A process that has no mark, whose parents have ended, might be the neighbour's."""
    once = "env -i setsid sleep 600 & echo $! > pid"
    twice = "env -i sh -c 'setsid sleep 600 & echo $! >> pid' & wait $!"
    ended = job.run("sh", "-c", f"{once}; {twice}; {rest}", time_s=1.0, grace_s=0.5)
    assert ended.outcome is outcome
    pids = [int(pid) for pid in (job.folder / "pid").read_text().split()]
    assert len(pids) == 2
    assert not any(map(is_alive, pids)) and is_alive(neighbour)


def test_one_that_is_suspended_has_its_grace_and_can_start_again(job: Fixed) -> None:
    job.launch(sys.executable, str(job.script(SAVES)))
    job.await_file()
    job.world.suspend(1)
    assert job.world.wait(GangSuspended).steps == 0
    assert (job.folder / "saved").exists()
    job.launch("true", generation=2)
    assert job.world.wait(GangEnded, 2).outcome is Outcome.SUCCEEDED


def test_the_death_of_one_process_of_ours_ends_the_command(job: Fixed) -> None:
    job.launch("sh", "-c", "echo $$ > pid; mv pid ready; sleep 600")
    pid = int(job.await_file())
    (own,) = job.world.wait(GangStarted).pids
    os.kill(own, signal.SIGKILL)
    assert job.world.wait(GangEnded).outcome is Outcome.LOST
    assert not is_alive(pid)


def test_its_environment_is_that_of_a_machine_of_its_own(job: Fixed) -> None:
    job.run("env", devices=2, env=(("MINE", "yes"),))
    told = dict(line.split("=", 1) for line in job.log.splitlines() if "=" in line)
    assert told["SWELL_DEVICES"] == ",".join(job.world.devices[:2])
    assert (told["CUDA_VISIBLE_DEVICES"], told["SWELL_HOSTS"], told["MINE"]) == ("", "127.0.0.1", "yes")
    assert (told["PET_NNODES"], told["PET_NODE_RANK"]) == ("1", "0")
    assert told["PET_MASTER_ADDR"] == told["MASTER_ADDR"] == "127.0.0.1"
    assert told["PET_MASTER_PORT"] == told["MASTER_PORT"]
    not_its_own = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "SWELL_AGENT", "SWELL_OBSERVER", "SWELL_TOKEN"}
    not_its_own |= {"OMP_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_", "TORCHELASTIC_RUN_ID"}
    assert told.keys().isdisjoint(not_its_own)


def test_a_part_that_fails_ends_the_others_and_says_which_it_was(job: Fixed) -> None:
    script = """
        echo "$RANK of $WORLD_SIZE on $SWELL_DEVICES"
        if [ $RANK = 0 ]; then touch ready; sleep 600; fi
        until [ -e ready ]; do sleep 0.05; done
        exit 4
    """
    ended = job.run("bash", "-c", script, parts=2, devices=2)
    assert ended.outcome is Outcome.FAILED
    said = "the command of part 1 (of 2, from 0) ended with status 4; its log ends:"
    assert ended.message.splitlines()[0] == said
    one, two = job.world.devices[:2], job.world.devices[2:4]
    assert job.log.splitlines() == [f"0 of 2 on {','.join(one)}", f"1 of 2 on {','.join(two)}"]


def test_it_is_killed_where_the_lease_of_its_host_has_ended(tmp_path: Path) -> None:
    engine = JoinedEngine(tmp_path / "hosts", preload=("msgspec",))
    try:
        engine.join("a")
        script = "sleep 600 & echo $$ $! > pids; mv pids ready; wait"
        spec = fixed(tmp_path, "sh", "-c", script)
        target = Target(devices=("a/0",))
        engine.perform(LaunchGang(job_id="j", generation=1, target=target, spec=spec, total_steps=None))
        engine.wait_until((tmp_path / "ready").exists)
        pids = [int(pid) for pid in (tmp_path / "ready").read_text().split()]
        with (engine.state_dir("a") / LEASE_FILE).open("r+b") as lease:
            lease.write(struct.pack("d", 0.0))
        assert engine.wait(GangEnded).outcome is Outcome.LOST
        assert not any(map(is_alive, pids))
    finally:
        engine.close()
