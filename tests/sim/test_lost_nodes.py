"""A promise that is to survive the loss of a node does, whichever node and whenever."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.worlds import job

from swell.model.event import AnyEvent, NodeJoined, NodeLost
from swell.model.job import Phase
from swell.scheduler import new_core
from swell.settings import Settings
from swell.sim.change_cost import change_cost
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.outcome import SimOutcome
from swell.sim.simulate import cluster, simulate
from swell.sim.world import Scenario

NODES, DEVICES = 3, 2
RATES = {1: 1.0, 2: 1.8, 4: 3.0}


def run(jobs: list[SimJob], others: list[AnyEvent], survive_nodes: int) -> SimOutcome:
    settings = Settings(
        given={
            "min_hold_s": 0.0,
            "report_plan_s": 10.0,
            "checkpoint_interval_s": 20.0,
            "lease_s": 5.0,
            "lease_margin_s": 2.0,
        },
        parameters={"elasticflow.survive_nodes": float(survive_nodes), "elasticflow.promises_by": "work"},
    )
    scenario = Scenario(
        nodes=cluster(NODES, DEVICES, "gpu"),
        jobs=jobs,
        cost=change_cost("2", NODES * DEVICES),
        timings=GangTimes(
            checkpoint_interval_s=settings["checkpoint_interval_s"], notice_s=settings.leases.wait_s
        ),
        others=others,
    )
    return simulate(new_core("elasticflow", settings), scenario)


@st.composite
def several_jobs(draw: st.DrawFn) -> list[SimJob]:
    jobs = []
    for number in range(draw(st.integers(1, 8))):
        steps, slack = draw(st.integers(30, 400)), draw(st.sampled_from([1.1, 1.3, 1.6, 2.0, 3.0]))
        one = job(
            f"j{number}",
            float(draw(st.integers(0, 300))),
            steps,
            deadline_s=40.0 + slack * steps,
            rates=RATES,
        )
        profile = msgspec.structs.replace(one.profile, start_s=1.0)
        jobs.append(dataclasses.replace(one, profile=profile))
    return sorted(jobs, key=lambda one: one.submit_s)


def failure(node: int, at_s: float, down_s: float) -> list[AnyEvent]:
    gone = cluster(NODES, DEVICES, "gpu")[node]
    return [NodeLost(at_s=at_s, name=gone.name), NodeJoined(at_s=at_s + down_s, node=gone)]


@pytest.mark.slow
@given(
    jobs=several_jobs(),
    node=st.integers(0, NODES - 1),
    at_s=st.floats(0.0, 900.0),
    down_s=st.sampled_from([30.0, 300.0, 10_000.0]),
)
def test_the_loss_of_one_node_breaks_no_promise(
    jobs: list[SimJob], node: int, at_s: float, down_s: float
) -> None:
    for one in run(jobs, failure(node, at_s, down_s), survive_nodes=1).jobs:
        assert not one.is_promised or one.is_kept, (one.id, one.why)


def test_without_a_reserve_the_loss_of_a_node_breaks_a_promise() -> None:
    """Six devices are promised for all of the time that there is."""
    jobs = [job(f"j{number}", steps=400, deadline_s=515.0, rates={2: 1.0}) for number in range(NODES)]
    lost = failure(0, 200.0, 10_000.0)
    ends = run(jobs, lost, survive_nodes=0).jobs
    assert [one.is_kept for one in ends].count(False) == 1 and all(one.is_promised for one in ends)
    ends = run(jobs, lost, survive_nodes=1).jobs
    assert [one.phase for one in ends].count(Phase.REJECTED) >= 1
    assert all(one.is_kept for one in ends if one.is_promised)


def test_while_a_node_is_lost_nothing_is_promised_that_needs_the_others() -> None:
    """Its reserve is in use: the next loss could not be survived."""
    first = [job(f"j{number}", steps=200, deadline_s=320.0, rates={2: 1.0}) for number in range(NODES - 1)]
    late = job("late", submit_s=60.0, steps=50, deadline_s=400.0, rates={2: 1.0})
    lost = failure(0, 50.0, 10_000.0)
    assert {one.id: one.is_promised for one in run([*first, late], [], 1).jobs}["late"] is True
    outcome = {one.id: one for one in run([*first, late], lost, 1).jobs}
    assert all(outcome[one.id].is_kept for one in first)
    assert outcome["late"].phase is Phase.REJECTED
