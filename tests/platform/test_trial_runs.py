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


NARROW = SCRIPTS.parent.parent / "executors" / "narrow.py"


@pytest.mark.slow
def test_a_job_goes_on_with_what_fits_however_little_that_becomes(swell: Program, tmp_path: Path) -> None:
    (tmp_path / "room").write_text("20")
    job = swell.submit(tmp_path, "--epochs", ENDLESS, "--workers", 2, script=NARROW)
    num_tried = len(lines(tmp_path))
    eventually(lambda: len(lines(tmp_path)) > num_tried + 40, "ten steps of two workers")
    assert samples_of(tmp_path) == {16}, "the trial run knows what fits, and the head tells the gang"
    assert not warnings(swell, job)
    set_room(tmp_path, 10)
    eventually(lambda: samples_of(tmp_path) == {16, 8}, "passes of 8 samples")
    swell.finish(job, tmp_path)
    assert samples_of(tmp_path) == {16, 8}
    (told,) = warnings(swell, job)
    assert "ran out of memory with 16 samples at once" in told
    assert "at most 8 go through the model together" in told


def lines(folder: Path) -> list[str]:
    path = folder / "passes"
    return path.read_text().splitlines(keepends=True) if path.exists() else []


def samples_of(folder: Path) -> set[int]:
    return {int(line.split()[1]) for line in lines(folder) if line.endswith("\n")}


def set_room(folder: Path, room: int) -> None:
    """Readers see the old number or the new."""
    draft = folder / "draft"
    draft.write_text(str(room))
    draft.replace(folder / "room")


def warnings(swell: Program, job: str) -> list[str]:
    return [story["text"] for story in swell.json("explain", job) if story["code"] == "warned"]


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
