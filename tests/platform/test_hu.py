"""The allocators of Hu et al. on real processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.platform.program import DEVICES, Program, read_diary

pytest.importorskip("torch")


@pytest.mark.parametrize("policy", ["hu", "hu_end", "hu_aware", "hu_greedy"])
def test_a_job_in_the_queue_has_devices_at_the_next_decision(policy: str, tmp_path: Path) -> None:
    """The first one shrinks inside its processes; every step is done once."""
    swell = Program(tmp_path / "state")
    first_dir, second_dir = tmp_path / "first", tmp_path / "second"
    first_dir.mkdir()
    second_dir.mkdir()
    swell.ok("up", "--devices", DEVICES, "--policy", policy, "--set", f"{policy}.period_s=1")
    try:
        first = swell.submit(first_dir, "--epochs", 32)
        swell.await_training(first, 4, first_dir)
        second = swell.submit(second_dir, "--epochs", 8)
        swell.await_job(second, lambda job: job.workers > 0, "its share of the devices")
        assert swell.await_end(second).steps == 64
        assert swell.await_end(first).steps == 256
        sizes = [workers for _, workers in swell.job(first).sizes]
        assert sizes[0] == 4 and min(sizes[:-1]) < 4 and 0 not in sizes[:-1]
        assert [entry.step for entry in read_diary(first_dir)] == list(range(1, 257))
        swell.ok("replay")
    finally:
        swell("down")
    assert swell.processes() == set()
