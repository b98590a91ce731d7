"""Gangs that share the cores of a node, by pen and paper."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.sim.neighbours import FixedShares, ends_s, lone, share_cores
from tests.sim.worlds import head, job

from swell.model.job import Phase
from swell.sim.change_cost import change_cost
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.loss_curves import ExponentialApproach, JobLoss
from swell.sim.outcome import SegmentLog
from swell.sim.simulate import cluster, simulate
from swell.sim.world import Scenario

CURVE = ExponentialApproach(2.0, 0.5, 25.0)


def test_shares_are_weights() -> None:
    ends = ends_s(
        share_cores([lone("a", 90), lone("b", 90)], {"a": [(0.0, 0.75)], "b": [(0.0, 0.25)]}, cores=1.0)
    )
    assert ends == pytest.approx({"a": 120.0, "b": 180.0})


@settings(max_examples=share_of_examples(0.25), deadline=None)
@given(
    steps=st.lists(st.integers(10, 300), min_size=1, max_size=10),
    demands=st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0]), min_size=10, max_size=10),
    starts_s=st.lists(st.integers(0, 200), min_size=10, max_size=10),
    shares=st.lists(
        st.lists(
            st.tuples(st.integers(0, 300).map(float), st.sampled_from([0.05, 0.3, 1.0])), max_size=3
        ).map(sorted),
        min_size=10,
        max_size=10,
    ),
    cores=st.sampled_from([1.0, 2.0, 3.5]),
)
def test_whatever_the_shares_each_job_does_its_work_and_no_core_is_idle_that_is_wanted(
    steps: list[int],
    demands: list[float],
    starts_s: list[int],
    shares: list[list[tuple[float, float]]],
    cores: float,
) -> None:
    jobs = [
        lone(f"job{at}", num, submit_s=float(starts_s[at]), cores_per_worker=demands[at])
        for at, num in enumerate(steps)
    ]
    schedule = {f"job{at}": changes for at, changes in enumerate(shares)}
    outcome = share_cores(jobs, schedule, cores=cores, log=SegmentLog())
    pieces = [(one, ended.cores_per_worker) for ended in outcome.jobs for one in ended.segments]
    for ended, num in zip(outcome.jobs, steps, strict=True):
        assert ended.phase is Phase.SUCCEEDED
        assert sum((one.until_s - one.from_s) * one.rate_per_s for one in ended.segments) == pytest.approx(
            num
        )
    moments = sorted({at_s for one, _ in pieces for at_s in (one.from_s, one.until_s)})
    for at_s in ((since + until) / 2 for since, until in pairwise(moments) if until - since > 1e-6):
        busy = [
            (one.rate_per_s * demand, demand) for one, demand in pieces if one.from_s <= at_s < one.until_s
        ]
        assert sum(used for used, _ in busy) == pytest.approx(min(cores, sum(demand for _, demand in busy)))


# ---------------------------------------------------------------- what the head hears
def learning(name: str, steps: int = 100, noise: float = 0.0, **fields: Any) -> SimJob:
    return lone(name, steps, loss=JobLoss(CURVE, noise, (7,)), **fields)


def test_reports_tell_loss_and_cpu_time_and_a_policy_sees_them() -> None:
    """Of one core a has 3/8 and b 5/8. Both report when a step is done, and not twice in half a second."""
    jobs = [learning("a"), learning("b")]
    share_cores(jobs, {"a": [(0.0, 0.6), (60.25, 0.6)]}, cores=1.0, timings=GangTimes(report_s=0.5))
    seen = next(snapshot for snapshot in FixedShares.seen if snapshot.now_s == 60.25)
    learnt = seen.learning
    assert learnt is not None
    assert learnt.node.tolist() == [0, 0] and learnt.cores.tolist() == [1.0, 1.0]
    assert learnt.share[0] == 0.6 and math.isnan(learnt.share[1])
    assert learnt.cpu_s.tolist() == pytest.approx([22.0, 37.0])
    assert learnt.value.tolist() == [CURVE.value(22.0), CURVE.value(37.0)]
    assert learnt.value_s.tolist() == pytest.approx([22.0 / 0.375, 37.0 / 0.625])


def test_two_runs_with_noise_are_equal_to_the_byte() -> None:
    jobs = [learning(f"j{at}", 50 + 10 * at, noise=0.1, submit_s=7.0 * at) for at in range(6)]
    schedule = {"j1": [(30.0, 0.25)], "j3": [(50.0, 0.1), (80.0, 1.0)]}
    timings = GangTimes(report_s=1.0)
    first, second = (
        msgspec.json.encode(tuple(share_cores(jobs, schedule, timings=timings).jobs)) for _ in range(2)
    )
    assert first == second


def test_a_job_starts_when_the_promise_ends_that_left_its_devices_idle() -> None:
    """While it stood, no job could make use of more of the devices that have a core each."""
    scenario = Scenario(
        nodes=cluster(1, 4, "gpu", cores=2.0),
        jobs=[job("promised", deadline_s=500.0, rates={1: 1.0}), job("wide", 10.0, rates={4: 4.0})],
        cost=change_cost("none", 4),
    )
    promised, wide = simulate(head("unified"), scenario).jobs
    assert promised.is_kept
    assert wide.phase is Phase.SUCCEEDED and wide.start_s == promised.end_s
