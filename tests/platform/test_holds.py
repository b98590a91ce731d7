"""Jobs that wait: because they are held, displaced, or follow others."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, CheckLearned, Program, read_diary


@pytest.mark.slow
def test_a_held_job_has_no_processes_and_goes_on_as_if_nothing_had_been(
    swell: Program, tmp_path: Path, check_learned: CheckLearned
) -> None:
    held_dir, other_dir = tmp_path / "held", tmp_path / "other"
    for path in (held_dir, other_dir):
        path.mkdir()
    job = swell.promise(held_dir, "--epochs", 40, "--workers", "1:4", within_s=600)
    swell.await_steps(held_dir, 5)
    assert "its promise is withdrawn" in swell.ok("hold", job)
    shown = swell.await_job(job, lambda view: view.reason_code == "held", "it is held")
    assert (shown.workers, shown.live_pids, shown.is_promised) == (0, (), False)
    saved = len(read_diary(held_dir))

    other = swell.submit(other_dir, "--epochs", ENDLESS, "--workers", 4)
    swell.await_training(other, 4, other_dir)
    swell.ok("down")
    swell.up()
    assert swell.job(job).is_held, "a restart does not resume it"
    assert len(read_diary(held_dir)) == saved
    swell.ok("cancel", other)

    assert "promised to finish by" in swell.ok("resume", job)
    done = swell.await_end(job)
    assert [entry.step for entry in read_diary(held_dir)] == list(range(1, done.steps + 1))
    assert check_learned(held_dir) == done.steps


@pytest.mark.slow
def test_a_promise_displaces_a_job_that_continues_at_another_size(
    swell: Program, tmp_path: Path, check_learned: CheckLearned
) -> None:
    victim_dir, strict_dir, other_dir = (tmp_path / name for name in ("victim", "strict", "other"))
    for path in (victim_dir, strict_dir, other_dir):
        path.mkdir()
    victim = swell.submit(victim_dir, "--epochs", ENDLESS, "--workers", "1:4")
    swell.await_training(victim, 4, victim_dir)
    # The earliest deadline is promised, so it starts at once; it ends when it is told to.
    strict = swell.promise(strict_dir, "--epochs", 2000, "--workers", 4, within_s=6)
    swell.await_job(victim, lambda job: job.phase == "queued", "the victim waits")
    other = swell.submit(other_dir, "--epochs", ENDLESS, "--workers", 2)
    saved = len(read_diary(victim_dir))
    assert "waits with its checkpoint of step" in swell.ok("explain", victim)
    swell.finish(strict, strict_dir)
    swell.await_training(victim, 2, victim_dir)
    swell.ok("cancel", other)
    done = swell.finish(victim, victim_dir)
    assert [workers for _, workers in done.sizes][:3] == [4, 0, 2]
    assert len(set(done.pids)) >= 6, "its first processes ended when it was suspended"
    assert done.verified_steps, "the step from which it went on was computed again"

    entries = read_diary(victim_dir)
    assert [entry.step for entry in entries] == list(range(1, done.steps + 1))
    assert [(a.num_workers, b.num_workers) for a, b in pairwise(entries)][saved - 1] == (4, 2)
    assert check_learned(victim_dir) == done.steps


@pytest.mark.slow
def test_a_job_that_cannot_be_saved_trains_on_and_says_so(swell: Program, tmp_path: Path) -> None:
    stuck_dir, strict_dir = tmp_path / "stuck", tmp_path / "strict"
    for path in (stuck_dir, strict_dir):
        path.mkdir()
    stuck = swell.submit(stuck_dir, "--epochs", ENDLESS, "--workers", 4)
    swell.await_training(stuck, 4, stuck_dir)
    checkpoints = swell.state / "jobs" / stuck / "checkpoints"
    shutil.rmtree(checkpoints)
    checkpoints.write_text("a file where a folder should be")
    strict = swell.promise(strict_dir, "--steps", 40, "--workers", 4, within_s=5)
    shown = swell.await_job(stuck, lambda job: "no checkpoint at step" in job.message, "the message")
    assert str(checkpoints) in shown.message
    assert "trains on: its checkpoint could not be written" in swell.ok("explain", stuck)
    swell.await_steps(stuck_dir, 5)

    checkpoints.unlink()
    swell.await_job(stuck, lambda job: 0 in [size for _, size in job.sizes], "another try, which succeeds")
    swell.await_end(strict)
    saved = read_diary(stuck_dir)[-1].step
    swell.await_steps(stuck_dir, 5)
    assert [entry.step for entry in read_diary(stuck_dir)][: saved + 5] == list(range(1, saved + 6))


@pytest.mark.slow
def test_a_follower_starts_when_its_predecessor_has_succeeded(swell: Program, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second", "third", "fourth")]
    for folder in folders:
        folder.mkdir()
    first = swell.submit(folders[0], "--epochs", ENDLESS, "--workers", 2)
    second = swell.submit(folders[1], "--steps", 8, "--workers", 2, "--after", first)
    third = swell.submit(folders[2], "--steps", 8, "--workers", 2, "--after", f"{first},{second}")
    swell.await_training(first, 2, folders[0])
    assert f"starts once {first} succeeded" in swell.ok("explain", second)
    swell.ok("down")
    swell.up()
    assert swell.job(third).awaits == (first, second)
    assert not (folders[1] / "diary").exists() or not read_diary(folders[1])
    swell.await_steps(folders[0], 5)
    swell.finish(first, folders[0])
    ends = [swell.await_end(job).finished_s or 0.0 for job in (second, third)]
    starts = [swell.job(job).started_s or 0.0 for job in (second, third)]
    assert (swell.job(first).finished_s or 0.0) <= starts[0] and ends[0] <= starts[1]

    held = swell.submit(folders[3], "--steps", 8, "--workers", 2, "--after", second, "--no-wait")
    swell.await_end(held)
