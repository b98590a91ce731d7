"""A script without swell.train is elastic by stop and start from its own checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from tests.platform.program import SCRIPTS, Program, submission

COUNTS = SCRIPTS / "counts.py"


def test_a_resize_stops_and_starts_the_script(swell: Program, tmp_path: Path) -> None:
    counts_dir, strict_dir = tmp_path / "counts", tmp_path / "strict"
    for path in (counts_dir, strict_dir):
        path.mkdir()
    options = ("--workers", "1:4", "--elasticity", "restart", "--estimate", "20s")
    done = swell(*submission(counts_dir, *options, script=COUNTS), "--", 150)
    assert done.returncode == 0, done
    counts = done.stdout.split(":")[0]
    swell.await_job(counts, lambda job: job.workers == 4, "it runs with 4 workers")
    first = swell.job(counts).pids
    # Its latest start is less than the minimum hold away, so it starts at once.
    swell.submit(strict_dir, "--steps", 40, "--workers", 2, "--deadline", "now+6s")
    swell.await_job(counts, lambda job: job.workers in (1, 2), "it runs with fewer workers")
    shown = swell.await_end(counts)
    assert shown.resizes >= 1
    assert not set(first).intersection(shown.pids[4:])
    found = json.loads((counts_dir / "counts.json").read_text())
    assert found["steps"] == 150
    assert found["sizes"][0] == 4
    assert len(found["sizes"]) >= 2
    assert min(found["sizes"]) < 4
    assert swell.ok("logs", counts).count("after 150 steps") == 1
