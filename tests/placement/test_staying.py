"""Jobs that stay: BFTrainer's Equations (6) to (10) for every placement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.placement.test_best_fit import cluster
from tests.placement.test_owned import lent, wishes

from swell.model.cluster import Cluster
from swell.model.node import Node
from swell.placement.best_fit import BestFitPlacer

clusters = st.sampled_from(
    [cluster(8), cluster(4, 4), cluster(8, 8, 8, 8), lent(cluster(4, 4), 1), cluster()]
)
#: Two islands of four.
ISLANDS = ((4, 4),)
Held = dict[str, tuple[str, ...]]


def stays(before: set[str], after: set[str]) -> bool:
    """Equation (6): as many nodes change as their number does."""
    return len(before ^ after) == abs(len(after) - len(before))


@given(machines=clusters, steps=st.lists(wishes, min_size=2, max_size=5), data=st.data())
def test_a_job_that_stays_gives_up_devices_or_takes_in_others(
    machines: Cluster, steps: list[dict[str, int]], data: st.DataObject
) -> None:
    """Where a node has gone, what is left of the job counts. Every job that fits is placed."""
    placer, held = BestFitPlacer(), Held()
    for wanted in steps:
        gone = data.draw(st.sampled_from(["none", *(node.name for node in machines.nodes)]))
        machines = machines.without_node(gone)
        there = set(machines.devices)
        changes = {job: num for job, num in wanted.items() if num != len(held.get(job, ()))}
        changes |= {job: 0 for job in held if job not in wanted}
        placement = placer.place(machines, changes, held, frozenset(), staying=frozenset(held))
        after = {job: devices for job, devices in (held | dict(placement.changes)).items() if devices}
        for job, devices in after.items():
            if job in held:
                assert stays(there.intersection(held[job]), set(devices)), job
        assert not placement.moved
        if sum(wanted.values()) <= len(there):
            assert not placement.unplaced
            assert {job: len(devices) for job, devices in after.items()} == {
                job: num for job, num in wanted.items() if num
            }
        held = after


def test_a_job_that_stays_keeps_its_devices_within_a_node_with_islands() -> None:
    devices = tuple(f"n0.{place}" for place in range(8))
    node = Node(name="n0", devices=devices, kind="gpu", islands=ISLANDS)
    held: Held = {"a": devices[:2], "b": devices[2:3]}
    grown = BestFitPlacer().place(
        Cluster(nodes=(node,)), {"a": 4}, held, frozenset(), staying=frozenset("ab")
    )
    assert set(devices[:2]) < set(grown.changes["a"]) and "b" not in grown.changes


def test_a_job_grows_on_its_own_node_first_then_over_as_few_others_as_can_be() -> None:
    machines = cluster(4, 4, 4)
    nodes = [node.devices for node in machines.nodes]
    held: Held = {"a": nodes[0][:2], "b": nodes[1][:1]}
    grown = BestFitPlacer().place(machines, {"a": 8}, held, frozenset(), staying=frozenset("ab")).changes["a"]
    assert set(grown) == {*nodes[0], *nodes[2]}


@pytest.mark.parametrize(("staying", "num_moved"), [(frozenset[str](), 1), (frozenset("ab"), 0)])
def test_without_it_a_gang_makes_room_for_another(staying: frozenset[str], num_moved: int) -> None:
    machines = cluster(4, 4)
    nodes = [node.devices for node in machines.nodes]
    held: Held = {"a": nodes[0][:2], "b": nodes[1][:2]}
    placement = BestFitPlacer().place(machines, {"c": 4}, held, frozenset(), staying=staying)
    assert len(placement.moved) == num_moved and len(placement.changes["c"]) == 4
