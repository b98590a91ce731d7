"""Trainers on a log of idle nodes: what each accounting counts, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.sim.test_pool import changed_after, idle_intervals, moments

from swell.policies.bftrainer import BFTrainer
from swell.policies.policy import Policy
from swell.sim.pool import IdleInterval, Pool
from swell_papers.bftrainer_inputs import Trainer
from swell_papers.bftrainer_replay import PRINTED, REPLAYER, STRICT, Accounting, Replayed, replay
from swell_papers.bftrainer_simulated import simulated
from swell_papers.policies.bftrainer_equal_share import BFTrainerEqualShare

UP_S, DOWN_S = 18.0, 12.0


def trainer(name: str, submit_s: float = 0.0, images: float = 1e6, most: int = 8) -> Trainer:
    """A node makes 10 images a second."""
    return Trainer(
        id=name,
        model="linear",
        submit_s=submit_s,
        least=1,
        most=most,
        growth_s=UP_S,
        shrink_s=DOWN_S,
        images=images,
        rates=10.0 * np.arange(most + 1, dtype=np.float64),
    )


def pool_of(*spans: tuple[float, float]) -> Pool:
    return Pool(tuple(IdleInterval(f"n{at}", *span) for at, span in enumerate(spans)), "a log")


def run(
    pool: Pool,
    trainers: list[Trainer],
    accounting: Accounting,
    until_s: float,
    policy: Policy | None = None,
    max_trainers: int = 1,
) -> Replayed:
    chosen = policy or BFTrainer(t_fwd_s=1_000.0)
    return replay(pool, trainers, chosen, accounting, max_trainers, 0.0, until_s)


#: One node, then two, then one again.
UP_AND_DOWN = pool_of((0.0, 300.0), (100.0, 200.0))


@pytest.mark.parametrize("accounting", [REPLAYER, PRINTED])
def test_costs_in_images_are_at_the_speed_before_the_change(accounting: Accounting) -> None:
    found = run(UP_AND_DOWN, [trainer("a")], accounting, 300.0)
    assert found.made.tolist() == [1_000.0, 2_000.0, 1_000.0]
    assert found.rescale_lost.tolist() == [UP_S * 10.0, UP_S * 10.0, 0.0]  # the start at the new speed, once
    assert found.start_lost.tolist() == [UP_S * 10.0, 0.0, 0.0]
    assert found.preempt_lost.tolist() == [0.0, 0.0, DOWN_S * 20.0]
    assert found.images == 4_000.0 - 360.0 - 240.0
    assert found.node_s == 400.0 and found.equivalent_nodes == pytest.approx(4 / 3)


def test_dearer_changes_leave_the_cost_of_a_preemption_where_that_is_asked_for() -> None:
    all_dearer, changes_dearer = (
        run(UP_AND_DOWN, [trainer("a").with_costs(2.0, with_losses=also)], PRINTED, 300.0)
        for also in (True, False)
    )
    assert all_dearer.rescale_lost.tolist() == changes_dearer.rescale_lost.tolist()
    assert all_dearer.preempt_lost.tolist() == [0.0, 0.0, 2 * DOWN_S * 20.0]
    assert changes_dearer.preempt_lost.tolist() == [0.0, 0.0, DOWN_S * 20.0]


def test_costs_in_time_let_the_new_size_stand_still() -> None:
    found = run(UP_AND_DOWN, [trainer("a")], STRICT, 300.0)
    assert found.made.tolist() == [(100.0 - UP_S) * 10.0, (100.0 - UP_S) * 20.0, (100.0 - DOWN_S) * 10.0]
    assert found.images == found.made.sum()


def test_a_trainer_that_lost_all_its_nodes_starts_again_free_only_in_images() -> None:
    pool = pool_of((0.0, 100.0), (150.0, 250.0))
    printed = run(pool, [trainer("a")], PRINTED, 250.0)
    assert printed.rescale_lost.sum() == UP_S * 10.0
    assert printed.preempt_lost.sum() == DOWN_S * 10.0
    strict = run(pool, [trainer("a")], STRICT, 250.0)
    assert strict.images == 2 * (100.0 - UP_S) * 10.0


def test_only_the_replayer_leaves_nodes_idle_when_a_trainer_ends() -> None:
    """The first trainer is done after 50 s (and its start); the second could begin then."""
    pool, trainers = pool_of((0.0, 300.0), (200.0, 300.0)), [trainer("a", images=500.0), trainer("b")]
    begins = {}
    for accounting in (REPLAYER, PRINTED):
        found = run(pool, trainers, accounting, 300.0)
        begins[accounting.name] = found.at_s[np.flatnonzero(found.num_used > 0)].tolist()
    assert begins["replayer"] == [0.0, 200.0]
    assert begins["printed"] == [0.0, 50.0 + UP_S, 200.0]


def test_it_ends_when_there_are_too_few_trainers_to_compare_with_a_full_queue() -> None:
    found = run(pool_of((0.0, 10_000.0)), [trainer("a", images=1_000.0)], STRICT, 9_000.0)
    assert found.duration_s == pytest.approx(UP_S + 100.0)
    assert [ended.model for ended in found.ended] == ["linear"]


def test_the_first_submitted_share_the_nodes() -> None:
    trainers = [trainer("a", images=500.0, most=1), trainer("b", most=1), trainer("c", most=1)]
    pool = pool_of(*[(0.0, 500.0)] * 3)
    found = run(pool, trainers, STRICT, 500.0, BFTrainerEqualShare(), max_trainers=2)
    assert set(found.num_used.tolist()) == {2.0}


@settings(max_examples=fewer_if_quick(25), deadline=None)
@given(data=st.data(), accounting=st.sampled_from([REPLAYER, PRINTED, STRICT]))
def test_the_future_of_the_log_changes_nothing_before_it_comes(
    data: st.DataObject, accounting: Accounting
) -> None:
    intervals, at_s = data.draw(idle_intervals()), data.draw(moments)
    known = [one._replace(num_devices=1) for one in intervals]
    pool = Pool(tuple(known), "a log")
    other = changed_after(known, at_s, [])
    trainers = [trainer("a"), trainer("b", 30.0), trainer("c", 60.0, images=400.0)]
    one, two = (run(some, trainers, accounting, max(at_s, 1.0), max_trainers=2) for some in (pool, other))
    assert one.images == pytest.approx(two.images)
    assert one.rescale_lost.sum() == pytest.approx(two.rescale_lost.sum())


def test_the_platforms_simulator_counts_as_strictly() -> None:
    """Its own head, gangs and placement on the same log, with a checkpoint each second."""
    spans = [(40.0 * at, 2_000.0 + 150.0 * at) for at in range(12)]
    pool = pool_of(*spans, (3_900.0, math.inf))
    trainers = [trainer(name, 5.0 * at, images=3e7) for at, name in enumerate("abc")]
    parameters = {"t_fwd_s": 200.0, "max_trainers": 2}
    ours = simulated(pool, trainers, "bftrainer", parameters, 1.0, 0.0, 4_000.0)
    policy = BFTrainer(t_fwd_s=200.0, max_trainers=2)
    found = run(pool, trainers, STRICT, 4_000.0, policy, max_trainers=2)
    assert ours.images == pytest.approx(found.images, rel=0.05)
    assert ours.kept_device_s == 0.0
