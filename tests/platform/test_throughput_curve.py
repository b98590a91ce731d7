"""The throughput of a job that is held after its trial run, measured by groups of real workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.platform.program import SCRIPTS, Program

VISITS = SCRIPTS / "visits.py"


@pytest.mark.slow
def test_a_job_that_is_held_after_its_trial_run_is_measured_by_groups(
    program: Program, tmp_path: Path
) -> None:
    """It takes some seconds: a trial run, and groups of two workers or more that make steps."""
    file = tmp_path / "job.yaml"
    file.write_text(f"script: {VISITS}\nworkdir: {tmp_path}\nname: measured\nglobal_batch: 64\nepochs: 2\n")
    (submitted,) = json.loads(program.ok("submit", file, "--hold-after-trial", "--json"))
    found = json.loads(program.ok("curve", submitted["id"], "--json"))
    by_workers = {point["workers"]: point for point in found["points"]}
    assert by_workers[1]["source"] == by_workers[2]["source"] == "trial"
    assert all(point["step_s"] > 0 for point in found["points"])
    view = program.job(found["job_id"])
    assert view.is_held and view.started_s is None
    program.ok("cancel", view.id)
