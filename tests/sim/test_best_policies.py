from __future__ import annotations

import msgspec
import pytest
from tests.sim.worlds import job, run

from swell.sim.faults import NO_FAULTS
from swell.sim.html_report import BETTER, best_policies
from swell.sim.metrics import metrics_of
from swell.sim.report import PolicyResult, Shape, Truth


@pytest.fixture(scope="module")
def result() -> PolicyResult:
    truth = Truth(
        trace="log.csv",
        jobs=1,
        left_out=0,
        filled=(),
        profiles="law",
        resize_cost="none",
        noise=0.0,
        profile_error=0.0,
        node_mtbf_s=None,
        node_mttr_s=None,
        fault_rates=NO_FAULTS,
        seed=0,
        offline_bound=None,
        settings={},
        version="0",
    )
    outcome = run([job("a", submit_s=0.0, steps=10, deadline_s=1000.0)], policy="fifo")
    return PolicyResult(
        policy="a",
        cluster=Shape(nodes=1, devices_per_node=1, devices=1),
        truth=truth,
        metrics=metrics_of(outcome),
    )


def _with(result: PolicyResult, policy: str, **figures: float | None) -> PolicyResult:
    metrics = msgspec.structs.replace(result.metrics, **figures)
    return msgspec.structs.replace(result, policy=policy, metrics=metrics)


def test_the_best_of_a_column_is_marked_and_equals_are_marked_together(result: PolicyResult) -> None:
    results = [
        _with(result, "a", deadline_satisfaction=0.5, avg_jct_s=10.0, admitted_late=1),
        _with(result, "b", deadline_satisfaction=0.9, avg_jct_s=20.0, admitted_late=0),
        _with(result, "c", deadline_satisfaction=0.9, avg_jct_s=None, admitted_late=0),
    ]
    best = best_policies(results)
    assert best["MET"] == {"b", "c"} and best["AVG JCT"] == {"a"} and best["LATE"] == {"b", "c"}
    assert best["DONE"] == frozenset()  # all are equal


def test_one_policy_is_best_in_nothing(result: PolicyResult) -> None:
    assert not any(best_policies([result]).values())
    assert set(best_policies([result])) == set(BETTER)


def test_a_policy_that_completes_no_job_is_not_the_soonest(result: PolicyResult) -> None:
    refuses = msgspec.structs.replace(result.metrics, completed=0, makespan_s=1.0)
    results = [result, msgspec.structs.replace(result, policy="b", metrics=refuses)]
    assert "b" not in best_policies(results)["MAKESPAN"]
