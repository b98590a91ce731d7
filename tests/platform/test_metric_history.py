"""The history of metrics has each step once, whatever happens to the job and to the platform."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, STEPS_PER_EPOCH, Program, eventually, kill, read_diary

import swell as library
from swell.model.view import MetricSeries


def history(swell: Program, job: str) -> dict[str, MetricSeries]:
    with library.connect(swell.state) as client:
        return {series.name: series for series in client.metrics(job).series}


def check_loss(loss: MetricSeries, num_steps: int) -> None:
    """Each step has one loss."""
    assert sum(loss.count) == num_steps
    assert (loss.first_step[0], loss.last_step[-1]) == (1, num_steps)
    steps = [step for span in zip(loss.first_step, loss.last_step, strict=True) for step in span]
    assert steps == sorted(steps) and loss.at_s == sorted(loss.at_s)
    assert sum(loss.not_finite) == 0 and set(loss.num_workers) <= {1, 2, 3, 4}


@pytest.mark.slow
def test_a_job_that_loses_its_leader_and_its_daemon_has_each_step_once(
    swell: Program, tmp_path: Path
) -> None:
    """Without its leader it goes on with three workers, from the step at which it was."""
    job = swell.submit(tmp_path, "--epochs", ENDLESS, "--workers", "1:4")
    swell.await_training(job, 4, tmp_path)
    leader = read_diary(tmp_path)[-1].pid
    kill(leader)
    eventually(lambda: read_diary(tmp_path)[-1].pid != leader, "steps under another leader")
    daemon = swell.daemon_pid
    assert daemon is not None
    kill(daemon)
    swell.up()
    done = swell.finish(job, tmp_path)
    loss = history(swell, job)["loss"]
    check_loss(loss, done.steps)
    assert {3, 4} <= set(loss.num_workers)


@pytest.mark.slow
def test_a_job_that_goes_on_from_its_checkpoint_has_each_step_once(swell: Program, tmp_path: Path) -> None:
    job = swell.submit(tmp_path, "--epochs", ENDLESS, "--workers", "4")
    swell.await_training(job, 4, tmp_path)
    swell.await_steps(tmp_path, STEPS_PER_EPOCH)
    for pid in swell.job(job).pids:
        kill(pid)
    made, most = len(entries := read_diary(tmp_path)), entries[-1].step
    eventually(
        lambda: any(entry.step > most for entry in read_diary(tmp_path)[made:]), "a step more than before"
    )
    done = swell.finish(job, tmp_path)
    steps = [entry.step for entry in read_diary(tmp_path)]
    assert len(steps) > done.steps == len(set(steps)), "some steps were made twice"
    check_loss(history(swell, job)["loss"], done.steps)
