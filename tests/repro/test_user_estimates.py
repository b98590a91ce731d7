"""Errors of users' estimates as a platform's records tell them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.repro.test_overheads import FakeRecords, job

from swell.model.view import JobView
from swell_papers.experiment import Context
from swell_papers.platform_records import user_estimates

EXPERIMENT = user_estimates(name="estimates", title="Estimates", assumed_share=0.1)


def estimated(name: str, elasticity: str, estimate_s: float | None, alone_s: float | None) -> JobView:
    return msgspec.structs.replace(job(name), elasticity=elasticity, estimate_s=estimate_s, alone_s=alone_s)


def test_errors_are_over_what_was_measured_by_kind_of_job() -> None:
    jobs = [
        estimated("a", "live", 109.0, 100.0),
        estimated("b", "live", 200.0, 100.0),
        estimated("c", "live", None, 100.0),
        estimated("d", "restart", 60.0, 100.0),
        estimated("e", "restart", 60.0, None),  # has not ended
    ]
    [shown] = EXPERIMENT.run(Context(data=Path("none"), records=FakeRecords(jobs))).tables
    paper, live, restart = shown.rows
    assert paper[3:] == (0.5, 1.0, 1.0, 1.0, 1.0)
    assert live[1] == 2 and live[2] == pytest.approx(54.5)
    assert list(live[3:]) == [0.0, 0.5, 0.5, 0.5, 1.0]
    assert restart[1] == 1 and restart[2] == pytest.approx(-40.0)


def test_without_records_only_the_assumption_is_shown() -> None:
    [shown] = EXPERIMENT.run(Context(data=Path("none"))).tables
    assert [row[1] for row in shown.rows] == [None, None, None]
