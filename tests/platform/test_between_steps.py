"""A script that evaluates after each epoch: what is promised holds, and what is expected comes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.live_promises import SCRIPT as EVALUATES
from tests.platform.program import STEPS_PER_EPOCH, Program, job_id, submission

pytestmark = pytest.mark.slow

EVALUATION_S = 0.6
EPOCHS = 5
#: Two paced workers make a step of 64 samples in 0.05 s.
STEPS_S = EPOCHS * STEPS_PER_EPOCH * 0.05
JOB_S = STEPS_S + EPOCHS * EVALUATION_S


def submit(swell: Program, folder: Path, *options: object) -> tuple[int, str]:
    needs = ("--or-nothing", "--epochs", EPOCHS, "--workers", 2)
    words = submission(folder, *options, *needs, script=EVALUATES)
    done = swell(*words, "--", EVALUATION_S)
    return done.returncode, done.stdout


def test_the_time_of_evaluations_is_promised_and_expected(swell: Program, tmp_path: Path) -> None:
    """Of three seconds of five: a job that is believed to be of two would be promised too much."""
    status, told = submit(swell, tmp_path, "--deadline", f"now+{STEPS_S + 1.0:.1f}s")
    assert status == 3, told
    (offer,) = re.findall(r"submit again with --deadline (\S+)$", told, re.MULTILINE)
    status, told = submit(swell, tmp_path, "--deadline", offer)
    assert status == 0, told
    strict = job_id(told)

    first = swell.await_job(strict, lambda job: job.steps > 0 or job.phase.is_end, "its first steps")
    assert first.started_s is not None and first.estimated_finish_s is not None
    ended = swell.await_end(strict)
    assert ended.kept
    assert ended.finished_s is not None
    took_s = ended.finished_s - first.started_s
    assert took_s > 0.95 * JOB_S
    # Its last lines were never measured, and on a busy machine steps take longer than paced.
    assert first.estimated_finish_s == pytest.approx(ended.finished_s, abs=0.2 * took_s)
