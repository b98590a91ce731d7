"""What a machine's devices are measured to take, with real workers; and what ends a measurement."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import pytest

from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.launch import find_agent
from swell.executors.local.link import LocalExecutor
from swell.measure.measurement import MeasureFailed, _MeasuredJob, measure
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

ABOUT: dict[str, Any] = {"at_s": 1.0, "job_id": "measured", "generation": 1}


@pytest.mark.soak  # 40 s of CPU time
@pytest.mark.parametrize(("devices", "number"), [("cpu:2", 11), ("cpu:1", 6)])
def test_a_machine_is_measured(tmp_path: Path, devices: str, number: int) -> None:
    (node,) = parse_devices(devices)
    told = list[str]()
    found = measure(node, tmp_path, told.append)
    assert len({one.what for one in found}) == len(found) == number, found
    assert all(0 < one.measured_s < 60 for one in found if "time taken" not in one.what)
    assert told[0].startswith("a trial run")
    assert find_agent(tmp_path / "state") is None, "no process is left"


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            GangEnded(**ABOUT, outcome=Outcome.FAILED, steps=3, message="out of memory"),
            "GangEnded: out of me",
        ),
        (ResizeFailed(**ABOUT, message="no device"), "ResizeFailed: no device"),
    ],
)
def test_a_failure_is_told(tmp_path: Path, event: AnyEvent, told: str) -> None:
    (node,) = parse_devices("paced:2@200")
    events = queue.SimpleQueue[AnyEvent]()
    events.put(event)
    executor = LocalExecutor(AgentOptions(state_dir=tmp_path / "state"), [node])
    job = _MeasuredJob(executor, events, node.node.devices, None)  # type: ignore[arg-type]
    with pytest.raises(MeasureFailed, match=told):
        job.hear(GangStarted)


class Shrinking:
    """An executor that tells of a shrink as gangs do: they train on before the worker that leaves is gone."""

    def __init__(self, events: queue.SimpleQueue[AnyEvent]) -> None:
        self._events = events

    def perform(self, command: AnyCommand) -> None:
        self._events.put(StepsReported(**ABOUT, steps=9, num_workers=1, pause_s=0.0))
        self._events.put(GangResized(**ABOUT, steps=9, pids=(1,)))


def test_a_pause_that_is_told_before_the_change_is_over_is_known() -> None:
    (node,) = parse_devices("paced:2@200")
    events = queue.SimpleQueue[AnyEvent]()
    job = _MeasuredJob(Shrinking(events), events, node.node.devices, None)  # type: ignore[arg-type]
    job._resize(node.node.devices[:1])
    assert job._take_pause_s() == 0.0
