"""The main path: submit, promise, train, resize, finish."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.live_promises import SCRIPT as EVALUATES
from tests.platform.program import (
    ENDLESS,
    PLANE,
    STEPS_PER_EPOCH,
    Program,
    job_id,
    read_diary,
    submission,
)


def folder(tmp_path: Path, name: str) -> Path:
    path = tmp_path / name
    path.mkdir()
    return path


def test_jobs_of_every_class_share_the_devices(swell: Program, tmp_path: Path) -> None:
    filler_dir, strict_dir, soft_dir = (folder(tmp_path, name) for name in ("filler", "strict", "soft"))
    # Its speed is stated: on a busy machine four paced workers may be measured to be no faster than two.
    speed = ("--speed", "1:640,2:1280,4:2560", "--keep-estimates")
    filler = swell.submit(filler_dir, "--epochs", ENDLESS, *speed)
    swell.await_training(filler, 4, filler_dir)
    first_pids = swell.json("show", filler)["pids"]
    assert len(set(first_pids)) == 4

    # Its latest start is less than the minimum hold away, so others make room at once.
    strict = swell.promise(strict_dir, "--steps", 40, "--workers", 2, within_s=9)
    late = ("--steps", 20, "--workers", 1, "--deadline", "now+40s", "--class", "soft")
    soft = swell.submit(soft_dir, *late)
    assert {job["id"] for job in swell.json("jobs")} >= {filler, strict, soft}
    (node,) = swell.json("nodes")["nodes"]
    assert list(node["devices"]) == ["node0/0", "node0/1", "node0/2", "node0/3"]
    assert filler in node["devices"].values()

    for job, size in ((strict, 2), (soft, 1)):
        ended = swell.await_end(job)
        assert ended.kept
        assert ended.steps == ended.total_steps
        assert [workers for _, workers in ended.sizes] == [size, 0]
    assert "met its end condition" in swell.ok("explain", strict)
    swell.await_training(filler, 4, filler_dir)
    swell.await_job(filler, lambda job: job.loss is not None and job.loss < 0.2, "what it is to learn")
    assert swell.finish(filler, filler_dir).kept is None
    check_resized(swell, filler, first_pids, filler_dir)


def test_a_job_that_names_neither_batch_nor_end_is_promised_what_its_script_does(
    swell: Program, tmp_path: Path
) -> None:
    words = ("submit", "--script", PLANE, "--workdir", tmp_path, "--deadline", "now+5m", "--", 3)
    told = swell.ok(*words)
    assert "promised to finish by" in told
    ended = swell.await_end(job_id(told))
    assert (ended.kept, ended.global_batch, ended.steps) == (True, 64, 3 * STEPS_PER_EPOCH)


def check_resized(swell: Program, job: str, first_pids: list[int], at: Path) -> None:
    """It gave devices away and got them back, inside live processes, and learned all the same."""
    shown = swell.json("show", job)
    sizes = [workers for _, workers in shown["sizes"]]
    assert sizes[0] == 4
    assert min(sizes[:-1]) < 4
    assert sizes[-2:] == [4, 0], "it grew again"
    assert 0 not in sizes[:-1], "it was never stopped"
    assert shown["resizes"] >= 2
    assert shown["resize_pause_s"] > 0
    assert shown["pids"][:4] == first_pids
    entries = read_diary(at)
    assert [entry.step for entry in entries] == list(range(1, shown["steps"] + 1))
    assert {entry.pid for entry in entries} <= set(first_pids), "the leader was there from the start"
    assert shown["metrics"]["accuracy"] > 0.95
    assert shown["loss"] < 0.2
    codes = [told["code"] for told in swell.json("explain", job)]
    assert codes[:2] == ["submitted", "profiling"]
    assert codes.count("resized") == shown["resizes"]
    explained = swell.ok("explain", job)
    assert re.search(r"resized +went from 4 to [12] workers? at step \d+", explained)
    assert re.search(r"decided +is to go from 4 to [12] workers?: \w+", explained)
    assert "was ended by its own script, which has left its loop" in explained
    every = swell.ok("logs", job, "--all")
    assert every.count("in the loop") >= len(shown["pids"]), "one that proved itself has left"
    assert every.count("the end") == 1
    assert swell.ok("logs", job) == "in the loop\nthe end\n", "its leader's lines"
    assert "the end" in "".join(chunk["text"] for chunk in swell.json("logs", job))


def test_a_refusal_offers_a_deadline_that_is_promised(swell: Program, tmp_path: Path) -> None:
    words = ("--steps", 300, "--or-nothing", "--deadline")
    refused = swell(*submission(tmp_path, *words, "now+2s"))
    assert (refused.returncode, refused.stderr) == (3, "")
    assert "refused: its deadline in" in refused.stdout
    (offer,) = re.findall(r"^  submit again with --deadline (\S+)$", refused.stdout, re.MULTILINE)
    shown = swell.json("show", job_id(refused.stdout))
    assert (shown["phase"], shown["pids"], shown["kept"]) == ("rejected", [], None)
    assert shown["counter_offer_s"] > shown["deadline_s"]

    again = swell.promise(tmp_path, "--steps", 300, deadline=offer)  # or a later one, on a busy machine
    assert "promised" in swell.ok("explain", again)
    deadline_s = swell.job(again).deadline_s
    assert deadline_s is not None and deadline_s >= shown["counter_offer_s"] - 1.0


# ---------------------------------------------------------------- evaluations
EVALUATION_S = 0.6
EPOCHS = 5
#: Two paced workers make a step of 64 samples in 0.05 s.
STEPS_S = EPOCHS * STEPS_PER_EPOCH * 0.05
JOB_S = STEPS_S + EPOCHS * EVALUATION_S


@pytest.mark.slow
def test_the_time_of_evaluations_is_promised_and_expected(swell: Program, tmp_path: Path) -> None:
    """Of three seconds of five: a job that is believed to be of two would be promised too much."""
    words = ("--epochs", EPOCHS, "--workers", 2, "--or-nothing", "--deadline", f"now+{STEPS_S + 1.0:.1f}s")
    refused = swell(*submission(tmp_path, *words, script=EVALUATES), "--", EVALUATION_S)
    assert refused.returncode == 3, refused
    needs = ("--epochs", EPOCHS, "--workers", 2)
    strict = swell.promise(tmp_path, *needs, deadline="now+600s", script=EVALUATES, args=(EVALUATION_S,))

    first = swell.await_job(strict, lambda job: job.steps > 0 or job.phase.is_end, "its first steps")
    assert first.started_s is not None and first.estimated_finish_s is not None
    assert first.estimated_finish_s - first.started_s > 0.8 * JOB_S  # its last lines were never measured
    assert swell.await_end(strict).kept
