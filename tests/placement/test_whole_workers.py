"""The devices of one worker are of one node, whatever jobs grow, shrink, come and go around it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.placement.test_best_fit import cluster
from tests.placement.test_owned import lent

from swell.model.cluster import Cluster
from swell.placement.best_fit import BestFitPlacer

EACH = {"a": 2, "b": 4, "c": 2}
#: Job -> workers.
wishes = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 5))
uneven = st.sampled_from([cluster(6, 6), cluster(5, 3, 8), lent(cluster(7, 6, 3), 1), cluster(2, 2, 2)])


def shared(machines: Cluster, devices: tuple[str, ...]) -> Counter[str]:
    """Devices by node."""
    node_of = {device: node.name for node in machines.nodes for device in node.devices}
    return Counter(node_of[device] for device in devices)


@given(machines=uneven, steps=st.lists(wishes, min_size=1, max_size=5), stays=st.booleans())
def test_no_worker_has_devices_of_two_nodes(
    machines: Cluster, steps: list[dict[str, int]], stays: bool
) -> None:
    placer, held = BestFitPlacer(), dict[str, tuple[str, ...]]()
    for step in steps:
        wanted = {job: workers * EACH.get(job, 1) for job, workers in step.items()}
        changes = {job: num for job, num in wanted.items() if num != len(held.get(job, ()))}
        changes |= {job: 0 for job in held if job not in wanted}
        staying = frozenset(held) if stays else frozenset[str]()
        placement = placer.place(machines, changes, held, frozenset(), staying=staying, each=EACH)
        held = {job: devices for job, devices in (held | dict(placement.changes)).items() if devices}
        for job, each in EACH.items():
            of_nodes = shared(machines, held.get(job, ()))
            assert not any(num % each for num in of_nodes.values()), (job, held)


@given(st.permutations(["a", "b", "c", "d"]))
def test_whole_workers_are_found_where_devices_lie_apart(order: list[str]) -> None:
    """Six and six devices: two workers of four, and four jobs of one device or worker of two in the rest."""
    wanted = {"b": 8} | {job: EACH.get(job, 1) for job in order if job in "ad"}
    placement = BestFitPlacer().place(cluster(6, 6), wanted, {}, frozenset(), each=EACH)
    assert not placement.unplaced
    assert set(shared(cluster(6, 6), placement.changes["b"]).values()) == {4}


def test_a_job_that_fits_in_no_node_waits() -> None:
    placement = BestFitPlacer().place(cluster(2, 2, 2), {"b": 4, "d": 3}, {}, frozenset(), each=EACH)
    assert placement.unplaced == {"b"} and len(placement.changes["d"]) == 3
