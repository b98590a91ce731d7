"""The policy of Saxena et al. on real processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, Program, read_diary, submission

pytest.importorskip("torch")


@pytest.mark.slow
def test_jobs_share_the_devices_and_one_more_is_dropped(apart: Program, tmp_path: Path) -> None:
    """Each has a device at least; who comes when there is none left is refused, and the others grow again."""
    folders = [tmp_path / name for name in ("first", "second", "wide")]
    for folder in folders:
        folder.mkdir()
    first_dir, second_dir, wide_dir = folders
    apart.up_with("saxena", "saxena.ended_share=0", "saxena.drops=1")
    first = apart.submit(first_dir, "--epochs", ENDLESS)
    apart.await_training(first, 4, first_dir)
    second = apart.submit(second_dir, "--epochs", 8)
    apart.await_job(second, lambda job: job.workers == 2, "half of the devices")
    dropped = apart(*submission(wide_dir, "--steps", 8, "--workers", 4))
    assert dropped.returncode == 3 and "refused: no device was left for it" in dropped.stdout
    assert apart.await_end(second).steps == 64
    num_steps = apart.finish(first, first_dir).steps
    sizes = [workers for _, workers in apart.job(first).sizes]
    assert sizes[0] == 4 and min(sizes[:-1]) < 4 and sizes[-1] == 0 and 0 not in sizes[:-1]
    assert [entry.step for entry in read_diary(first_dir)] == list(range(1, num_steps + 1))
    apart.ok("admin", "replay")
