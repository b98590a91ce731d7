"""`swell metrics`: curves in the terminal, and as files."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.fake_control import FakeControl

import swell
from swell.cli.main import run
from swell.cli.metrics import HEIGHT, LEAST_WIDTH, WORKERS_HEIGHT, chart
from swell.model.view import MetricCurve, MetricHistory
from swell.store.curves import CurvePoint
from swell.store.folder import StateFolder
from swell.tally import tally_of


def series(values: list[float | None], name: str = "loss", **changes: Any) -> MetricCurve:
    """A point a step."""
    steps = list(range(1, len(values) + 1))
    columns: dict[str, Any] = {
        "name": name,
        "reduction": "rank0",
        "first_step": steps,
        "last_step": steps,
        "at_s": [float(step) for step in steps],
        "num_workers": [1 + step % 4 for step in steps],
        "count": [int(value is not None) for value in values],
        "not_finite": [int(value is None) for value in values],
        "mean": values,
        "min": values,
        "max": values,
        "last": values,
    }
    return MetricCurve(**(columns | changes))


VALUES = st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(
    st.lists(st.lists(VALUES, min_size=1, max_size=50), min_size=1, max_size=9),
    st.integers(LEAST_WIDTH, 140),
    st.booleans(),
    st.booleans(),
)
def test_any_curves_fit_on_any_terminal(
    jobs: list[list[float | None]], width: int, is_unicode: bool, is_log: bool
) -> None:
    curves = {f"job-{number}": series(values) for number, values in enumerate(jobs)}
    lines = chart(curves, width, is_unicode, is_log)
    if all(value is None for values in jobs for value in values):
        assert lines == ["loss", "all values are NaN or infinite"]
        return
    assert len(lines) == 2 + HEIGHT + WORKERS_HEIGHT + len(jobs)
    assert all(len(line) <= width for line in lines[: -len(jobs)])
    if not is_unicode:
        assert "".join(lines).isascii()


# ---------------------------------------------------------------- the program
@pytest.fixture
def job(control: FakeControl, folder: StateFolder, script: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SWELL_STATE", str(folder.path))
    with swell.connect() as client:
        job_id = str(client.submit(script=script, global_batch=64, steps=10))
    for name in ("loss", "<b>$x_1$</b>"):
        pairs = [(1, 2.0), (2, 1.0), (3, math.nan), (4, 0.5)]
        tallies = [tally_of([pair], num_workers=1 + pair[0] // 2) for pair in pairs]
        points = [
            CurvePoint(float(at), 1, at, tally) for at, tally in enumerate(tallies) if tally is not None
        ]
        control.curves[name] = points
    return job_id


def test_csv_has_a_row_for_each_point(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", job, "--csv", "--name", "<b>$x_1$</b>"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["job"], row["name"]) for row in rows] == [(job, "<b>$x_1$</b>")] * 4
    assert [row["mean"] for row in rows] == ["2.0", "1.0", "", "0.5"]
    assert [row["num_workers"] for row in rows] == ["1", "2", "2", "3"]


def test_json_has_what_the_api_answers(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", job, "--json"]) == 0
    (found,) = msgspec.json.decode(capsys.readouterr().out)
    history = msgspec.convert({"series": found["series"]}, MetricHistory)
    with swell.connect() as client:
        assert (found["job"], history) == (job, client.metrics(job))


def test_curves_are_drawn_one_for_each_metric(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", job]) == 0
    shown = capsys.readouterr().out
    assert "<b>$x_1$</b>\n" in shown and "1 to 3 workers; 1 values are NaN or infinite" in shown
    assert run(["metrics", job, job, "--log"]) == 0
    assert "loss, logarithmic" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--name", "foo"], "has no metric 'foo'; it has <b>$x_1$</b>, loss"),
        (["--json", "--csv"], "choose one of --json, --csv and --tensorboard"),
    ],
)
def test_what_is_wrong_is_said(
    job: str, capsys: pytest.CaptureFixture[str], options: list[str], error: str
) -> None:
    assert run(["metrics", job, *options]) == 2
    assert error in capsys.readouterr().err


def test_a_job_without_values_says_how_they_come(
    job: str, control: FakeControl, capsys: pytest.CaptureFixture[str]
) -> None:
    control.curves.clear()
    assert run(["metrics", job]) == 0
    assert "run.report(NAME=...)" in capsys.readouterr().out


def test_tensorboard_has_each_point_once_however_often_it_is_written(job: str, tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for _ in range(2):
        assert run(["metrics", job, "--tensorboard", str(tmp_path / "board")]) == 0
    (folder,) = (tmp_path / "board").iterdir()
    found = events.EventAccumulator(str(folder)).Reload().Scalars("<b>$x_1$</b>")
    assert [one.value for one in found if one.value == one.value] == [2.0, 1.0, 0.5] and len(found) == 4
