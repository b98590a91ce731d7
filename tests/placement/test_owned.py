"""Laws of placement where some nodes are borrowed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from tests.placement.test_best_fit import cluster, nodes_of

from swell.model.cluster import Cluster
from swell.model.node import Node
from swell.placement.best_fit import BestFitPlacer

#: Jobs that have promises.
BOUND = frozenset("abcd")


def lent(machines: Cluster, *places: int) -> Cluster:
    """The same, with the nodes at these places borrowed."""
    nodes = [
        msgspec.structs.replace(node, is_borrowed=place in places)
        for place, node in enumerate(machines.nodes)
    ]
    return Cluster(tuple(nodes))


def owned(machines: Cluster) -> frozenset[str]:
    return frozenset(device for node in machines.nodes if not node.is_borrowed for device in node.devices)


mixed = st.sampled_from(
    [
        lent(cluster(8, 8), 0),
        lent(cluster(4, 4, 4, 4, per_rack=2), 1, 2),
        lent(cluster(6, 3, 8, 1, per_rack=2), 2),
        lent(cluster(1, 1, 1, 1, 1), 0, 4),
        lent(cluster(8, 8), 0, 1),
    ]
)
wishes = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([0, 1, 2, 3, 4, 8]), max_size=8)


def fits(machines: Cluster, wanted: Mapping[str, int]) -> bool:
    bound = sum(num for job, num in wanted.items() if job in BOUND)
    return bound <= len(owned(machines)) and sum(wanted.values()) <= machines.num_devices


@given(machines=mixed, steps=st.lists(wishes, min_size=1, max_size=5), data=st.data())
@example(machines=lent(cluster(8, 8), 1), steps=[{"e": 8, "f": 8}, {"e": 8, "a": 8}], data=None)
def test_a_job_with_a_promise_never_has_a_borrowed_device(
    machines: Cluster, steps: list[dict[str, int]], data: st.DataObject | None
) -> None:
    placer, held = BestFitPlacer(), dict[str, tuple[str, ...]]()
    for wanted in steps:
        choice = st.sets(st.sampled_from(sorted(held))) if held else st.just(set[str]())
        pinned = frozenset(data.draw(choice)) if data is not None else frozenset[str]()
        changes = {job: num for job, num in wanted.items() if num != len(held.get(job, ()))}
        changes |= {job: 0 for job in held if job not in wanted}
        placement = placer.place(machines, changes, held, pinned, BOUND)
        held = {job: devices for job, devices in (held | dict(placement.changes)).items() if devices}
        everything = [device for devices in held.values() for device in devices]
        assert len(everything) == len(set(everything)) and set(everything) <= set(machines.devices)
        for job in BOUND & held.keys():
            assert owned(machines).issuperset(held[job])
        assert all(len(held[job]) == num for job, num in wanted.items() if job in held and job not in pinned)
        if not pinned and fits(machines, wanted):
            bound = {job for job, num in wanted.items() if num and job in BOUND}
            assert bound <= held.keys() and not placement.unplaced & BOUND


@given(
    shape=st.sampled_from([(2, 8, {1}), (4, 4, {0, 2}), (3, 8, {2}), (6, 2, {1, 3, 4})]),
    steps=st.lists(
        st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=12), min_size=1, max_size=5
    ),
)
def test_powers_of_two_never_span_more_nodes_than_they_must_with_promises_either(
    shape: tuple[int, int, set[int]], steps: list[list[tuple[bool, int]]]
) -> None:
    num_nodes, width, borrowed = shape
    machines, held = lent(cluster(*[width] * num_nodes), *borrowed), dict[str, tuple[str, ...]]()
    for step in steps:
        left, left_owned, wanted = machines.num_devices, len(owned(machines)), dict[str, int]()
        for number, (is_bound, exponent) in enumerate(step):
            size = min(width, 1 << exponent)
            if size <= (min(left, left_owned) if is_bound else left):
                wanted[f"{'bound' if is_bound else 'free'}{number}"] = size
                left, left_owned = left - size, left_owned - size * is_bound
        bound = frozenset(job for job in wanted if job.startswith("bound"))
        changes = {job: num for job, num in wanted.items() if num != len(held.get(job, ()))}
        changes |= {job: 0 for job in held if job not in wanted}
        placement = BestFitPlacer().place(machines, changes, held, frozenset(), bound)
        held = {job: devices for job, devices in (held | dict(placement.changes)).items() if devices}
        assert {job: len(devices) for job, devices in held.items()} == wanted
        assert all(owned(machines).issuperset(held[job]) for job in bound)
        assert all(len(nodes_of(machines, devices)) == 1 for devices in held.values())


@given(
    joined=st.lists(st.integers(0, 30), min_size=4, max_size=20, unique=True),
    sizes=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    after=st.integers(0, 8),
)
def test_of_borrowed_nodes_those_that_were_lent_last_are_given_back_first(
    joined: list[int], sizes: tuple[int, int], after: int
) -> None:
    """The longer a node has been idle, the longer it is expected to stay: jobs hold on to the oldest ones."""
    machines = Cluster()
    for name in joined:
        node = Node(name=f"n{name}", devices=(f"n{name}.0",), kind="cpu", is_borrowed=True)
        machines = machines.with_node(node)
    age = {f"n{name}.0": rank for rank, name in enumerate(joined)}
    one, other = min(sizes[0], len(joined) - 1), min(sizes[1], len(joined) - min(sizes[0], len(joined) - 1))
    held = dict(BestFitPlacer().place(machines, {"a": one, "b": other}, {}, frozenset()).changes)
    assert sorted(age[device] for device in (*held["a"], *held["b"])) == list(range(one + other))
    less = min(after, one)
    kept = BestFitPlacer().place(machines, {"a": less}, held, frozenset()).changes.get("a", held["a"])
    oldest = sorted(held["a"], key=age.__getitem__)[:less]
    assert sorted(kept) == sorted(oldest)
