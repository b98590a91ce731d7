"""`swell hold` and `swell resume` of real processes."""

from __future__ import annotations

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
