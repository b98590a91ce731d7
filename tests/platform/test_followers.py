"""Jobs that follow others, of real processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, Program, read_diary


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


@pytest.mark.slow
def test_a_follower_of_a_job_that_fails_is_cancelled(swell: Program, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    first = swell.submit(folders[0], "--epochs", ENDLESS, "--workers", 2)
    second = swell.submit(folders[1], "--steps", 8, "--workers", 2, "--after", first)
    swell.ok("cancel", first)
    assert swell("wait", first, second).returncode == 4
    assert f"{first}, which it was to follow, was cancelled" in swell.ok("show", second)
    swell.ok("retry", second)
    assert (
        swell("submit", "--script", "x.py", "--steps", 1, "--global-batch", 1, "--after", first).returncode
        == 2
    )
