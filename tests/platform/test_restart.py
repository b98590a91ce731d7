"""A script without swell.train is elastic by stop and start from its own checkpoint."""

from __future__ import annotations

import json
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.program import SCRIPTS, Program, job_id, kill, read_diary

pytestmark = pytest.mark.slow

COUNTS, SAVES = SCRIPTS / "counts.py", SCRIPTS / "saves.py"


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


def test_a_promise_is_kept_through_two_sizes_and_a_kill_and_steps_made_again_are_counted(
    swell: Program, tmp_path: Path
) -> None:
    words = ("--elasticity", "restart", "--steps", 480, "--workers", "1:2", "--deadline", "now+400s")
    told = swell.ok("submit", "--script", SAVES, "--workdir", tmp_path, *words)
    assert "promised to finish by" in told, "it knows how long a step takes"
    job = job_id(told)
    grown = swell.await_training(job, 2, tmp_path, num_steps=80)
    assert grown.is_promised and grown.total_steps == 480 and grown.estimated_finish_s is not None
    (tmp_path / "hold").touch()
    eventually(lambda: read_diary(tmp_path)[-1].step % 40 == 30, "steps that are not saved")
    kill(grown.live_pids[1])
    (tmp_path / "hold").unlink()
    ended = swell.await_end(job)
    assert ended.kept and ended.is_promised and ended.steps == 480
    diary = read_diary(tmp_path)
    assert {entry.num_workers for entry in diary} == {1, 2}
    starts = [list(entries) for _, entries in groupby(diary, lambda entry: entry.pid)]
    again = [max(0, before[-1].step - after[0].step + 1) for before, after in pairwise(starts)]
    assert len(again) >= 2 and max(again) >= 30
    # A gang that is stopped tells its last step; one that is killed may have told none for a while.
    assert again[0] <= ended.repeated_steps <= sum(again)
    assert f"{ended.repeated_steps} made twice" in swell.ok("show", job)
    resize = next(one for one in ended.resize_history if (one.before, one.after) == (1, 2))
    assert resize.cost_s is not None and resize.cost_s > 0.3, "until the first step, torch's import and all"
