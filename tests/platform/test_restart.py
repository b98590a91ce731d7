"""A script without swell.train is elastic by stop and start from its own checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.platform.program import SCRIPTS, Program

pytestmark = pytest.mark.slow

COUNTS = SCRIPTS / "counts.py"


def test_a_resize_stops_and_starts_the_script(swell: Program, tmp_path: Path) -> None:
    counts_dir, strict_dir = tmp_path / "counts", tmp_path / "strict"
    for path in (counts_dir, strict_dir):
        path.mkdir()
    options = ("--workers", "1:4", "--elasticity", "restart", "--estimate", "60s")
    counts = swell.submit(counts_dir, *options, script=COUNTS)
    swell.await_job(counts, lambda job: job.workers == 4, "it runs with 4 workers")
    first = swell.job(counts).pids
    # Its latest start is less than the minimum hold away, so it starts at once.
    swell.promise(strict_dir, "--steps", 40, "--workers", 2, within_s=9)
    swell.await_job(counts, lambda job: job.workers in (1, 2), "it runs with fewer workers")
    shown = swell.finish(counts, counts_dir)
    assert shown.resizes >= 1
    assert not set(first).intersection(shown.pids[len(first) :])
    found = json.loads((counts_dir / "counts.json").read_text())
    assert found["sizes"][:2] == [1, 4], "it grows once its script has formed a group"
    assert len(found["sizes"]) >= 3
    assert min(found["sizes"][2:]) < 4
    # One that is stopped as it ends is started again, and says so again: on a busy machine that happens.
    assert swell.ok("logs", counts).splitlines()[-1] == f"after {found['steps']} steps"
