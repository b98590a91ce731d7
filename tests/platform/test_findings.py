"""A script whose result depends on its sizes, from its trial run to its owner's word."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, SCRIPTS, Program, eventually, job_id, submission


@pytest.mark.slow
def test_a_job_is_held_to_one_worker_until_its_owner_accepts_the_difference(
    swell: Program, tmp_path: Path
) -> None:
    script = SCRIPTS / "weighted.py"
    words = submission(tmp_path, "--epochs", ENDLESS, "--workers", "1:4", script=script)
    told = swell.ok(*words)
    job = job_id(told)
    assert f"limited to 1 worker, weighted-mean at {script}:" in told
    assert f"swell accept-differences {job} weighted-mean" in told
    eventually(lambda: swell.job(job).steps > 3, "it trains")
    assert {workers for _, workers in swell.job(job).sizes} == {1}
    assert "is limited to 1 worker: its trial run found weighted-mean" in swell.ok("explain", job)
    assert swell("accept-differences", job, "sum-loss").returncode != 0
    swell.ok("accept-differences", job, "weighted-mean")
    eventually(lambda: swell.job(job).workers == 4, "it grows")
    swell.ok("admin", "replay")
    swell.ok("cancel", job)
    again = swell.ok(*words, "--accept-differences", "weighted-mean")  # measured before: no other trial run
    assert "accepted, weighted-mean" in again
    eventually(lambda: swell.job(job_id(again)).workers == 4, "it grows at once")
