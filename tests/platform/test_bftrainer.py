"""The policies of BFTrainer on real processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, Program, read_diary

pytest.importorskip("torch")


# A corrected objective is still one: tests/core/test_liveness.py lets both end every job.
@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    ["bftrainer", pytest.param("bftrainer.corrected=1", marks=pytest.mark.soak), "bftrainer_equal_share"],
)
def test_jobs_get_all_devices_between_them_and_each_step_is_made_once(
    how: str, apart: Program, tmp_path: Path
) -> None:
    """With room for one trainer the second waits; with room for both, equal shares are two devices each."""
    first_dir, second_dir = tmp_path / "first", tmp_path / "second"
    first_dir.mkdir()
    second_dir.mkdir()
    is_equal = how == "bftrainer_equal_share"
    policy, sign, _ = how.partition(".")
    told = [how] if sign else []
    apart.up_with(policy, *told, *(() if is_equal else (f"{policy}.max_trainers=1",)))
    first = apart.submit(first_dir, "--epochs", ENDLESS)
    apart.await_training(first, 4, first_dir)
    second = apart.submit(second_dir, "--epochs", 8)
    if is_equal:
        apart.await_job(second, lambda job: job.workers == 2, "half of the devices")
    num_steps = apart.finish(first, first_dir).steps
    assert apart.await_end(second).steps == 64
    begun = [workers for _, workers in apart.job(second).sizes]
    assert begun[0] == (2 if is_equal else 4)
    for folder, last in ((first_dir, num_steps), (second_dir, 64)):
        assert [entry.step for entry in read_diary(folder)] == list(range(1, last + 1))
    apart.ok("admin", "replay")
