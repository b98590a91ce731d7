"""Too few devices: somebody is suspended, and continues later at another size."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tests.platform.program import (
    EPOCHS,
    STEPS_PER_EPOCH,
    Program,
    read_diary,
    read_weights,
)

LONG = 3 * EPOCHS


def test_a_promise_displaces_a_job_that_continues_at_another_size(
    swell: Program, tmp_path: Path, weights_after: Callable[[int], Any]
) -> None:
    victim_dir, strict_dir, other_dir = (tmp_path / name for name in ("victim", "strict", "other"))
    for path in (victim_dir, strict_dir, other_dir):
        path.mkdir()
    victim = swell.submit(victim_dir, "--epochs", LONG, "--workers", "1:4")
    swell.await_training(victim, 4, victim_dir)
    # Planned as late as can be, it starts within seconds, long before the other is done.
    strict = swell.submit(strict_dir, "--steps", 100, "--workers", 4, "--deadline", "now+12s")
    swell.await_job(victim, lambda job: job.phase == "queued", "the victim waits")
    other = swell.submit(other_dir, "--steps", 2000, "--workers", 2)
    saved = len(read_diary(victim_dir))
    assert "waits with its checkpoint of step" in swell.ok("explain", victim)
    swell.await_end(strict)
    swell.await_training(victim, 2, victim_dir)
    swell.ok("cancel", other)
    done = swell.await_end(victim)
    assert [workers for _, workers in done.sizes][:3] == [4, 0, 2]
    assert len(set(done.pids)) >= 6, "its first processes ended when it was suspended"

    entries = read_diary(victim_dir)
    assert [entry.step for entry in entries] == list(range(1, LONG * STEPS_PER_EPOCH + 1))
    assert [(a.num_workers, b.num_workers) for a, b in pairwise(entries)][saved - 1] == (4, 2)
    found = read_weights(victim_dir)
    np.testing.assert_allclose(found["weight"], weights_after(LONG), rtol=1e-9)


def test_a_job_that_cannot_be_saved_trains_on_and_says_so(swell: Program, tmp_path: Path) -> None:
    stuck_dir, strict_dir = tmp_path / "stuck", tmp_path / "strict"
    for path in (stuck_dir, strict_dir):
        path.mkdir()
    stuck = swell.submit(stuck_dir, "--epochs", 200, "--workers", 4)
    swell.await_training(stuck, 4, stuck_dir)
    checkpoints = swell.state / "jobs" / stuck / "checkpoints"
    shutil.rmtree(checkpoints)
    checkpoints.write_text("a file where a folder should be")
    strict = swell.submit(strict_dir, "--steps", 40, "--workers", 4, "--deadline", "now+10s")
    shown = swell.await_job(stuck, lambda job: "no checkpoint at step" in job.message, "the message")
    assert str(checkpoints) in shown.message
    assert "trains on: its checkpoint could not be written" in swell.ok("explain", stuck)
    swell.await_steps(stuck_dir, 5)

    checkpoints.unlink()
    swell.await_job(stuck, lambda job: job.phase == "queued", "another try, which succeeds")
    swell.await_end(strict)
    saved = read_diary(stuck_dir)[-1].step
    swell.await_steps(stuck_dir, 5)
    assert [entry.step for entry in read_diary(stuck_dir)][: saved + 5] == list(range(1, saved + 6))
