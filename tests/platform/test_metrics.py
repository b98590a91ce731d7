"""What scripts report: shown while they run, and kept with each step once, whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.program import ENDLESS, STEPS_PER_EPOCH, Program, kill, read_diary

import swell as library
from swell.model.view import MetricCurve

BY_FUNCTION = """
import pathlib, time
import swell

swell.report(loss=0.75, accuracy=0.5)
while not pathlib.Path("gate").exists():
    time.sleep(0.02)
for number in range(1000):
    swell.report(accuracy=number / 1000)
swell.report(loss=float("nan"))
"""

BY_LINE = """
import json, os, pathlib, sys, time

print(json.dumps({"config": "small", "step": 0}))
sys.stderr.write("\\r 10%|#    | 1/10 ")
os.write(1, b'{"step": 1, "loss": 0.75, "accu')
os.write(1, b'racy": 0.5}\\n')
print("accuracy is not a report, nor is", {"accuracy": 1.0}, flush=True)
while not pathlib.Path("gate").exists():
    time.sleep(0.02)
for number in range(1000):
    print(json.dumps({"step": number, "accuracy": number / 1000}))
print(json.dumps({"loss": float("nan"), "accuracy": 0.999}), end="")
"""


@pytest.mark.slow
@pytest.mark.parametrize("text", [BY_FUNCTION, BY_LINE], ids=["function", "line"])
def test_what_a_script_reports_is_shown_while_it_runs_and_when_it_has_ended(
    swell: Program, tmp_path: Path, text: str
) -> None:
    script = tmp_path / "tells.py"
    script.write_text(text)
    options = ("--elasticity", "restart", "--workers", 1, "--metric", "accuracy", "--metric-goes", "up")
    job = swell.submit(tmp_path, *options, script=script)
    view = swell.await_job(job, lambda job: bool(job.metrics), "a report")
    assert (view.loss, view.metrics["accuracy"], view.phase) == (0.75, 0.5, "running")
    assert (view.metric, view.metric_rises) == ("accuracy", True)
    (tmp_path / "gate").touch()
    ended = swell.await_end(job)
    assert (str(ended.loss), ended.metrics["accuracy"]) == ("nan", 0.999)
    stories = swell.ok("explain", job)
    assert stories.count("the script reports loss as nan") == 1


def history(swell: Program, job: str) -> dict[str, MetricCurve]:
    with library.connect(swell.state) as client:
        return {series.name: series for series in client.metrics(job).series}


def check_loss(loss: MetricCurve, num_steps: int) -> None:
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
