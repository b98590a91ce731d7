"""A node is lost, and the head hears of it later: until then its gang stands still, and nothing is told."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.sim.worlds import head, job

from swell.model.event import AnyEvent, NodeLost, StepsReported, WorkersLost
from swell.sim.change_cost import constant
from swell.sim.gangs import GangTimes
from swell.sim.pool import NodeInterval, Pool
from swell.sim.world import Scenario, SimulatedWorld

RATES = {1: 1.0, 2: 2.0}
STEPS = 100


def told(pool: Pool, timings: GangTimes, rates: dict[int, float] = RATES) -> list[AnyEvent]:
    """All that a head hears that has one job, which is submitted at once."""
    world = SimulatedWorld(
        Scenario(
            nodes=[],
            jobs=[job("only", steps=STEPS, rates=rates)],
            cost=constant(0.0),
            timings=timings,
            pool=pool,
        )
    )
    core = head("equal_share", min_hold_s=0.0)
    events: list[AnyEvent] = []
    while batch := world.next_events():
        events += batch
        for command in core.handle(batch):
            world.perform(command)
    return events


def pool_of(*intervals: tuple[str, float, float]) -> Pool:
    return Pool(tuple(NodeInterval(*one) for one in intervals), "a log", kind="gpu")


def test_a_loss_is_heard_of_later_and_nothing_is_trained_meanwhile() -> None:
    pool = pool_of(("a", 0.0, math.inf), ("b", 0.0, 10.0))
    events = told(pool, GangTimes(report_s=1.0, notice_s=6.0, grain_steps=1.0))
    lost = [event for event in events if isinstance(event, NodeLost | WorkersLost)]
    assert [(type(event), event.at_s) for event in lost] == [(NodeLost, 16.0), (WorkersLost, 16.0)]
    assert not [event for event in events if isinstance(event, StepsReported) and 10.0 < event.at_s < 16.0]
    assert events[-1].at_s == pytest.approx(16.0 + STEPS - 20.0)


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.2))
@given(at_s=st.floats(1.0, 40.0), notice_s=st.floats(0.1, 30.0))
def test_the_notice_is_what_a_loss_costs_beside_the_step_that_was_under_way(
    at_s: float, notice_s: float
) -> None:
    pool = pool_of(("a", 0.0, math.inf), ("b", 0.0, at_s))
    at_once, later = (
        told(pool, GangTimes(report_s=1.0, notice_s=one, grain_steps=1.0))[-1].at_s for one in (0.0, notice_s)
    )
    assert later - at_once == pytest.approx(notice_s, abs=1e-6)


@settings(max_examples=share_of_examples(0.2))
@given(
    at_s=st.floats(1.0, 20.0),
    for_s=st.lists(st.floats(0.1, 3.0), min_size=1, max_size=5),
    notice_s=st.floats(0.1, 20.0),
)
def test_a_node_that_is_back_before_its_loss_was_heard_of_has_lost_its_workers_all_the_same(
    at_s: float, for_s: list[float], notice_s: float
) -> None:
    """It is away, there and away again, any number of times within the notice."""
    ends_s = list(accumulate(for_s if len(for_s) % 2 else for_s[1:], initial=at_s))
    starts_s = [0.0, *ends_s[1::2]]
    pool = pool_of(
        *(("a", start, end) for start, end in zip(starts_s, [*ends_s[::2], math.inf], strict=True))
    )
    timings = GangTimes(report_s=1.0, notice_s=notice_s, grain_steps=1.0, checkpoint_interval_s=math.inf)
    events = told(pool, timings, {1: 1.0})
    assert events[-1].at_s == pytest.approx(starts_s[-1] + STEPS)
    assert sum(isinstance(event, NodeLost) for event in events) == len(starts_s) - 1


@settings(max_examples=share_of_examples(0.2))
@given(at_s=st.floats(0.1, 20.0), notice_s=st.floats(0.1, 5.0))
def test_a_job_whose_only_node_is_lost_starts_again_where_there_is_one(at_s: float, notice_s: float) -> None:
    pool = pool_of(("a", 0.0, at_s), ("b", at_s + 10.0, math.inf))
    timings = GangTimes(report_s=1.0, notice_s=notice_s, grain_steps=1.0, checkpoint_interval_s=math.inf)
    assert told(pool, timings, {1: 1.0})[-1].at_s == pytest.approx(at_s + 10.0 + STEPS)
