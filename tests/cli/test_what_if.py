"""`swell what-if`, as a user runs it, against a head that decides."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.api.stage import Stage, on_stage
from tests.api.test_what_if import ONE, job_file

from swell.cli import main

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with on_stage(tmp_path / "state") as stage:
        yield stage


@pytest.fixture
def swell(stage: Stage, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: object) -> subprocess.CompletedProcess[str]:
        status = main.run([*map(str, words), "--state", str(stage.folder.path)])
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess([str(word) for word in words], status, out, err)

    return run


def test_each_job_has_an_end_now_and_then(stage: Stage, swell: Run, script: Path, tmp_path: Path) -> None:
    job_id = stage.run(script, **ONE)
    file = job_file(tmp_path, script, deadline="now+2s")
    done = swell("what-if", "--policy", "fifo", "--add-nodes", 1, "--submit", file)
    assert done.returncode == 0 and done.stderr == ""
    title, _, headings, known, new, _, *remarks = done.stdout.splitlines()
    assert title == "policy fifo instead of elasticflow; 4 devices instead of 2; 1 more job"
    assert headings.split() == ["JOB", "CLASS", "DEADLINE", "NOW", "THEN", "DIFFERENCE"]
    assert known.split()[:3] == [job_id, "best_effort", "-"] and known.endswith("same")
    assert new.split()[0] == "train-new" and new.split()[3] == "-" and "missed" in new
    assert remarks == ["promises kept: 0, broken: none. Nothing has been changed."]


def test_a_job_that_would_be_tried_without_a_promise_is_said_to_be_so(
    stage: Stage, swell: Run, script: Path, tmp_path: Path
) -> None:
    stage.run(script, **ONE)
    done = swell("what-if", "--submit", job_file(tmp_path, script, deadline="now+2s"))
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("train-new  ")]
    assert "missed" in row and row.endswith("tried")
    assert "train-new: not promised: its deadline in 2 s cannot be kept" in done.stdout
    assert "  earliest deadline that can be promised: " in done.stdout


def test_json_is_the_same_for_programs(stage: Stage, swell: Run, script: Path) -> None:
    job_id = stage.run(script, **ONE)
    found = json.loads(swell("what-if", "--policy", "fifo", "--json").stdout)
    assert (found["policy_now"], found["policy_then"]) == ("elasticflow", "fifo")
    (job,) = found["jobs"]
    assert job["id"] == job_id and job["now"] == job["then"] and not job["is_hypothetical"]


def test_without_jobs_and_without_a_question(stage: Stage, swell: Run) -> None:
    assert swell("what-if", "--add-nodes", 1).stdout == "4 devices instead of 2\nthere are no open jobs\n"
    done = swell("what-if")
    assert done.returncode == 2 and "name at least one change" in done.stderr
    done = swell("what-if", "--policy", "best")
    assert done.returncode == 2 and done.stderr.startswith("swell: there is no policy 'best'")
    done = swell("what-if", "--add-nodes", 10**8)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.endswith("would make 200,000,002 devices; at most 100,000 can be simulated\n")
