"""Scripts that fail, end early or are called off; and the same script without Swell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.platform.program import (
    PLANE,
    STEPS_PER_EPOCH,
    CheckLearned,
    Program,
    job_id,
    read_diary,
    read_weights,
    submission,
)
from tests.train.torchrun import run_under_torchrun

from swell.executors.local.limits.control_groups import limiter_offers
from swell.executors.local.processes.listing import is_alive

pytestmark = pytest.mark.slow

#: Of a run without Swell.
EPOCHS_ALONE = 14


def test_a_script_that_dies_on_import_fails_its_submission(swell: Program, tmp_path: Path) -> None:
    script = tmp_path / "torn.py"
    script.write_text("import json, swell\njson.loads('{')\n")
    strict = swell(*submission(tmp_path, "--steps", 10, "--deadline", "now+1m", script=script))
    assert strict.returncode == 1
    assert "failed: json.decoder.JSONDecodeError: Expecting property name" in strict.stdout
    job = job_id(strict.stdout)
    assert swell.await_end(job, "failed").pids == ()
    for told in (swell.ok("show", job), swell.ok("logs", job)):
        assert f'File "{script}", line 2, in <module>' in told
        assert "JSONDecodeError" in told


def test_a_script_that_dies_in_training_shows_its_traceback(swell: Program, tmp_path: Path) -> None:
    (tmp_path / "dies").touch()
    job = job_id(swell(*submission(tmp_path, "--steps", 1000, "--workers", 2)).stdout)
    ended = swell.await_end(job, "failed")
    # The leader notes the fifth step, or is stopped before because the other worker failed first.
    assert [entry.step for entry in read_diary(tmp_path)] in ([1, 2, 3, 4], [1, 2, 3, 4, 5])
    for told in (swell.ok("show", job), swell.ok("logs", job)):
        assert "ArithmeticError: a mistake of the script's own" in told
        assert f'File "{PLANE}"' in told
        assert "swell/train/runtime/runner.py" not in told
    assert not any(map(is_alive, ended.pids))


def test_a_script_that_ends_early_succeeds_and_says_so(swell: Program, tmp_path: Path) -> None:
    (tmp_path / "leaves").touch()
    told = swell.ok(*submission(tmp_path, "--steps", 1000, "--workers", 2, "--memory", "64GB"))
    is_limited = limiter_offers()[0].is_offered
    # It is told before the job has a gang, or by the agent that has started one.
    words = ("warning, memory: nothing limits it", "warning, memory: its memory is not limited")
    assert is_limited or any(each in told for each in words)
    job = job_id(told)
    ended = swell.await_end(job)
    assert ended.steps == 5
    assert re.search(r"ended by itself at .*plane.py:\d+ after 5 of 1000 steps", swell.ok("show", job))
    assert read_weights(tmp_path)["steps"] == 5


@pytest.mark.parametrize(
    ("way", "text", "steps"),
    [
        pytest.param("exits", "", 5, id="exits"),
        pytest.param("exits", "0 1", 5, id="exits at once", marks=pytest.mark.slow),
        pytest.param("flat", "", 8, id="one epoch"),
    ],
)
def test_a_script_that_ends_before_its_job_without_leaving_its_epochs_has_ended_early(
    swell: Program, tmp_path: Path, way: str, text: str, steps: int
) -> None:
    (tmp_path / way).write_text(text)
    submitted = submission(tmp_path, "--steps", 1000, "--workers", 2, "--deadline", "now+1h")
    job = job_id(swell(*submitted).stdout)
    ended = swell.await_end(job, "ended-early")
    assert ended.kept is False
    about = "about " if text else f"{steps} of 1000 steps"  # it has not told how far it was
    told = rf"ended-early: the script ended by itself (at \S+:\d+ )?after {about}"
    assert re.search(told, " ".join(swell.ok("show", job).split()))
    waited = swell("wait", job)
    assert waited.returncode == 6 and re.search(told, waited.stdout)


def test_a_loss_that_is_no_number_is_told_and_ends_a_job_that_asks_for_it(
    swell: Program, tmp_path: Path
) -> None:
    dirs = {name: tmp_path / name for name in ("goes-on", "stops")}
    for path in dirs.values():
        path.mkdir()
        (path / "diverges").touch()
    options = ("--steps", 40, "--workers", 2)
    goes_on = swell.submit(dirs["goes-on"], *options)
    stops = swell.submit(dirs["stops"], *options, "--stop-on-nan")
    failed = swell.await_end(stops, "failed")
    assert failed.steps == 5
    folder = swell.state / "jobs" / stops / "checkpoints"
    assert failed.message.splitlines()[-1].startswith(
        "swell.train.state.loss.LossNotFinite: the loss is nan in step 6, whose update was not "
        f"applied; the state after step 5 is saved in {folder}. Lower the learning rate"
    )
    assert [path.name[:17] for path in folder.iterdir()] == ["step-000000000005"]
    ended = swell.await_end(goes_on)
    assert ended.steps == 40
    told = "the loss is nan since step 6: lower the learning rate"
    assert told in ended.message
    assert [
        story["text"][: len(told)] for story in swell.json("explain", goes_on) if story["code"] == "warned"
    ] == [told]
    assert "nan" in swell.ok("jobs", "--all").split(goes_on)[1].splitlines()[0]
    for job in (goes_on, stops):
        shown = swell.ok("show", job)
        assert "loss nan" in shown, shown


def test_jobs_are_called_off_in_every_state(swell: Program, tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text("import swell, time\nprint('asleep')\ntime.sleep(300)\n")
    running_dir = tmp_path / "running"
    running_dir.mkdir()
    running = swell.submit(running_dir, "--steps", 100_000, "--workers", 4)
    pids = swell.await_training(running, 4, running_dir).pids
    # so much longer that it waits even where the other one has become slow
    queued = swell.submit(tmp_path, "--steps", 10_000_000, "--workers", 4)
    assert swell.job(queued).phase == "queued"
    profiling = swell.submit(tmp_path, "--steps", 10, "--no-wait", script=script)
    swell.await_log(profiling, "asleep")
    begun = swell.processes()
    for job in (queued, profiling, running):
        swell.ok("cancel", job)
        ended = swell.await_end(job, "cancelled")
        assert ended.kept is None
    assert not any(map(is_alive, pids))
    swell.await_processes(len(begun) - 5)  # four workers, and the trial run
    assert "cancelled" in swell.ok("explain", queued)
    with_name = swell.submit(tmp_path, "--steps", 8, "--name", "after")
    swell.await_end(with_name)


def test_the_same_script_runs_under_torchrun(tmp_path: Path, check_learned: CheckLearned) -> None:
    status, said = run_under_torchrun(2, tmp_path, PLANE, EPOCHS_ALONE)
    assert status == 0, said
    assert {entry.num_workers for entry in read_diary(tmp_path)} == {2}
    assert check_learned(tmp_path) == EPOCHS_ALONE * STEPS_PER_EPOCH
