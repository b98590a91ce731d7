"""A format is found by what its lines say, and no column is dropped without a word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from swell.sim.traces.entry import TraceError
from swell.sim.traces.read import read

Write = Callable[..., Path]

#: Logs of other schedulers under headers that are known.
FOREIGN = (
    ",run_time,wait_time,submit_time,gpu_num\n0,1:00:00,0,yesterday,4\n1,2:00:00,9,today,4\n",
    "id,run_time,wait_time,submit_time,gpu_num\n0,60,0,7,0\n1,60,0,9,0\n",
    "submit_s,id,num_devices,duration_s\nsoon,a,1,10\n",
)


@pytest.mark.parametrize("text", FOREIGN)
def test_a_file_without_one_job_is_refused_with_the_reason(text: str, write: Write) -> None:
    with pytest.raises(TraceError, match=r"looks like .* \(line 2: .*none of its lines is a job.*--format"):
        read(write(text))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("deadline", "deadline_s"),
        ("deadline_h", "deadline_s"),
        ("dedline_s", "deadline_s"),
        ("duration", "duration_s"),
        ("gpu_num", "num_gpus"),
        ("steps", "num_steps"),
        ("batch", "batch_size"),
        ("soft", "is_soft"),
        ("loss_curves", "loss_curve"),
        ("core_per_worker", "cores_per_worker"),
    ],
)
def test_a_column_that_was_meant_for_a_missing_field_is_an_error(name: str, meant: str, write: Write) -> None:
    with pytest.raises(TraceError, match=f"column '{name}', .*did you mean '{meant}'"):
        read(write(f"submit_s,id,{name}\n0,a,1\n"))


def test_other_columns_are_ignored_with_a_note(write: Write) -> None:
    trace = read(write("submit_s,id,num_gpus,cpus,num_cpus\n0,a,1,8,8\n"))
    assert trace.notes == ("ignored, for no field of a job is in it: column cpus, num_cpus",)
    assert read(write("submit_s,id\n0,a\n")).notes == ()
