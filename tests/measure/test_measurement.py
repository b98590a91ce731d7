"""A whole measurement, with real workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.executors.local.devices import parse_devices
from swell.executors.local.launch import find_agent
from swell.measure.measurement import measure

pytest.importorskip("torch")


@pytest.mark.soak  # 40 s of CPU time
@pytest.mark.parametrize(("devices", "number"), [("cpu:2", 12), ("cpu:1", 6)])
def test_a_machine_is_measured(tmp_path: Path, devices: str, number: int) -> None:
    (node,) = parse_devices(devices)
    told = list[str]()
    found = measure(node, tmp_path, told.append)
    assert len(found.measures) == number, found
    assert len({one.what for one in found.measures}) == number
    assert all(0 < one.measured_s < 60 for one in found.measures if "time taken" not in one.what)
    assert [one.what for one in found.measures if "all-reduce" in one.what and "gloo" not in one.what] == []
    assert (found.num_repeated, found.num_lost) == (0, 0), "a kill and a checkpoint lose no step"
    assert found.versions["torch"]
    assert told[0].startswith("a trial run")
    assert find_agent(tmp_path / "state") is None, "no process is left"
