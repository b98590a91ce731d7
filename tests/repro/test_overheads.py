from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from swell.model.resize import Resize, Verdict
from swell.model.view import ClusterView, JobView, NodeView, Story
from swell_papers.experiment import Context
from swell_papers.findings import Findings
from swell_papers.platform_records import overheads

EXPERIMENT = overheads(
    name="12",
    title="Figure 12",
    profiling_s={"ResNet50": 549.8},
    resizes_s={"1->2": (1.5, 3.5), "8->16": (2.0, 4.0)},
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


def run(records: FakeRecords | None) -> Findings:
    return EXPERIMENT.run(Context(data=Path("none"), records=records))


def test_without_records_nothing_is_ours_and_it_says_so() -> None:
    findings = run(None)
    (told,) = findings.truth
    assert told.startswith("no records of a platform were given (--state), so there are no figures of ours;")
    profiling, resizes = findings.tables
    assert profiling.rows == (("ResNet50", 549.8, None, None),)
    assert resizes.rows == (
        ("1->2", 1.5, 3.5, None, None, None, None),
        ("8->16", 2.0, 4.0, None, None, None, None),
    )


def test_trial_runs_and_resizes_that_took_place_are_counted() -> None:
    odd = [resize(1, 2, None), resize(1, 2, 9.0, Verdict.FAILED), resize(1, 2, 9.0, Verdict.UNDER_WAY)]
    known = [resize(1, 2, 0.1), resize(1, 2, 0.3), resize(4, 2, 0.2)]
    profiling, resizes, of_models = run(FakeRecords([job("a", *odd), job("b", *known)])).tables
    assert profiling.rows[1:] == (("a", None, 3.0, 1), ("b", None, 3.0, 1))
    *exact, median_s, most_s, decided_s = resizes.rows[0]
    assert (*exact, most_s, decided_s) == ("1->2", 1.5, 3.5, 2, 0.3, 5.0)
    assert median_s == pytest.approx(0.2)
    assert resizes.rows[1] == ("4->2", None, None, 1, 0.2, 0.2, 5.0)
    assert [row[:3] for row in of_models.rows] == [("b", "1->2", 2), ("b", "4->2", 1)]
    assert list(of_models.rows[0][3:]) == pytest.approx([0.1, 0.2, 0.3, 5.0])


def test_the_platform_is_named() -> None:
    (source,) = run(FakeRecords([job("a")])).truth
    told = "records of a platform of 8 devices (cpu) with 1 jobs, policy fifo, swell 1.2;"
    assert source.startswith(told)
