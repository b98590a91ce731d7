"""What ends a measurement of a job, and the pause of a change that is told early."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import pytest

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.link import LocalExecutor
from swell.model.command import AnyCommand
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    Outcome,
    ResizeFailed,
    StepsReported,
)

pytest.importorskip("torch")

from swell.measure.measured_job import MeasuredJob, MeasureFailed, describe_job  # it imports torch

ABOUT: dict[str, Any] = {"at_s": 1.0, "job_id": "measured", "generation": 1}
OTHER = GangEnded(**ABOUT | {"job_id": "other"}, outcome=Outcome.FAILED, steps=3, message="of another job")


def measured_job(executor: Any, events: queue.SimpleQueue[AnyEvent], folder: Path) -> MeasuredJob:
    (node,) = parse_devices("paced:2@200")
    return MeasuredJob(executor, events, node.node.devices, describe_job("measured", folder, 2))


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            GangEnded(**ABOUT, outcome=Outcome.FAILED, steps=3, message="out of memory"),
            "GangEnded: out of me",
        ),
        (ResizeFailed(**ABOUT, message="no device"), "ResizeFailed: no device"),
        (GangEnded(**ABOUT | {"job_id": ""}, outcome=Outcome.LOST, steps=0, message="killed"), "killed"),
    ],
)
def test_a_failure_is_told(tmp_path: Path, event: AnyEvent, told: str) -> None:
    (node,) = parse_devices("paced:2@200")
    events = queue.SimpleQueue[AnyEvent]()
    events.put(OTHER)
    events.put(event)
    executor = LocalExecutor(AgentOptions(state_dir=tmp_path / "state"), [node])
    with pytest.raises(MeasureFailed, match=told):
        measured_job(executor, events, tmp_path).hear(GangStarted)


class Shrinking:
    """An executor that tells of a shrink as gangs do: they train on before the worker that leaves is gone."""

    def __init__(self, events: queue.SimpleQueue[AnyEvent]) -> None:
        self._events = events

    def perform(self, command: AnyCommand) -> None:
        self._events.put(StepsReported(**ABOUT, steps=9, num_workers=1, pause_s=0.0))
        self._events.put(GangResized(**ABOUT, steps=9, pids=(1,)))


def test_a_pause_that_is_told_before_the_change_is_over_is_known(tmp_path: Path) -> None:
    events = queue.SimpleQueue[AnyEvent]()
    job = measured_job(Shrinking(events), events, tmp_path)
    job.resize(1)
    assert job.pause_s() == 0.0


def test_the_time_of_a_step_leaves_out_the_first_report_and_reports_of_other_sizes(tmp_path: Path) -> None:
    events = queue.SimpleQueue[AnyEvent]()
    told = [(1, 5, 9.0), (2, 10, 7.0), (2, 18, 0.1), (2, 26, 0.2), (2, 34, 0.3), (2, 42, 9.0)]
    for num_workers, steps, step_s in told:
        events.put(StepsReported(**ABOUT, steps=steps, num_workers=num_workers, step_s=step_s))
    assert measured_job(Shrinking(events), events, tmp_path).step_s(2) == 0.2
