"""Laws of placement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from swell.model.cluster import Cluster
from swell.model.node import Node
from swell.placement.best_fit import BestFitPlacer

Held = Mapping[str, tuple[str, ...]]


def node(name: str, num_devices: int, rack: str = "rack0") -> Node:
    devices = tuple(f"{name}/{index}" for index in range(num_devices))
    return Node(name=name, devices=devices, kind="cpu", rack=rack)


def cluster(*sizes: int, per_rack: int = 100) -> Cluster:
    return Cluster(
        tuple(node(f"n{index}", size, f"rack{index // per_rack}") for index, size in enumerate(sizes))
    )


@dataclass(frozen=True)
class Placed:
    devices: Held  #: of everybody who has any
    moved: frozenset[str]


def place(
    machines: Cluster,
    wanted: Mapping[str, int],
    held: Held | None = None,
    pinned: Iterable[str] = (),
    placer: BestFitPlacer | None = None,
) -> Placed:
    """Where all are then, if those of `wanted` are to have so many devices and all others none."""
    held = held or {}
    others = {job: num for job, num in wanted.items() if num != len(held.get(job, ()))}
    others |= {job: 0 for job in held if job not in wanted}
    placement = (placer or BestFitPlacer()).place(machines, others, held, frozenset(pinned))
    devices = {job: own for job, own in (dict(held) | dict(placement.changes)).items() if own}
    assert placement.unplaced.isdisjoint(devices.keys())
    return Placed(devices, placement.moved)


def at(machines: Cluster, *positions: int) -> tuple[str, ...]:
    devices = list(machines.devices)
    return tuple(devices[position] for position in positions)


def nodes_of(machines: Cluster, devices: Iterable[str]) -> Mapping[str, set[str]]:
    """Node -> which of these are there."""
    there = {node.name: set(node.devices).intersection(devices) for node in machines.nodes}
    return {name: own for name, own in there.items() if own}


def is_compact(machines: Cluster, devices: tuple[str, ...]) -> bool:
    """On one node, or on whole nodes; of equal nodes."""
    width = len(machines.nodes[0].devices)
    return len(nodes_of(machines, devices)) == max(1, len(devices) // width)


machines_of_all_kinds = st.sampled_from(
    [
        cluster(8),
        cluster(4, 4, 4, 4, per_rack=2),
        cluster(8, 8),
        cluster(6, 3, 8, 1, per_rack=2),
        cluster(12, 6),
        cluster(),
    ]
)
wishes = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 9), max_size=8)


@given(machines=machines_of_all_kinds, steps=st.lists(wishes, min_size=1, max_size=4), data=st.data())
def test_devices_are_real_and_nobody_shares(
    machines: Cluster, steps: list[dict[str, int]], data: st.DataObject
) -> None:
    held: Held = {}
    placer = BestFitPlacer()
    for wanted in steps:
        pinned = frozenset(data.draw(st.sets(st.sampled_from(sorted(held))))) if held else frozenset()
        free = machines.num_devices - sum(len(held[job]) for job in pinned)
        placement = place(machines, wanted, held, pinned, placer)
        assert placement == place(machines, wanted, held, pinned)
        everything = [device for devices in placement.devices.values() for device in devices]
        assert len(everything) == len(set(everything))
        assert set(everything) <= set(machines.devices)
        for job in pinned:
            assert placement.devices[job] == held[job]
        for job, devices in placement.devices.items():
            assert job in pinned or len(devices) == wanted[job] > 0
        movable = {job: num for job, num in wanted.items() if job not in pinned and num}
        if sum(movable.values()) <= free:
            assert placement.devices.keys() == movable.keys() | pinned
        assert placement.moved <= movable.keys() & held.keys()
        for job in movable.keys() & held.keys() & placement.devices.keys() - placement.moved:
            before, after = set(held[job]), set(placement.devices[job])
            assert before >= after or len(after) > len(before)
        assert_no_slot_changes(machines, held, placement.devices)
        held = placement.devices


def assert_no_slot_changes(machines: Cluster, before: Held, after: Held) -> None:
    """On each node a job keeps what it has, or some of it: the devices of a node are alike."""
    for job in before.keys() & after.keys():
        had, has = nodes_of(machines, before[job]), nodes_of(machines, after[job])
        for name in had.keys() & has.keys():
            assert had[name] <= has[name] or has[name] <= had[name]


@given(machines=machines_of_all_kinds, steps=st.lists(wishes, min_size=1, max_size=4), data=st.data())
def test_no_job_changes_devices_within_a_node(
    machines: Cluster, steps: list[dict[str, int]], data: st.DataObject
) -> None:
    """Whatever moves, whatever is lost. So one that keeps its nodes and its size keeps its devices."""
    held: Held = {}
    placer = BestFitPlacer()
    for wanted in steps:
        lost = data.draw(st.sets(st.sampled_from(machines.devices))) if machines.devices else set()
        left = without(machines, lost if data.draw(st.booleans()) else set())
        after = place(left, wanted, held, placer=placer).devices
        assert_no_slot_changes(left, held, after)
        held = after


def without(machines: Cluster, lost: set[str]) -> Cluster:
    """Nodes that have lost these devices."""
    for one in machines.nodes:
        left = tuple(device for device in one.devices if device not in lost)
        machines = machines.with_node(Node(name=one.name, devices=left, kind=one.kind, rack=one.rack))
    return machines


@given(
    shape=st.sampled_from([(1, 8), (2, 4), (4, 4), (3, 8), (2, 16)]),
    steps=st.lists(st.lists(st.integers(0, 4), max_size=10), min_size=1, max_size=6),
)
def test_powers_of_two_always_get_one_node_or_whole_ones(
    shape: tuple[int, int], steps: list[list[int]]
) -> None:
    """The theorem of ElasticFlow's section 4.3: if enough devices are idle, there is a place for them."""
    num_nodes, per_node = shape
    machines = cluster(*[per_node] * num_nodes, per_rack=2)
    held: Held = {}
    for exponents in steps:
        left, wanted = machines.num_devices, {}
        for number, exponent in enumerate(exponents):
            if 1 << exponent <= left:
                wanted[f"job-{number}"] = 1 << exponent
                left -= 1 << exponent
        placement = place(machines, wanted, held)
        assert placement.devices.keys() == wanted.keys()
        for devices in placement.devices.values():
            assert is_compact(machines, devices)
        held = placement.devices


