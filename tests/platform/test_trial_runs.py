"""What trial runs find and measure: differences, memory that is too small, throughput."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.program import ENDLESS, SCRIPTS, Program, job_id, submission


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


@pytest.mark.slow
def test_a_difference_that_begins_late_is_found_by_the_workers_that_were_to_join(
    swell: Program, tmp_path: Path
) -> None:
    other = swell.submit(tmp_path, "--epochs", ENDLESS, "--workers", 2)
    swell.await_job(other, lambda job: job.workers == 2, "it holds devices")
    words = ("--epochs", ENDLESS, "--workers", "1:4", "--", 100)
    job = swell.submit(tmp_path, *words, script=SCRIPTS / "weighted.py")
    swell.await_job(job, lambda view: view.steps > 110 and view.workers == 2, "it trains with weights")
    swell.ok("cancel", other)
    swell.await_job(job, lambda view: bool(view.held_by) and view.workers == 1, "it is held")
    told = " ".join(swell.ok("explain", job).split())
    assert "is limited to 1 worker: a new worker found weighted-mean" in told
    assert "results may differ since step" in told and "kept its 2 workers" in told
    swell.ok("accept-differences", job, "weighted-mean")
    eventually(lambda: swell.job(job).workers == 4, "it grows")
    swell.ok("admin", "replay")


@pytest.mark.slow
def test_a_difference_that_begins_late_is_found_on_an_idle_device(tmp_path: Path) -> None:
    program = Program(tmp_path / "state")
    program.up_with("fifo", "audit_share=1", "checkpoint_interval_s=1", "min_hold_s=3600")
    try:
        other = program.submit(tmp_path, "--epochs", ENDLESS, "--workers", 2)
        options = ("--epochs", ENDLESS, "--workers", "2:4", "--", tmp_path / "begins")
        job = program.submit(tmp_path, *options, script=SCRIPTS / "weighted.py")
        program.await_job(job, lambda view: view.steps > 5, "it trains")
        program.ok("cancel", other)  # the job keeps its size for an hour
        verified = program.await_job(job, lambda view: view.verified_steps is not None, "an audit")
        begins = verified.steps + 100  # seconds from now: both workers have read it by then
        (tmp_path / "told").write_text(str(begins))
        (tmp_path / "told").rename(tmp_path / "begins")
        held = program.await_job(job, lambda view: bool(view.held_by), "another one")
        assert not verified.held_by and held.steps >= begins - 1  # the next one differs
        assert {workers for _, workers in held.sizes} == {2}
        told = " ".join(program.ok("explain", job).split())
        assert "is limited to 2 workers: a new worker found weighted-mean" in told
        assert f"results may differ since step {held.verified_steps}" in told
        program.ok("admin", "replay")
    finally:
        program("down")


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
