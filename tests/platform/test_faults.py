"""Workers that hang, die at bad moments, or raise alone: the others go on within seconds, and are filled up.

Nothing here waits for a time: a state of the platform, a line in a diary or a file shows that it is time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.conftest import end_jobs
from tests.platform.faulty import FAULTY, Faulty
from tests.platform.program import DEVICES, Program, kill, read_diary

from swell.executors.local.processes.listing import is_alive

SETTINGS = (
    "standstill_s=1",
    "stuck_s=3",
    "boundary_s=1",
    "yield_s=2",
    "checkpoint_interval_s=1",
    "min_hold_s=0.5",
)


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A platform with little patience, so that a test need not have more."""
    program = Program(tmp_path_factory.mktemp("hasty") / "state")
    program.ok("up", "--devices", DEVICES, *(word for setting in SETTINGS for word in ("--set", setting)))
    yield program
    program("down")
    assert program.processes() == set()


@pytest.fixture
def swell(hasty: Program) -> Iterator[Program]:
    yield hasty
    end_jobs(hasty)


def check_steps(job: Faulty) -> None:
    """Every step was made, and none twice; what a leader made that could not note it any more is missing."""
    pids = job.swell.job(job.id).pids  # a trial run keeps the same diary
    entries = [entry for entry in read_diary(job.folder) if entry.pid in pids]
    steps = [entry.step for entry in entries]
    leaders = {entry.pid for entry in entries}
    assert steps == sorted(set(steps))
    assert steps[-1] - steps[0] + 1 - len(steps) <= len(leaders)


# ---------------------------------------------------------------- stopped processes
@pytest.mark.slow
def test_stopped_workers_are_replaced(swell: Program, tmp_path: Path) -> None:
    """First the leader of four, then two others at once."""
    job = Faulty(swell, tmp_path, 4)
    leader = job.pids[0]
    job.stop(leader)
    assert not is_alive(leader)
    job.await_size(4)
    victims = job.pids[1:3]
    job.stop(*victims)
    job.await_size(4)
    assert not set(job.pids) & {leader, *victims}
    check_steps(job)
    assert any("was stopped by a signal, and was killed" in story.text for story in job.stories())
    assert "started" not in job.codes()[job.codes().index("workers_lost") :], "it was never begun again"


# ---------------------------------------------------------------- deaths at bad moments
@pytest.mark.slow
def test_the_source_dies_while_its_state_is_read_and_others_have_it(swell: Program, tmp_path: Path) -> None:
    job = Faulty(swell, tmp_path, 4)
    leader, second, third, last = job.pids
    job.write("reading", "")
    kill(last)
    eventually((tmp_path / "blocked").exists, "a newcomer takes over the leader's state")
    begin = len(read_diary(tmp_path))
    kill(leader)
    (tmp_path / "reading").unlink()
    after = job.await_size(2, begin=begin)
    assert after.pid == second
    job.await_size(4)
    assert job.pids[:2] == (second, third)
    check_steps(job)
    assert "started" not in job.codes()[job.codes().index("workers_lost") :], "it was never begun again"


# ---------------------------------------------------------------- scripts that hang
@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_script_that_hangs_on_one_worker_is_found_out(swell: Program, tmp_path: Path, rank: int) -> None:
    job = Faulty(swell, tmp_path, 2)
    victim, other = job.pids[rank], job.pids[1 - rank]
    begin = len(read_diary(tmp_path))
    job.write("stuck", victim)
    eventually(lambda: not is_alive(victim), "the end of who hangs")
    shown = swell.ok("show", job.id)
    assert f"(rank {rank} of 2) is at {FAULTY}:" in shown
    # 3 s, or four steps where the machine is so busy that these take longer
    told = re.search(r"in hang; others had waited for it for ([\d.]+) s, and it was killed", shown)
    assert told is not None and float(told[1]) >= 3.0, shown
    assert job.await_size(1, begin).pid == other
    job.await_size(2)
    check_steps(job)


@pytest.mark.slow
def test_a_promise_does_not_wait_for_a_gang_that_hangs(swell: Program, tmp_path: Path) -> None:
    victim_dir, strict_dir = tmp_path / "victim", tmp_path / "strict"
    victim_dir.mkdir()
    strict_dir.mkdir()
    job = Faulty(swell, victim_dir, 1)
    job.await_checkpoint()
    job.write("stuck", job.pids[0])
    begin = len(read_diary(victim_dir))
    strict = swell.promise(strict_dir, "--steps", 40, "--workers", 4, within_s=5)
    job.await_code("stopped")
    saved = job.await_checkpoint()
    swell.await_end(strict)
    told = " ".join(swell.ok("explain", job.id).split())
    assert "it came to no end of its step within 2 s" in told
    swell.await_steps(victim_dir, 3)
    assert read_diary(victim_dir)[begin].step == saved + 1


# ---------------------------------------------------------------- scripts that fail
@pytest.mark.slow
def test_a_step_that_raises_on_one_worker_only_is_told_with_who_and_when(
    swell: Program, tmp_path: Path
) -> None:
    job = Faulty(swell, tmp_path, 2)
    saved = job.await_checkpoint()
    job.write("raises", job.pids[1])
    ended = swell.await_end(job.id, "failed")
    for told in (swell.ok("show", job.id), swell.ok("logs", job.id)):
        assert re.search(r"worker 1 \(rank 1 of 2\) failed in step \d+:", told), told
        assert "ArithmeticError: a mistake on one worker" in told
        assert f'File "{FAULTY}"' in told
        assert "swell/train/" not in told
    assert job.await_checkpoint() >= saved, "what it had saved is there"
    assert not any(map(is_alive, ended.pids))