@given(st.lists(st.integers(0, 3), max_size=8))
def test_who_keeps_its_size_keeps_its_devices_if_nobody_comes(exponents: list[int]) -> None:
    machines = cluster(8, 8)
    wanted: dict[str, int] = {}
    for number, exponent in enumerate(exponents):
        if sum(wanted.values()) + (1 << exponent) <= 16:
            wanted[f"job-{number}"] = 1 << exponent
    first = place(machines, wanted)
    again = place(machines, wanted, first.devices)
    assert again == first
    fewer = {job: max(1, num // 2) for job, num in wanted.items()}
    shrunk = place(machines, fewer, first.devices)
    for job, devices in shrunk.devices.items():
        assert devices == first.devices[job][: fewer[job]]


def test_best_fit_takes_the_most_crowded_place() -> None:
    machines = cluster(8, 8, 8)
    held = {"a": at(machines, 0, 1, 2, 3), "b": at(machines, 8, 9)}
    wanted = {"a": 4, "b": 2}
    assert place(machines, wanted | {"c": 2}, held).devices["c"] == at(machines, 4, 5)
    assert place(machines, wanted | {"c": 6}, held).devices["c"] == at(machines, 10, 11, 12, 13, 14, 15)
    assert place(machines, wanted | {"c": 8}, held).devices["c"] == at(machines, *range(16, 24))


def test_where_devices_share_cores_jobs_go_where_workers_have_most_of_them() -> None:
    """Two nodes of eight devices and two cores, and one of four that have a core each."""
    nodes = [msgspec.structs.replace(node, cores=2.0) for node in cluster(8, 8).nodes]
    machines = Cluster((*nodes, msgspec.structs.replace(cluster(8, 8, 4).nodes[2], cores=None)))
    wanted = dict.fromkeys("abcdefghij", 1)
    devices = place(machines, wanted, {}).devices
    places = [machines.node_of[device] for (device,) in devices.values()]
    assert sorted(Counter(places).values()) == [3, 3, 4]


def test_larger_than_a_node_means_whole_nodes_of_one_rack() -> None:
    machines = cluster(4, 4, 4, 4, per_rack=2)
    held = {"a": at(machines, 0)}
    placement = place(machines, {"a": 1, "big": 8}, held)
    assert placement.devices["big"] == at(machines, *range(8, 16))
    placement = place(machines, {"a": 1, "big": 12}, held)
    assert placement.devices["big"] == at(machines, *range(4, 16))
    placement = place(machines, {"a": 1, "big": 6}, held)
    assert placement.devices["big"] == at(machines, 1, 2, 4, 5, 6, 7)
