"""The allocators of Hu et al. on real processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, Program, read_diary

pytest.importorskip("torch")


OTHERS = ("hu.horizon_end=1", "hu_greedy")


# The others decide at the same moments: tests/sim/test_hu_runs.py has runs of each.
@pytest.mark.slow
@pytest.mark.parametrize("how", ["hu", *(pytest.param(name, marks=pytest.mark.soak) for name in OTHERS)])
def test_a_job_in_the_queue_has_devices_at_the_next_decision(
    how: str, apart: Program, tmp_path: Path
) -> None:
    """The first one shrinks inside its processes; every step is done once."""
    first_dir, second_dir = tmp_path / "first", tmp_path / "second"
    first_dir.mkdir()
    second_dir.mkdir()
    policy, sign, _ = how.partition(".")
    apart.up_with(policy, f"{policy}.period_s=1", *([how] if sign else []))
    first = apart.submit(first_dir, "--epochs", ENDLESS)
    apart.await_training(first, 4, first_dir)
    second = apart.submit(second_dir, "--epochs", 8)
    apart.await_job(second, lambda job: job.workers > 0, "its share of the devices")
    assert apart.await_end(second).steps == 64
    num_steps = apart.finish(first, first_dir).steps
    sizes = [workers for _, workers in apart.job(first).sizes]
    assert sizes[0] == 4 and min(sizes[:-1]) < 4 and 0 not in sizes[:-1]
    assert [entry.step for entry in read_diary(first_dir)] == list(range(1, num_steps + 1))
    apart.ok("admin", "replay")
