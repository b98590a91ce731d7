"""`swell curve`: the throughput of a job in the terminal, and as files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import msgspec
import pytest
from tests.api.fake_control import FakeControl
from tests.cli.test_metrics import job  # noqa: F401 - a fixture

import swell
from swell.api.errors import ApiError
from swell.cli.main import run
from swell.model.job import Elasticity
from swell.model.throughput import EstimateSource, JobThroughput, ThroughputPoint


def point(workers: int, batch: int, step_s: float, source: EstimateSource, is_best: bool) -> ThroughputPoint:
    return ThroughputPoint(
        workers=workers,
        nodes=1,
        batch=batch,
        step_s=step_s,
        samples_per_s=batch / step_s,
        source=source,
        margin=0.09,
        is_best=is_best,
    )


@pytest.fixture
def found(control: FakeControl, job: str) -> JobThroughput:  # noqa: F811
    throughput = JobThroughput(
        job_id=job,
        kind="paced@400",
        devices_per_worker=1,
        most_workers=8,
        grad_bytes=400_000_000,
        points=(
            point(1, 64, 0.5, EstimateSource.TRIAL, True),
            point(1, 128, 1.25, EstimateSource.TRIAL, False),
            point(8, 64, 0.2, EstimateSource.INTERPOLATED, False),
            point(8, 128, 0.25, EstimateSource.EXTRAPOLATED, True),
        ),
        num_samples=61_440,
    )
    control.throughputs[job] = throughput
    return throughput


def test_the_best_batch_of_each_size_is_shown_and_what_it_was_made_from(
    found: JobThroughput, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["curve", found.job_id]) == 0
    shown = capsys.readouterr().out
    assert f"{found.job_id} on paced@400: up to 8 workers" in shown
    words = [line.split() for line in shown.splitlines()]
    assert ["1", "64", "128.0", "500.0", "ms", "1.00", "8", "min", "trial", "9%"] in words
    assert ["8", "128", "512.0", "250.0", "ms", "4.00", "2", "min", "extrapolated", "9%"] in words
    assert ["64", "128.0*", "320.0~"] in words and ["128", "102.4", "512.0?*"] in words
    assert ["64", "8", "min", "3", "min", "12", "s"] in words and ["128", "10", "min", "2", "min"] in words


def test_csv_and_json_have_each_point(found: JobThroughput, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["curve", found.job_id, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["workers"], row["batch"], row["source"]) for row in rows][-1] == ("8", "128", "extrapolated")
    assert len(rows) == len(found.points)
    assert [float(row["whole_s"]) for row in rows] == [480.0, 600.0, 192.0, 120.0]
    assert run(["curve", found.job_id, "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out, type=JobThroughput) == found


def test_a_job_without_a_curve_says_why(
    control: FakeControl,
    job: str,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["curve", job]) == 1
    assert "its trial run is not over; `swell explain" in capsys.readouterr().err
    assert run(["curve", "nothing"]) == 2
    assert "no job has the id or name 'nothing'" in capsys.readouterr().err
    with swell.connect() as client:
        script = tmp_path / "train.py"
        other = client.submit(script=script, elasticity=Elasticity.RESTART, estimate=60.0)
        with pytest.raises(ApiError, match="elasticity 'restart' it has no trial run"):
            client.curve(other)
        client.cancel(job)
        with pytest.raises(ApiError, match="it has ended"):
            client.curve(job)
