"""Gangs that share the cores of a node, by pen and paper."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.sim.neighbours import FixedShares, Schedule, ends_s, lone, share_cores
from tests.sim.worlds import job

from swell.core.platform_core import PlatformCore
from swell.model.job import Phase
from swell.sim.gangs import GangTimings
from swell.sim.job import SimJob
from swell.sim.loss_curves import ExponentialApproach, JobLoss
from swell.sim.segments import SegmentLog

CURVE = ExponentialApproach(2.0, 0.5, 25.0)


def test_ten_equal_jobs_on_two_cores_go_at_a_fifth_of_their_speed() -> None:
    outcome = share_cores([lone(f"job{number}") for number in range(10)])
    assert set(ends_s(outcome).values()) == {500.0}


def test_shares_are_weights() -> None:
    ends = ends_s(
        share_cores([lone("a", 90), lone("b", 90)], {"a": [(0.0, 0.75)], "b": [(0.0, 0.25)]}, cores=1.0)
    )
    assert ends == pytest.approx({"a": 120.0, "b": 180.0})


def test_a_share_that_changes_counts_from_that_moment_on() -> None:
    """b: 40 s at 1/2, then at 1/5 until a has done its 100 steps after 100 s more, then alone."""
    schedule: Schedule = {"b": [(40.0, 0.25)]}
    ends = ends_s(share_cores([lone("a", 100), lone("b", 100)], schedule, cores=1.0))
    assert ends == pytest.approx({"a": 140.0, "b": 140.0 + 100 - 20 - 20})


def test_a_gang_over_two_nodes_goes_as_its_slower_part_does() -> None:
    """Three workers have a node for themselves. The fourth gets 0.3 of the 0.5 cores that it needs."""
    wide = job("wide", steps=96, rates={4: 4.0}, cores_per_worker=0.5)
    jobs = [wide, lone("narrow", 92, cores_per_worker=1.5)]
    outcome = share_cores(jobs, {"wide": [(0.0, 0.25)]}, cores=1.5, nodes=2, devices=3)
    assert ends_s(outcome) == pytest.approx({"wide": 40.0, "narrow": 100.0})


@settings(max_examples=fewer_if_quick(40), deadline=None)
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


def test_a_pause_is_told_though_its_end_changes_the_pace() -> None:
    """The job grows when the other ends, and is slower from the end of its pause on: two want one core."""
    told: list[float] = []

    def listen(core: PlatformCore) -> None:
        told.extend(view.resize_pause_s for view in core.ended_views() if view.id == "grows")

    grows = job("grows", steps=100, rates={1: 1.0, 2: 1.8})
    outcome = share_cores([lone("first", 20), grows], cores=1.0, devices=2, cost="3", listen=listen)
    assert next(one for one in outcome.jobs if one.id == "grows").num_resizes == 1
    assert told == [3.0]


# ---------------------------------------------------------------- what the head hears
def learning(name: str, steps: int = 100, noise: float = 0.0, **fields: Any) -> SimJob:
    return lone(name, steps, loss=JobLoss(CURVE, noise, (7,)), **fields)


def test_reports_tell_loss_and_cpu_time_and_a_policy_sees_them() -> None:
    """Of one core a has 3/8 and b 5/8. Both report when a step is done, and not twice in half a second."""
    jobs = [learning("a"), learning("b")]
    share_cores(jobs, {"a": [(0.0, 0.6), (60.25, 0.6)]}, cores=1.0, timings=GangTimings(report_s=0.5))
    seen = next(snapshot for snapshot in FixedShares.seen if snapshot.now_s == 60.25)
    learnt = seen.learning
    assert learnt is not None
    assert learnt.node.tolist() == [0, 0] and learnt.cores.tolist() == [1.0, 1.0]
    assert learnt.share[0] == 0.6 and math.isnan(learnt.share[1])
    assert learnt.cpu_s.tolist() == pytest.approx([22.0, 37.0])
    assert learnt.value.tolist() == [CURVE.value(22.0), CURVE.value(37.0)]
    assert learnt.value_s.tolist() == pytest.approx([22.0 / 0.375, 37.0 / 0.625])


def test_what_is_believed_of_speed_is_what_neighbours_leave_however_often_jobs_report() -> None:
    """A job makes a step in ten seconds, and would report twenty times in them."""
    told_s: list[float] = []

    def listen(core: PlatformCore) -> None:
        if core.now_s > 400.0:
            told_s.extend(view.estimated_finish_s or 0.0 for view in core.views() if not view.phase.is_end)

    jobs = [lone(f"job{at}", 60) for at in range(10)]
    share_cores(jobs, cores=1.0, timings=GangTimings(report_s=0.5), listen=listen)
    assert told_s and told_s == pytest.approx([600.0] * len(told_s), rel=0.01)


def test_a_metric_that_rises_is_told_by_its_name_and_seen_with_its_sign_turned() -> None:
    plain = lone("a", loss=JobLoss(ExponentialApproach(0.1, 0.9, 25.0)))
    rising = replace(plain, spec=msgspec.structs.replace(plain.spec, metric="accuracy", metric_rises=True))
    metrics: list[dict[str, float]] = []

    def listen(core: PlatformCore) -> None:
        metrics.extend(view.metrics for view in core.views())

    share_cores([rising], {"a": [(60.25, 1.0)]}, timings=GangTimings(report_s=0.5), listen=listen)
    value = ExponentialApproach(0.1, 0.9, 25.0).value(60.0)
    assert {"accuracy": value} in metrics
    seen = next(snapshot for snapshot in FixedShares.seen if snapshot.now_s == 60.25)
    assert seen.learning is not None and seen.learning.value.tolist() == [-value]


def test_two_runs_with_noise_are_equal_to_the_byte() -> None:
    jobs = [learning(f"j{at}", 50 + 10 * at, noise=0.1, submit_s=7.0 * at) for at in range(6)]
    schedule = {"j1": [(30.0, 0.25)], "j3": [(50.0, 0.1), (80.0, 1.0)]}
    timings = GangTimings(report_s=1.0)
    first, second = (
        msgspec.json.encode(tuple(share_cores(jobs, schedule, timings=timings).jobs)) for _ in range(2)
    )
    assert first == second
