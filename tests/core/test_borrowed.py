"""Borrowed nodes come and go: no promise stands on them, and how long they stay is counted."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.driven_world import ALL_FAULTS, DrivenWorld
from tests.core.fakes import core_of, node, profile, spec, strict
from tests.core.head import Head
from tests.examples import Shown, policies, share_of_examples

from swell.core.setbacks import LossRates
from swell.model.cluster import Cluster
from swell.model.command import LaunchGang
from swell.model.event import JobProfiled, JobSubmitted, NodeJoined
from swell.model.job import Phase
from swell.model.node import Node
from swell.placement.best_fit import BestFitPlacer
from swell.policies.registry import POLICIES
from swell.throughput.belief import FittedBelief
from swell_papers.variants import variant_policy

FATES = ("turn", "take", "lend", "die")
SHOWN = Shown(*FATES, "trial", "gang")
FATES_OF_TWO = ("turn", "take0", "take1", "lend0", "lend1", "die")
SHOWN_OF_TWO = Shown(*FATES_OF_TWO)
PROMISING = sorted(name for name, policy in POLICIES.items() if policy.makes_promises)


def borrowed(name: str, num_devices: int = 4) -> Node:
    return msgspec.structs.replace(node(name, num_devices), is_borrowed=True)


def assert_on_owned(head: Head) -> None:
    """Every device of a job with a promise is owned; the cluster may have changed while it held it."""
    for view in head.core.views():
        assert not view.is_promised or not [device for device in view.devices if device.startswith("b")]


@pytest.mark.slow
@pytest.mark.parametrize("policy", policies(PROMISING))
@SHOWN.wholly
@settings(max_examples=share_of_examples(0.115), deadline=None)
@given(
    seed=st.integers(0, 2**20),
    fates=st.lists(st.sampled_from(("turn",) * 5 + FATES), min_size=25, max_size=60),
)
def test_no_promise_ever_stands_on_a_borrowed_node(policy: str, seed: int, fates: list[str]) -> None:
    """Whatever fails, and whenever nodes are lent and taken back; and every job ends."""
    world = DrivenWorld(seed, ALL_FAULTS)
    head = Head(lambda: core_of(POLICIES[policy](), BestFitPlacer(), FittedBelief), world)
    world.join(borrowed("b0"))
    world.join(node("n0", 4))
    for number in range(3):
        head.submit(f"strict{number}", strict(deadline_s=400.0 + 300.0 * number, steps=60))
        head.submit(f"plain{number}", spec(60))
    for fate in fates:
        match fate:
            case "take":
                world.lose_node("b0")
            case "lend":
                world.join(borrowed("b0"))
            case "die":
                head.die()
            case _:
                head.turn()
        assert_on_owned(head)
    SHOWN.note([*fates, *world.struck])
    world.calm_down()
    world.join(borrowed("b0"))
    for _ in range(3000):
        if not head.turn():
            break
        assert_on_owned(head)
    assert len(head.ended) == 6


@pytest.mark.slow
@pytest.mark.parametrize("policy", policies(["bftrainer", "bftrainer_corrected", "bftrainer_equal_share"]))
@SHOWN_OF_TWO.wholly
@settings(max_examples=share_of_examples(0.115), deadline=None)
@given(
    seed=st.integers(0, 2**20),
    fates=st.lists(st.sampled_from(("turn",) * 3 + FATES_OF_TWO), min_size=30, max_size=80),
)
def test_jobs_on_borrowed_nodes_alone_all_succeed_however_often_these_are_taken(
    policy: str, seed: int, fates: list[str]
) -> None:
    """A reclaim is no fault of a job; and a head that dies decides as its twin that does not."""
    world = DrivenWorld(seed)
    head = Head(lambda: core_of(variant_policy(policy), BestFitPlacer(), FittedBelief), world)
    for number in range(4):
        head.submit(f"job{number}", spec(60))
    for fate in fates:
        match fate:
            case "take0" | "take1":
                world.lose_node(f"b{fate[-1]}")
            case "lend0" | "lend1":
                world.join(borrowed(f"b{fate[-1]}"))
            case "die":
                head.die()
            case _:
                head.turn()
    SHOWN_OF_TWO.note(fates)
    world.join(borrowed("b0"))
    for _ in range(3000):
        if not head.turn():
            break
    assert {view.phase for view in head.ended.values()} == {Phase.SUCCEEDED} and len(head.ended) == 4


def test_what_is_asked_of_borrowed_nodes_alone_is_not_promised() -> None:
    core = core_of(POLICIES["elasticflow"](), BestFitPlacer(), FittedBelief)
    core.handle([NodeJoined(at_s=1.0, node=borrowed("b0"))])
    core.handle([JobSubmitted(at_s=2.0, job_id="a", spec=strict(deadline_s=1e6))])
    core.handle([JobProfiled(at_s=3.0, job_id="a", profile=profile())])
    [view] = core.ended_views()
    assert view.phase is Phase.REJECTED and view.counter_offer_s is None
    assert "fits on the 0 devices that are not borrowed" in view.reason


def test_a_job_without_a_promise_has_borrowed_nodes_first() -> None:
    core = core_of(POLICIES["elasticflow"](), BestFitPlacer(), FittedBelief)
    core.handle([NodeJoined(at_s=1.0, node=borrowed("b0")), NodeJoined(at_s=1.0, node=node("n0", 4))])
    core.handle([JobSubmitted(at_s=2.0, job_id="a", spec=spec(1000, max_workers=4))])
    commands = core.handle([JobProfiled(at_s=3.0, job_id="a", profile=profile())])
    [launch] = [command for command in commands if isinstance(command, LaunchGang)]
    assert all(device.startswith("b0") for device in launch.target.devices)


def test_how_often_nodes_are_taken_back_is_counted() -> None:
    seen, none, lent = LossRates(), Cluster(), Cluster((borrowed("b0"), borrowed("b1"), node("n0")))
    seen.note_nodes(none, lent, 100.0)
    assert seen.borrowed.per_node_s(150.0) == 0.0
    kept = lent.without_node("b1")
    seen.note_nodes(lent, kept, 200.0)
    assert seen.borrowed.num_lost == 1 and seen.borrowed.per_node_s(200.0) == pytest.approx(1 / 200.0)
    seen.note_nodes(kept, kept.without_node("n0"), 300.0)  # an owned one is no reclaim
    assert seen.borrowed.per_node_s(400.0) == pytest.approx(1 / 400.0)
