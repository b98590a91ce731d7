"""Every field of a submission is in the job that is made of it again: a retry, a continuation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.api.fake_control import FakeControl
from tests.store.views import job_view

from swell.api.resubmission import SubmissionChange, submitted_again
from swell.api.submission import Submission
from swell.model.booking import Booking
from swell.model.event import JobSubmitted
from swell.model.job import JobSpec, Phase

NOW_S = 1_800_000_000.0
PLAIN: dict[str, Any] = {
    "script": __file__,
    "workdir": str(Path(__file__).parent),
    "global_batch": 64,
    "steps": 10,
}
#: A job that runs a command.
FIXED = {"command": ["torchrun", "train.py"], "time": "6h", **dict.fromkeys(PLAIN, None)}
FIXED["workdir"] = PLAIN["workdir"]
#: For each field a value that is not its default, and what else it needs; null: it is left out.
GIVEN: dict[str, dict[str, Any]] = {
    "global_batch": {"global_batch": 96},
    "batch": {"batch": "32:512"},
    "batch_per_worker": {"batch_per_worker": 16},
    "name": {"name": "other"},
    "script": {"script": __file__},
    "entry": {"entry": "package.module:train", "script": None},
    "args": {"args": ["--lr", "0.1"]},
    "command": FIXED,
    "devices": {**FIXED, "devices": 4},
    "time": {**FIXED, "time": "1d"},
    "nodes": {**FIXED, "nodes": 2},
    "grace": {**FIXED, "grace": "2m"},
    "may_suspend": {**FIXED, "may_suspend": True},
    "retries": {**FIXED, "retries": 3},
    "session": {**FIXED, "session": True},
    "idle": {**FIXED, "session": True, "idle": "5m"},
    "port": {**FIXED, "session": True, "port": 8888},
    "workdir": {"workdir": "/"},
    "code": {"code": "live"},
    "uploaded": {"uploaded": "a" * 64},
    "env": {"env": {"KEY": "s3cret"}},
    "env_from": {"env_from": {"KEY": "s3cret"}},
    "python": {"python": "/bin/sh"},
    "uv": {"uv": ["rich==13.9"]},
    "image": {"image": "python:3.11-slim"},
    "mount": {"image": "python:3.11-slim", "mount": ["/data:/x:ro"]},
    "needs": {"needs": ["/data/x"]},
    "steps": {"steps": 11},
    "epochs": {"epochs": 2.5, "steps": None},
    "samples": {"samples": 1000, "steps": None},
    "until": {"until": "accuracy>=0.97"},
    "metric": {"metric": "accuracy"},
    "metric_goes": {"metric": "accuracy", "metric_goes": "up"},
    "deadline": {"deadline": NOW_S + 600},
    "or_nothing": {"deadline": NOW_S + 600, "or_nothing": True},
    "accept_until": {"deadline": NOW_S + 600, "accept_until": NOW_S + 1200},
    "class": {"deadline": NOW_S + 600, "class": "soft"},
    "priority": {"priority": 3},
    "weight": {"weight": 2.5},
    "workers": {"workers": "2:8"},
    "devices_per_worker": {"devices_per_worker": 4},
    "processes": {"devices_per_worker": 4, "processes": 1},
    "kind": {"kind": "a100,v100"},
    "memory": {"memory": "4GiB"},
    "log_limit": {"log_limit": "1GB"},
    "checkpoint_interval": {"checkpoint_interval": "10m"},
    "elasticity": {"elasticity": "restart"},
    "booking": {"booking": "b-7f2k"},
    "estimate": {"estimate": "10m"},
    "seed": {"seed": 7},
    "tenant": {"tenant": "vision"},
    "after": {"after": "prepare-1"},
    "group": {"group": "g"},
    "tags": {"tags": ["baseline"]},
    "webhook": {"webhook": "https://example.org/t0ken"},
    "notify": {"notify": "json://127.0.0.1/hook,mailto://ada:sesame@example.org"},
    "on": {"webhook": "https://example.org/t0ken", "on": "finished,missed"},
    "hold_after_trial": {"hold_after_trial": True},
    "speed": {"speed": "1:7100.5,2:13100"},
    "resize_up_s": {"resize_up_s": 3},
    "resize_down_s": {"resize_down_s": 2.5},
    "keep_estimates": {"keep_estimates": True, "speed": "1:7100"},
    "stop_on_nan": {"stop_on_nan": True},
    "accept_differences": {"accept_differences": ["weighted-mean"]},
    "on_drift": {"on_drift": "fail"},
    "on_difference": {"on_difference": "roll_back"},
}


def spec_of(field: str) -> JobSpec:
    given = {word: value for word, value in (PLAIN | GIVEN[field]).items() if value is not None}
    return msgspec.convert(given, Submission).to_spec(NOW_S)


def test_each_field_is_tried() -> None:
    assert GIVEN.keys() == {*Submission.__struct_encode_fields__}


@pytest.mark.parametrize("is_continued", [False, True])
@pytest.mark.parametrize("field", Submission.__struct_encode_fields__)
def test_a_job_that_is_submitted_again_has_the_field(field: str, is_continued: bool, tmp_path: Path) -> None:
    """All but the jobs that it came after: to submit it again is to say that it may start."""
    control, spec = FakeControl(tmp_path), spec_of(field)
    control.now_s = lambda: NOW_S  # type: ignore[method-assign]
    view = job_view(id="a-1", phase=Phase.FAILED, priority=spec.priority, weight=spec.weight)
    control.put(view)
    control.booked["b-7f2k"] = Booking(id="b-7f2k", times_s=((NOW_S, NOW_S + 1.0),))
    control.submission = lambda job_id: JobSubmitted(  # type: ignore[method-assign]
        job_id=job_id, at_s=NOW_S, spec=spec
    )
    new, _ = submitted_again(
        control,
        "a-1",
        SubmissionChange(),
        "",
        is_continued=is_continued,
    )
    assert new == msgspec.structs.replace(spec, after=(), run_id="a-1")


def test_a_job_whose_booking_is_over_runs_without_it_when_it_is_submitted_again(tmp_path: Path) -> None:
    control, spec = FakeControl(tmp_path), spec_of("booking")
    control.now_s = lambda: NOW_S  # type: ignore[method-assign]
    control.put(job_view(id="a-1", phase=Phase.TIMED_OUT))
    control.submission = lambda job_id: JobSubmitted(  # type: ignore[method-assign]
        job_id=job_id, at_s=NOW_S, spec=spec
    )
    new, _ = submitted_again(control, "a-1", SubmissionChange(), "", is_continued=False)
    assert (spec.booking, new.booking) == ("b-7f2k", "")
