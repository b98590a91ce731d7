"""In a fair world every job ends and the world goes quiet, whatever went wrong before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.driven_world import ALL_FAULTS, DrivenWorld
from tests.core.fakes import core_of, node, spec, strict
from tests.core.head import Head
from tests.examples import fewer_if_quick, policies, share_of_examples

from swell.model.event import DrainRequested, Opened, ResizeFailed
from swell.model.job import Elasticity, Phase
from swell.placement.best_fit import BestFitPlacer
from swell.policies.registry import POLICIES
from swell.sim.faults import NO_FAULTS, FaultRates
from swell.throughput.belief import FittedBelief

SEEDS = st.integers(0, 2**20)


def busy_head(
    seed: int,
    rates: FaultRates,
    policy: str = "restless",
    placer: BestFitPlacer | None = None,
    crosses: bool = True,
) -> tuple[Head, DrivenWorld]:
    """Two nodes and seven jobs of many kinds."""
    world = DrivenWorld(seed, rates)
    head = Head(lambda: core_of(placer=placer), world, None if crosses else world)
    world.say(Opened(at_s=0.0, policy=policy))
    submit_all(head, world)
    return head, world


def submit_all(head: Head, world: DrivenWorld) -> None:
    world.join(node("n0", 4))
    world.join(node("n1", 4))
    for number in range(3):
        head.submit(f"plain{number}", spec(60 + 40 * number))
    head.submit("wide", spec(80, min_workers=2, max_workers=4))
    head.submit("double", spec(80, devices_per_worker=2))
    head.submit("strict", strict(deadline_s=1000.0, steps=60))
    head.submit("restart", spec(None, elasticity=Elasticity.RESTART, estimate_s=10.0))


def calm_down(world: DrivenWorld) -> None:
    """No more faults, all nodes there, a policy that is content."""
    world.calm_down()
    world.say(Opened(at_s=world.now_s, policy="in_turns"))
    for name in ("n0", "n1"):
        world.join(node(name, 4))


def assert_all_done(head: Head, world: DrivenWorld) -> None:
    assert len(head.ended) == 7
    assert {view.phase for view in head.ended.values()} <= {Phase.SUCCEEDED, Phase.FAILED}
    assert head.core.views() == [] and head.core.is_idle and not head.port.occupied and not world.gangs


@settings(max_examples=fewer_if_quick(10), deadline=None)
@given(SEEDS)
def test_a_resize_that_failed_is_tried_again_and_made_as_soon_as_it_can_be(seed: int) -> None:
    world = DrivenWorld(seed, FaultRates(resize=1.0))
    head = Head(core_of, world)
    world.join(node("n0", 2))
    head.submit("a", spec(2000))
    head.run_until(lambda: any(view.workers == 2 for view in head.core.views()))
    world.join(node("n1", 2))
    head.run_until(lambda: len(_failed_resizes(head)) >= 3)
    assert head.job("a").workers == 2
    world.calm_down()
    head.run_until(lambda: head.job("a").workers == 4)


def _failed_resizes(head: Head) -> set[int]:
    return {event.generation for event in head.delivered if isinstance(event, ResizeFailed)}


@settings(max_examples=share_of_examples(0.1), deadline=None)
@given(SEEDS, st.floats(0.1, 8.0))
def test_a_drain_leaves_nothing_running_and_reopening_goes_on(seed: int, drain_after_s: float) -> None:
    head, world = busy_head(seed, ALL_FAULTS)
    head.run_for(drain_after_s)
    world.say(DrainRequested(at_s=world.now_s))
    head.run()
    assert head.core.is_idle and not head.port.occupied
    assert all(view.phase is Phase.QUEUED for view in head.core.views())
    calm_down(world)
    head.run()
    assert_all_done(head, world)


@pytest.mark.slow
@pytest.mark.parametrize("is_folded", [False, True])
def test_killed_at_every_turn_the_end_is_the_same(is_folded: bool) -> None:
    """No command is lost or done twice: the world that is asked twice does what it did when asked once.

    It answers twice, too: were answers delayed by chance, what comes after them would come later.
    """
    ends = []
    for is_killed in (False, True):
        head, world = busy_head(7, NO_FAULTS, "in_turns", crosses=False)
        for _ in range(2000):
            if is_killed:
                num_turns = len(head.batches)
                head.turn_and_die()
                if len(head.batches) == num_turns:
                    break
                if is_folded:
                    head.fold()
            elif not head.turn():
                break
        assert_all_done(head, world)
        ends.append({view.id: (view.phase, view.finished_s, view.sizes) for view in head.ended.values()})
    assert ends[0] == ends[1]


@pytest.mark.slow
@pytest.mark.parametrize("policy", policies(POLICIES))
@settings(max_examples=share_of_examples(0.03), deadline=None)
@given(SEEDS)
def test_every_job_ends_under_the_real_policies(policy: str, seed: int) -> None:
    """With what `swell up` runs: a belief fitted to profiles and reports, and each of the policies."""
    world = DrivenWorld(seed, ALL_FAULTS)
    head = Head(lambda: core_of(POLICIES[policy](), BestFitPlacer(), FittedBelief), world)
    submit_all(head, world)
    head.run_for(6.0)
    for job_id in sorted(world.gangs):
        world.lose_workers(job_id)
    head.fold()
    head.turn_and_die()
    world.lose_node("n1")
    head.run_for(3.0)
    world.calm_down()
    world.join(node("n1", 4))
    head.run()
    assert_all_done(head, world)
