"""The priority of a job in what commands take and print."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.api.fake_control import FakeControl
from tests.cli.conftest import Run
from tests.store.views import job_view

from swell.model.job import JobClass, Phase

FREE = job_view(id="lr-1", name="lr-1", job_class=JobClass.BEST_EFFORT, group="lr", is_promised=False)


def test_a_job_is_submitted_with_a_priority_and_again_with_the_one_that_it_has_got(
    control: FakeControl, here: Run, script: Path
) -> None:
    options = ("--script", script, "--global-batch", 8, "--steps", 5, "--no-wait")
    job_id = here("submit", *options, "--priority", -3).stdout.partition(":")[0]
    assert control.specs[job_id].priority == -3
    done = here("prioritize", job_id, "--priority", 40)
    assert done.stdout == f"{job_id}: has priority 40 among best_effort jobs\n"
    control.put(msgspec.structs.replace(control.job(job_id), phase=Phase.CANCELLED))
    again = here("retry", job_id, "--no-wait").stdout.partition(":")[0]
    assert control.specs[again].priority == 40


def test_a_priority_is_shown_where_there_is_one(control: FakeControl, here: Run) -> None:
    control.put(msgspec.structs.replace(FREE, id="cnn-1"))
    control.put(msgspec.structs.replace(FREE, id="cnn-2", priority=7))
    plain, prior = [line for line in here("jobs").stdout.splitlines() if line.startswith("cnn-")]
    assert "priority" not in plain and "best_effort, priority 7 " in prior
    assert "priority" not in here("show", "cnn-1").stdout
    assert ["priority", "7"] in [line.split() for line in here("show", "cnn-2").stdout.splitlines()]


def test_the_open_jobs_of_a_group_get_a_priority_together(control: FakeControl, here: Run) -> None:
    for number, phase in enumerate((Phase.RUNNING, Phase.QUEUED, Phase.SUCCEEDED)):
        control.put(msgspec.structs.replace(FREE, id=f"lr-{number}", phase=phase))
    assert here("prioritize", "lr", "--priority", -1).returncode == 0
    assert [control.job(f"lr-{number}").priority for number in range(3)] == [-1, -1, 0]


def test_a_job_gets_a_weight_beside_its_priority_or_alone(
    control: FakeControl, here: Run, script: Path
) -> None:
    options = ("--script", script, "--global-batch", 8, "--steps", 5, "--no-wait")
    job_id = here("submit", *options, "--weight", 2.5).stdout.partition(":")[0]
    assert control.specs[job_id].weight == 2.5
    assert here("prioritize", job_id, "--weight", 4).stdout == f"{job_id}: has weight 4\n"
    done = here("prioritize", job_id, "--priority", 3, "--weight", 0.5)
    assert done.stdout == f"{job_id}: has priority 3 among best_effort jobs and weight 0.5\n"
    assert ["weight", "0.5"] in [line.split() for line in here("show", job_id).stdout.splitlines()]
    control.put(msgspec.structs.replace(control.job(job_id), phase=Phase.CANCELLED))
    again = here("retry", job_id, "--no-wait").stdout.partition(":")[0]
    assert control.specs[again].weight == 0.5
