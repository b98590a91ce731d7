"""What is said of the jobs of a plan: what comes of them if the policy is followed from there on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.policies.snapshots import NOW_S, Job, best_effort
from tests.policies.snapshots import snapshot as snapshot_of

from swell.core import forecast
from swell.core.explanations import PlanOutlook
from swell.core.planner import Planner
from swell.model.cluster import Cluster
from swell.model.node import Node
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.placement.best_fit import BestFitPlacer
from swell.policies.equal_share import EqualShare
from swell.policies.policy import Policy

CURVE = {1: 1.0, 2: 2.0}
#: On two devices `short` and `long` run on one each, `last` waits; then `last` runs, and the last two of a
#: device grow: `long` has 100 steps left then, and `last` is through with its 50 when it has 50.
JOBS = [
    best_effort("short", CURVE, 100.0, submitted=-30.0),
    best_effort("long", CURVE, 200.0, submitted=-20.0),
    best_effort("last", CURVE, 50.0, submitted=-10.0),
]


def outlook(policy: Policy, jobs: list[Job] = JOBS) -> PlanOutlook:
    view = snapshot_of(jobs, 2)
    cluster = Cluster(nodes=(Node(name="n", devices=("n.0", "n.1"), kind="gpu"),))
    allocation = policy.decide(view)
    plan = Planner(policy, BestFitPlacer()).plan(
        view, allocation, np.zeros(len(jobs), dtype=bool), cluster, {}
    )
    return PlanOutlook(plan, view)


def test_jobs_grow_into_what_others_leave() -> None:
    told = outlook(EqualShare())
    assert [told.finish_s(row, None) for row in range(3)] == pytest.approx(
        [NOW_S + 100.0, NOW_S + 175.0, NOW_S + 150.0]
    )
    assert told.reason(2).endswith("; expected to start in 1 min 40 s")


def test_a_crowd_and_a_policy_that_fails_later_are_told_what_the_policy_expects() -> None:
    class Fails(EqualShare):
        def decide(self, snapshot: Snapshot) -> Allocation:
            if snapshot.num_jobs < 3:
                raise ValueError("two are too few")
            return super().decide(snapshot)

    crowd = [replace(JOBS[2], id=f"job{number}") for number in range(forecast.MOST_JOBS + 1)]
    for told in (outlook(Fails()), outlook(EqualShare(), crowd)):
        expected_s = told.plan.account.forecast.finish_s.tolist()
        assert [told.finish_s(row, None) for row in range(len(expected_s))] == pytest.approx(expected_s)
