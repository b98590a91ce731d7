"""`swell doctor --measure`: the table and the JSON of a measurement, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.test_program import fails

from swell.executors.local.devices import LocalNode
from swell.measure import measurement as measuring
from swell.measure.measurement import DeviceMeasure

pytest.importorskip("torch")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[LocalNode]:
    """What was measured in place of a minute of real workers: the node of each measurement."""
    nodes = list[LocalNode]()

    def measure(node: LocalNode, folder: Path, tell: Callable[[str], None]) -> list[DeviceMeasure]:
        assert folder.is_dir()
        nodes.append(node)
        tell("nothing")
        return [DeviceMeasure("step of 1 worker", 0.06, 0.05), DeviceMeasure("a kill", 0.002)]

    monkeypatch.setattr(measuring, "measure", measure)
    return nodes


def test_a_measurement_is_a_table(here: Run, measured: list[LocalNode]) -> None:
    done = here("doctor", "--measure", "--devices", "paced:4@200")
    assert done.returncode == 0, done
    assert len(measured[0].node.devices) == 4
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["WHAT", "MEASURED", "EXPECTED"]
    assert lines[1][-4:] == ["0.060", "s", "0.050", "s"]
    assert lines[2] == ["a", "kill", "2.000", "ms", "-"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--measure", "--devices", "gpu"), "--devices: "),
        (("--measure", "--devices", "none"), "that is no device; name devices"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    here: Run,
    measured: list[LocalNode],
    words: tuple[str, ...],
    part: str,
) -> None:
    fails(here("doctor", *words), 2, part)
    assert measured == []
