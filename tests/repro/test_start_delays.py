"""Delays of starts and growths as a platform's records tell them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.repro.test_overheads import FakeRecords, job, resize

from swell.model.resize import Verdict
from swell_papers.experiment import Context
from swell_papers.findings import Findings
from swell_papers.platform_records import start_delays

EXPERIMENT = start_delays(name="delays", title="Delays", assumed_s=15.0)


def run(records: FakeRecords | None) -> Findings:
    return EXPERIMENT.run(Context(data=Path("none"), records=records))


def test_without_records_only_the_assumption_is_shown() -> None:
    [shown] = run(None).tables
    assert [(row[0], row[1], row[2]) for row in shown.rows] == [
        ("start", 15.0, None),
        ("growth, during which the old gang trains", 15.0, None),
    ]


def test_starts_and_growths_that_took_place_are_counted() -> None:
    growths = [resize(1, 2, 0.1), resize(2, 4, 0.1), resize(4, 2, 0.1), resize(1, 2, 0.1, Verdict.FAILED)]
    slow = msgspec.structs.replace(growths[1], wait_s=7.0)
    first = msgspec.structs.replace(job("a", growths[0], slow, *growths[2:]), start_s=2.0)
    second = msgspec.structs.replace(job("b"), start_s=40.0)
    [shown] = run(FakeRecords([first, second])).tables
    start, growth = shown.rows
    assert start[2:] == pytest.approx((2, 5.8, 21.0, 36.2, 40.0))
    assert growth[2:] == pytest.approx(
        (2, 5.2, 6.0, 6.8, 7.0)
    )  # one that shrinks and one that failed are left out
