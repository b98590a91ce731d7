"""Jobs of a sweep are a group: submitted together, compared, and named together."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
from tests.api.fake_control import FakeControl
from tests.cli.conftest import Run
from tests.store.views import job_view

from swell.model.job import Phase

SWEEP = """
name: lr
script: {script}
global_batch: 64
steps: 100
args: [--lr, "{{lr}}"]
tags: [first]
sweep:
  lr: [0.1, 0.01, 0.001]
"""


def test_a_sweep_is_submitted_as_a_group(
    here: Run, control: FakeControl, script: Path, tmp_path: Path
) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEP.format(script=script))
    done = here("submit", path, "--key", "k")
    assert done.returncode == 0 and done.stdout.count("\n") == 3
    specs = list(control.specs.values())
    assert [spec.name for spec in specs] == ["lr-1", "lr-2", "lr-3"]
    assert [spec.args for spec in specs] == [("--lr", "0.1"), ("--lr", "0.01"), ("--lr", "0.001")]
    assert {spec.group for spec in specs} == {"lr"}
    assert specs[1].tags == ("first", "lr=0.01")


@pytest.fixture
def group(control: FakeControl) -> None:
    for number, (lr, loss) in enumerate([("0.1", 0.5), ("0.01", 0.2), ("0.001", float("nan"))], 1):
        control.put(
            job_view(
                id=f"lr-{number}-aa",
                name=f"lr-{number}",
                group="lr",
                tags=("first", f"lr={lr}"),
                loss=loss,
                metrics={"accuracy": 0.9},
                phase=Phase.RUNNING if number < 3 else Phase.FAILED,
            )
        )
    control.put(job_view(id="lr-other", name="lr-other", tags=("first",)))


@pytest.mark.usefixtures("group")
def test_a_group_is_compared(here: Run) -> None:
    lines = here("jobs", "--group", "lr").stdout.splitlines()
    assert lines[0].split() == ["JOB", "PHASE", "DONE", "lr", "loss", "accuracy", "FINISH"]
    assert lines[1].split()[:6] == ["lr-1-aa", "running", "34%", "0.1", "0.5", "0.9"]
    assert lines[-1] == "3 jobs of lr: 2 running, 1 failed; best loss 0.2: lr-2-aa (lr=0.01)"
    assert len(json.loads(here("jobs", "--group", "lr", "--json").stdout)) == 3
    assert re.search("^group +lr$", here("show", "lr-1").stdout, re.MULTILINE)
    assert here("jobs", "--group", "none").stdout == "no such jobs\n"


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("tags", "num"), [(("first",), 4), (("first", "lr=0.01"), 1), (("lr=0.1",), 1), (("second",), 0)]
)
def test_jobs_are_found_by_tags(here: Run, tags: tuple[str, ...], num: int) -> None:
    options = [word for tag in tags for word in ("--tag", tag)]
    assert len(json.loads(here("jobs", *options, "--json").stdout)) == num


@pytest.mark.usefixtures("group")
def test_the_name_of_a_group_means_its_jobs(here: Run, control: FakeControl) -> None:
    assert here("hold", "lr").stdout.count("is held") == 2
    assert here("resume", "lr").stdout.count("promised to finish") == 2
    done = here("cancel", "lr", "lr-other")
    assert done.stdout.splitlines() == [
        "lr-1-aa: will be cancelled",
        "lr-2-aa: will be cancelled",
        "lr-3-aa: already failed, nothing to cancel",
        "lr-other: will be cancelled",
    ]
    assert here("wait", "lr").returncode == 1
    control.put(msgspec.structs.replace(control.job("lr-3-aa"), phase=Phase.CANCELLED))
    assert here("wait", "lr").returncode == 4
