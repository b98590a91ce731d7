"""A measurement ends with an error where its gang does something else than it was told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swell.executors.local.devices import parse_devices
from swell.measure.measured_gang import MeasuredGang, MeasureFailed
from swell.model.event import AnyEvent, GangEnded, Outcome, ResizeFailed, StepsReported


def gang(folder: Path, *events: AnyEvent) -> MeasuredGang:
    """Not started; it has heard these events."""
    (node,) = parse_devices("paced:2@200")
    found = MeasuredGang(folder, node, node.node.devices)
    for event in events:
        found._events.put(event)
    return found


ABOUT: dict[str, Any] = {"at_s": 1.0, "job_id": "measured", "generation": 1}


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (
            GangEnded(**ABOUT, outcome=Outcome.FAILED, steps=3, message="out of memory"),
            "GangEnded: out of memory",
        ),
        (ResizeFailed(**ABOUT, message="no device"), "ResizeFailed: no device"),
    ],
)
def test_a_failure_is_told(tmp_path: Path, event: AnyEvent, told: str) -> None:
    with pytest.raises(MeasureFailed, match=told):
        gang(tmp_path, event).check()


def test_a_checkpoint_s_time_is_that_of_the_latest_report(tmp_path: Path) -> None:
    reports = [
        StepsReported(**ABOUT, steps=1, num_workers=1, save_s=save_s) for save_s in (None, 0.2, 0.3, None)
    ]
    found = gang(tmp_path, *reports)
    found.check()
    assert found.save_s == 0.3


def test_an_end_that_is_awaited_is_no_failure(tmp_path: Path) -> None:
    ended = GangEnded(**ABOUT, outcome=Outcome.SUCCEEDED, steps=3)
    assert gang(tmp_path, ended).await_end() is Outcome.SUCCEEDED
