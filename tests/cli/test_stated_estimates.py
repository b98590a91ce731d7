"""What a job's owner states of its speed and its changes, in what commands take and print."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.api.fake_control import FakeControl
from tests.cli.conftest import Run
from tests.store.views import job_view

from swell.model.job import JobClass

FREE = job_view(id="cnn-1", name="cnn-1", job_class=JobClass.BEST_EFFORT, is_promised=False)


def test_a_job_is_submitted_with_estimates(control: FakeControl, here: Run, script: Path) -> None:
    options = ("--script", script, "--global-batch", 8, "--steps", 5, "--no-wait")
    stated = ("--speed", "1:7100,2:13100", "--resize-up-s", 18, "--resize-down-s", 12, "--keep-estimates")
    job_id = here("submit", *options, *stated).stdout.partition(":")[0]
    told = control.specs[job_id]
    assert (told.speed, told.resize_up_s, told.resize_down_s) == ({1: 7100.0, 2: 13100.0}, 18.0, 12.0)
    assert told.keeps_estimates


def test_what_is_stated_is_shown(control: FakeControl, here: Run) -> None:
    control.put(FREE)
    assert "stated" not in here("show", "cnn-1").stdout
    stated = {"speed": {1: 7100.0, 2: 13100.0}, "resize_up_s": 18.0}
    control.put(msgspec.structs.replace(FREE, **stated))
    shown = " ".join(here("show", "cnn-1").stdout.split())
    assert (
        "stated 7100 samples/s with 1 worker, 13100 samples/s with 2 workers; a growth takes 18 s "
        "(until measured)"
    ) in shown
    control.put(msgspec.structs.replace(FREE, resize_down_s=3.0, keeps_estimates=True))
    assert "a shrink takes 3 s (whatever is measured)" in " ".join(here("show", "cnn-1").stdout.split())
