"""Jobs whose workers are slow on several nodes: what the head makes of it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.worlds import job, run

from swell.model.cluster import Cluster, nodes_needed
from swell.model.job import Phase
from swell.model.node import Node
from swell.placement.best_fit import BestFitPlacer
from swell.sim.gangs import GangTimings
from swell.sim.job import SimJob
from swell.sim.true_speed import TrueSpeed

#: Two nodes of 8 devices: 16 workers are on both, and each step waits 0.2 s more.
RATES = {1: 1.0, 2: 1.9, 4: 3.6, 8: 7.0, 16: 13.0}
CROSSING = {2: {16: 0.2}}


def crossing_job(steps: int, is_told: bool) -> SimJob:
    plain = job("a", steps=steps, rates=RATES)
    sizes = sorted(RATES)
    speed = TrueSpeed(np.array(sizes), np.array([RATES[size] for size in sizes]), crossing=CROSSING)
    profile = msgspec.structs.replace(plain.profile, crossing_s=CROSSING) if is_told else plain.profile
    return replace(plain, speed=speed, profile=profile)


def sizes_of(steps: int, is_told: bool, policy: str) -> tuple[list[int], float]:
    """The sizes that the job has, one after another, and when it ends."""
    outcome = run([crossing_job(steps, is_told)], policy=policy, nodes=2, timings=GangTimings(report_s=5.0))
    (ended,) = outcome.jobs
    assert ended.phase is Phase.SUCCEEDED and ended.end_s is not None
    return [workers for _, workers in ended.sizes if workers], ended.end_s


@pytest.mark.parametrize("policy", ["elasticflow", "pollux"])
def test_a_job_stays_on_one_node_where_crossing_does_not_pay(policy: str) -> None:
    sizes, finished_s = sizes_of(7000, True, policy)
    assert max(sizes) == 8
    assert finished_s < 1200.0  # on both it would take 1900


def test_a_job_that_finds_out_that_crossing_does_not_pay_goes_back_to_one_node() -> None:
    """Its trial run, on one node, could not tell."""
    sizes, finished_s = sizes_of(7000, False, "elasticflow")
    assert sizes[-2:] == [16, 8]
    assert finished_s < 1.2 * 1000.0


widths = st.lists(st.integers(1, 9), min_size=1, max_size=8)


@given(widths=widths, share=st.floats(0.0, 1.0))
def test_the_placer_takes_as_many_nodes_as_are_needed(widths: list[int], share: float) -> None:
    """On a cluster that is idle; so what is believed of a size is believed of where it would be."""
    nodes = tuple(
        Node(name=f"n{place}", devices=tuple(f"n{place}/{slot}" for slot in range(width)), kind="gpu")
        for place, width in enumerate(widths)
    )
    cluster = Cluster(nodes)
    num_devices = max(1, round(share * cluster.num_devices))
    placed = BestFitPlacer().place(cluster, {"a": num_devices}, {}, frozenset()).changes["a"]
    assert len({cluster.node_of[device] for device in placed}) == int(
        nodes_needed(cluster.widths, np.array([num_devices]))[0]
    )


def test_more_nodes_of_the_narrowest_width_change_nothing() -> None:
    """Else each node that comes would have the speed of all jobs worked out again."""
    one = Cluster((Node(name="a", devices=("a/0", "a/1"), kind="gpu"),))
    two = one.with_node(Node(name="b", devices=("b/0", "b/1"), kind="gpu"))
    assert one.widths == two.widths == ((2, None),)
    assert nodes_needed(one.widths, np.array([1, 2, 3, 8])).tolist() == [1, 1, 2, 4]
    wide = two.with_node(Node(name="c", devices=("c/0", "c/1", "c/2", "c/3"), kind="gpu"))
    assert wide.widths == ((4, 1), (2, None))
    assert nodes_needed(wide.widths, np.array([4, 5, 6, 7])).tolist() == [1, 2, 2, 3]
