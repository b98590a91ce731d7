"""What a platform's records tell of trial runs, resizes, starts and estimates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec
import pytest

from swell.api.client import Client
from swell.model.resize import Resize, Verdict
from swell.model.view import ClusterView, JobView, NodeView, Story
from swell_papers.elasticflow import PAPER as ELASTICFLOW
from swell_papers.experiment import Context, Study
from swell_papers.findings import Cell
from swell_papers.hu import PAPER as HU

EXPERIMENTS = {one.name: one for one in (*ELASTICFLOW.experiments, *HU.experiments)}
OVERHEADS, DELAYS, ESTIMATES = (
    cast(Study[None], EXPERIMENTS[name]) for name in ("12", "delays", "estimates")
)


def resize(before: int, after: int, cost_s: float | None, verdict: Verdict = Verdict.PAID) -> Resize:
    return Resize(
        at_s=0.0,
        before=before,
        after=after,
        verdict=verdict,
        reason_code="",
        reason="",
        expected_cost_s=None,
        expected_gain_s=None,
        wait_s=5.0,
        cost_s=cost_s,
        gain_s=None,
        held_s=1.0,
        is_held=False,
        rate_before_per_s=None,
        rate_after_per_s=None,
    )


def job(name: str, *resizes: Resize) -> JobView:
    plain = {field.name: None for field in msgspec.structs.fields(JobView) if field.required}
    return JobView(**{**plain, "id": name, "name": name, "resize_history": resizes})  # type: ignore[arg-type]


@dataclass
class FakeRecords:
    views: list[JobView]

    def jobs(self) -> list[JobView]:
        return self.views

    def stories(self, job_id: str) -> list[Story]:
        codes = (
            ("submitted", 10.0),
            ("profiling", 12.0),
            ("profiled", 15.0),
            ("profiling", 20.0),
            ("profiled", 20.01),
        )
        return [Story(at_s=at_s, code=code, text="") for code, at_s in codes]

    def cluster(self) -> ClusterView:
        node = NodeView(name="n", rack="r", kind="cpu", is_borrowed=False, devices={"c0": None})
        return ClusterView(
            version="1.2",
            policy="fifo",
            now_s=0.0,
            started_s=0.0,
            nodes=(node,),
            num_devices=8,
            num_free=8,
            num_stale_reports=0,
            journal_bytes=0,
        )


def told(study: Study[None], jobs: Sequence[JobView] | None) -> list[tuple[Cell, ...]]:
    records = None if jobs is None else cast(Client, FakeRecords(list(jobs)))
    (shown,) = study.run(Context(data=Path("none"), records=records)).tables
    return list(shown.rows)


def test_without_records_nothing_is_ours_and_it_says_so() -> None:
    (truth,) = OVERHEADS.run(Context(data=Path("none"))).truth
    assert truth.startswith("no records of a platform were given (--state), so there are no figures of ours;")
    nothing = (0, None, None, None)
    assert told(OVERHEADS, None)[0] == ("trial run, ResNet50", "549.76", *nothing)
    assert told(OVERHEADS, None)[-1] == ("pause, 8->8", "0.69 to 3.21", *nothing)
    assert {row[1:] for row in told(DELAYS, None)} == {("15", *nothing)}
    assert {row[1:] for row in told(ESTIMATES, None)} == {("uniform, up to 10", *nothing)}


def test_trial_runs_and_resizes_that_took_place_are_counted() -> None:
    odd = [resize(1, 2, None), resize(1, 2, 9.0, Verdict.FAILED), resize(1, 2, 9.0, Verdict.UNDER_WAY)]
    known = [resize(1, 2, 0.1), resize(1, 2, 0.3), resize(4, 2, 0.2)]
    rows = {row[0]: row[1:] for row in told(OVERHEADS, [job("a", *odd), job("b", *known)])}
    assert rows["trial run, a"] == rows["trial run, b"] == (None, 1, 3.0, 3.0, 3.0)
    assert rows["pause, 1->2"][:2] == ("1.82 to 3.90", 2)
    assert rows["pause, 1->2"][2:] == pytest.approx((0.2, 0.28, 0.3))
    assert rows["pause, 4->2"] == rows["pause, 4->2, b"] == (None, 1, 0.2, 0.2, 0.2)
    assert "pause, 1->2, a" not in rows


def test_starts_and_growths_that_took_place_are_counted() -> None:
    growths = [resize(1, 2, 0.1), resize(2, 4, 0.1), resize(4, 2, 0.1), resize(1, 2, 0.1, Verdict.FAILED)]
    slow = msgspec.structs.replace(growths[1], wait_s=7.0)
    first = msgspec.structs.replace(job("a", growths[0], slow, *growths[2:]), start_s=2.0)
    start, growth = told(DELAYS, [first, msgspec.structs.replace(job("b"), start_s=40.0)])
    assert start[2:] == pytest.approx((2, 21.0, 36.2, 40.0))
    assert growth[2:] == pytest.approx((2, 6.0, 6.8, 7.0)), "neither one that shrinks nor one that failed"


def test_errors_of_estimates_are_over_what_was_measured_by_kind_of_job() -> None:
    def estimated(name: str, elasticity: str, estimate_s: float | None, alone_s: float | None) -> JobView:
        changes = {"elasticity": elasticity, "estimate_s": estimate_s, "alone_s": alone_s}
        return msgspec.structs.replace(job(name), **changes)

    jobs = [
        estimated("a", "live", 109.0, 100.0),
        estimated("b", "live", 200.0, 100.0),
        estimated("c", "live", None, 100.0),
        estimated("d", "restart", 60.0, 100.0),
        estimated("e", "restart", 60.0, None),  # has not ended
    ]
    live, restart = told(ESTIMATES, jobs)
    assert live[2:] == pytest.approx((2, 54.5, 90.9, 100.0))
    assert restart[2:] == pytest.approx((1, 40.0, 40.0, 40.0))
