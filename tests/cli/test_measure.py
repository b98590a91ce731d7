"""`swell doctor --measure`: the table, the page and the JSON of a measurement, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.test_program import fails
from tests.measure.measurements import measurement

from swell.executors.local.devices import LocalNode
from swell.measure import measurement as measuring
from swell.measure.measured_gang import MeasureFailed
from swell.measure.measurement import DeviceMeasurement

pytest.importorskip("torch")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[LocalNode]:
    """What was measured in place of a minute of real workers: the node of each measurement."""
    nodes = list[LocalNode]()

    def measure(node: LocalNode, folder: Path, tell: Callable[[str], None]) -> DeviceMeasurement:
        assert folder.is_dir()
        nodes.append(node)
        tell("nothing")
        return measurement()

    monkeypatch.setattr(measuring, "measure", measure)
    return nodes


def test_a_measurement_is_a_table_and_a_page(here: Run, measured: list[LocalNode], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    done = here("doctor", "--measure", "--devices", "paced:4@200", "--out", page)
    assert done.returncode == 0, done
    assert len(measured[0].node.devices) == 4
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["WHAT", "MEASURED", "EXPECTED", "MEASURED", "/", "EXPECTED"]
    assert lines[1].split()[-5:] == ["0.060", "s", "0.050", "s", "1.20"]
    assert "Several hosts were not measured: all workers were on this machine." in lines
    assert lines[-1] == f"the page is in {page}"
    assert "| step of 1 worker | 0.060 s | 0.050 s | 1.20 |" in page.read_text()


def test_a_measurement_as_json(here: Run, measured: list[LocalNode]) -> None:
    found = json.loads(here("doctor", "--measure", "--devices", "paced:2@200", "--json").stdout)
    assert found["measures"][0] == {"what": "step of 1 worker", "measured_s": 0.06, "expected_s": 0.05}
    assert found["conditions"]["torch"] == "2.13.0"
    assert found["not_measured"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--out", "page.md"), "--out goes with --measure"),
        (("--measure", "--join", "10.9.0.1"), "--measure is about this machine alone"),
        (("--measure", "--name", "n1"), "--measure is about this machine alone"),
        (("--measure", "--devices", "gpu"), "--devices: "),
        (("--measure", "--devices", "none"), "there is nothing to measure"),
        (("--measure", "--devices", "paced:2@9", "--out", "missing/page.md"), "there is no folder"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    here: Run,
    measured: list[LocalNode],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: tuple[str, ...],
    part: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    fails(here("doctor", *words), 2, part)
    assert measured == []


def test_a_measurement_that_fails_says_why(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_: object) -> DeviceMeasurement:
        raise MeasureFailed("GangEnded: out of memory")

    monkeypatch.setattr(measuring, "measure", measure)
    done = here("doctor", "--measure", "--devices", "paced:2@200")
    fails(done, 1, "--measure: GangEnded: out of memory")
