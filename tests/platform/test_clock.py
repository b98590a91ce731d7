"""Somebody sets the clock of a machine on which jobs run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.platform.program import PATIENCE_S, Program, eventually, kill
from tests.platform.wall import WallClock

from swell.api.client import connect

DAY_S, HOUR_S = 86_400.0, 3600.0


@pytest.fixture
def wall(tmp_path: Path) -> WallClock:
    return WallClock(tmp_path)


@pytest.fixture
def swell(wall: WallClock, tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path / "state", wall.environ)
    try:
        program.up()
        yield program
    finally:
        program("down")
    assert program.processes() == set()


def clock_note(swell: Program) -> str:
    with connect(swell.state) as client:
        return client.cluster().clock_note


def kill_gang(swell: Program, job: str) -> None:
    for pid in swell.job(job).live_pids:
        kill(pid)


@pytest.mark.soak
def test_a_day_ahead_for_a_moment_costs_no_job_its_deadline(
    swell: Program, wall: WallClock, tmp_path: Path
) -> None:
    """A gang that is lost meanwhile is back after a second, and not after a day."""
    job = swell.submit(tmp_path, "--steps", 40, "--workers", 1, "--deadline", f"now+{PATIENCE_S:g}s")
    swell.await_training(job, 1, tmp_path)
    promised_s = swell.job(job).deadline_s
    wall.set(DAY_S)
    kill_gang(swell, job)
    swell.await_job(job, lambda view: len(view.sizes) > 1, "its loss is known")
    eventually(lambda: "1 day ahead" in clock_note(swell), "the step is told")
    wall.set(0.0)
    eventually(lambda: clock_note(swell) == "", "the correction is seen")
    ended = swell.await_end(job)
    assert ended.kept and ended.deadline_s == promised_s
    with connect(swell.state) as client:
        assert not {story.code for story in client.stories(job)}.intersection(("clock", "at_risk"))


@pytest.mark.soak
def test_an_hour_back_for_good_is_followed_by_deadlines_and_told(
    swell: Program, wall: WallClock, tmp_path: Path
) -> None:
    job = swell.submit(tmp_path, "--steps", 400, "--workers", 1, "--deadline", "now+120s")
    swell.await_training(job, 1, tmp_path)
    before = swell.job(job)
    wall.set(-HOUR_S)
    swell.await_training(job, 1, tmp_path, num_steps=20)
    assert swell.daemon_pid is not None
    kill(swell.daemon_pid)
    swell.up()
    eventually(lambda: "was set back by 1 h" in clock_note(swell), "it is followed", patience_s=20.0)
    assert "the machine's clock was set back by 1 h: the deadline is now in 1 h" in swell.ok(
        "explain", job
    ).replace("\n", " ").replace("  ", "")
    after = swell.job(job)
    assert after.deadline_s == before.deadline_s
    assert after.submitted_s == pytest.approx(before.submitted_s - HOUR_S, abs=0.2)
    kill_gang(swell, job)
    swell.await_training(job, 1, tmp_path)
    assert swell.await_end(job).kept
    assert "all equal" in swell.ok("admin", "replay")
