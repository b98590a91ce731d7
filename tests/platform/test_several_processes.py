"""Workers of several processes each: promised, limited and told by devices, killed as any others."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.chaos.jobs import BATCH, NUM_SAMPLES, SCRIPT
from tests.platform.program import Program, job_id, submission

EPOCHS = 100
LIMITED = "narrow"


def submit(swell: Program, folder: Path, *options: object) -> tuple[str, str]:
    """A job of two processes for each worker: its id, and what was printed."""
    folder.mkdir()
    shutil.copy(SCRIPT, folder / "tally.py")
    printed = swell.ok(*submission(folder, "--devices-per-worker", 2, *options, script=folder / "tally.py"))
    return job_id(printed), printed


def num_busy(swell: Program, job: str) -> int:
    """Devices that it holds, as the nodes say."""
    return sum(held == job for node in swell.json("nodes")["nodes"] for held in node["devices"].values())


@pytest.mark.slow
def test_it_is_promised_holds_devices_and_repeats_a_step_without_a_worker_of_which_one_process_was_killed(
    swell: Program, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    words = ("--epochs", EPOCHS, "--workers", "1:2", "--deadline", "now+20m", "--or-nothing")
    job, printed = submit(swell, folder, *words)
    assert "promised to finish by" in printed and "smallest size: 2 devices" in printed
    view = swell.await_job(job, lambda view: view.workers == 2 and view.steps > 20, "two workers")
    assert num_busy(swell, job) == 4 and len(view.live_pids) == 2
    os.kill(int((folder / "process-1.1").read_text()), signal.SIGKILL)
    lost = swell.await_job(job, lambda view: (view.workers, len(view.sizes)) == (1, 2), "the loss of one")
    assert lost.phase == "running"
    done = swell.await_end(job)
    found = json.loads((folder / "tally.json").read_text())
    assert found == {"steps": done.steps, "least": -EPOCHS / BATCH, "most": -EPOCHS / BATCH}
    assert done.steps == EPOCHS * NUM_SAMPLES // BATCH
    assert [workers for _, workers in done.sizes][:2] == [2, 1]
    assert done.deadline_s is not None and done.finished_s is not None and done.deadline_s > done.finished_s
    assert "ends epoch" in swell.ok("logs", job, "--worker", "0.1", "-n", 5)


@pytest.mark.slow
def test_a_quota_counts_the_devices_of_all_processes(swell: Program, tmp_path: Path) -> None:
    swell.ok("admin", "tenants", "limit", LIMITED, "--devices", 3)
    words = ("--epochs", 60, "--workers", "1:2", "--tenant", LIMITED)
    job, _ = submit(swell, tmp_path / "job", *words)
    swell.await_job(job, lambda view: view.steps > 20, "steps")
    assert num_busy(swell, job) == 4, "what is idle is lent"
    assert "4 of 3" in swell.ok("admin", "tenants")
    swell.await_end(job)
