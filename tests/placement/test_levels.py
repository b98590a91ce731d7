"""Laws of placement by islands of a node, nodes and racks (ElasticFlow, section 4.3 and Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import pick
from tests.placement.test_best_fit import at, node, place

from swell.model.cluster import Cluster
from swell.model.node import Islands, parse_islands

Held = Mapping[str, tuple[str, ...]]
#: Racks, nodes of each, devices of each node, islands.
ClusterSize = tuple[int, int, int, str]
SHAPES: Sequence[ClusterSize] = (
    (1, 2, 8, "4/2"),
    (2, 2, 4, "2"),
    (2, 4, 2, ""),
    (4, 2, 4, "2"),
    (1, 1, 16, "8/4/2"),
)


def machines_of(shape: ClusterSize) -> Cluster:
    racks, nodes, width, islands = shape
    levels: Islands = parse_islands(islands, width) if islands else ()
    return Cluster(
        tuple(
            msgspec.structs.replace(node(f"n{rack}-{number}", width, f"rack{rack}"), islands=levels)
            for rack in range(racks)
            for number in range(nodes)
        )
    )


def widths_of(shape: ClusterSize) -> Sequence[int]:
    """Devices of a group of each level, from the smallest islands to racks."""
    _, nodes, width, islands = shape
    inner = [int(word) for word in islands.split("/")[::-1]] if islands else []
    return [*inner, width, width * nodes]


def num_groups(machines: Cluster, devices: Sequence[str], width: int) -> int:
    """How many groups of one level they are of; groups of a level are neighbours in the cluster's order."""
    return len({machines.devices.index(device) // width for device in devices})


@given(shape=pick(*SHAPES), steps=st.lists(st.lists(st.integers(0, 5), max_size=10), min_size=1, max_size=6))
def test_no_power_of_two_crosses_more_levels_than_it_must(shape: ClusterSize, steps: list[list[int]]) -> None:
    """The theorem of section 4.3 at each level of the tree: whatever came and went before, a job that fits
    into a group is within one, and a larger one has whole groups."""
    machines = machines_of(shape)
    held: Held = {}
    for exponents in steps:
        left, wanted = machines.num_devices, dict[str, int]()
        for number, exponent in enumerate(exponents):
            if 1 << exponent <= left:
                wanted[f"job-{number}"] = 1 << exponent
                left -= 1 << exponent
        held = place(machines, wanted, held).devices
        assert {job: len(devices) for job, devices in held.items()} == wanted
        for devices in held.values():
            for width in widths_of(shape):
                assert num_groups(machines, devices, width) == max(1, len(devices) // width)


@given(
    shape=pick(*SHAPES),
    steps=st.lists(st.dictionaries(pick(*"abcdef"), st.integers(1, 9)), min_size=1, max_size=5),
    data=st.data(),
)
def test_pinned_jobs_stay_and_no_two_jobs_share_a_device(
    shape: ClusterSize, steps: list[dict[str, int]], data: st.DataObject
) -> None:
    """Sizes of any kind: what is pinned is not touched, and a job that did not fit on an island is placed all
    the same."""
    machines = machines_of(shape)
    held: Held = {}
    for wanted in steps:
        pinned = frozenset(data.draw(st.sets(st.sampled_from(sorted(held))))) if held else frozenset()
        before, placed = dict(held), place(machines, wanted, held, pinned)
        held = placed.devices
        everything = [device for devices in held.values() for device in devices]
        assert len(everything) == len(set(everything)) and set(everything) <= set(machines.devices)
        assert all(held[job] == before[job] for job in pinned)
        assert all(len(held[job]) == wanted[job] for job in held.keys() - pinned)
        movable = {job: num for job, num in wanted.items() if job not in pinned}
        if sum(movable.values()) + sum(len(before[job]) for job in pinned) <= machines.num_devices:
            assert held.keys() == movable.keys() | pinned
        assert placed == place(machines, wanted, dict(reversed(before.items())), pinned)
        assert placed.moved.isdisjoint(pinned)


@given(shape=pick(*SHAPES), exponents=st.lists(st.integers(0, 4), max_size=8))
def test_a_job_that_keeps_its_size_moves_only_to_make_room(shape: ClusterSize, exponents: list[int]) -> None:
    machines = machines_of(shape)
    wanted = dict[str, int]()
    for number, exponent in enumerate(exponents):
        if sum(wanted.values()) + (1 << exponent) <= machines.num_devices:
            wanted[f"job-{number}"] = 1 << exponent
    first = place(machines, wanted)
    assert place(machines, wanted, first.devices) == first
    fewer = {job: max(1, num // 2) for job, num in wanted.items()}
    shrunk = place(machines, fewer, first.devices)
    assert not shrunk.moved
    assert all(set(devices) <= set(first.devices[job]) for job, devices in shrunk.devices.items())


def test_best_fit_takes_the_island_with_the_fewest_free_devices() -> None:
    """Of Figure 5's server: two sockets of 4 devices, here with switches of 2."""
    machines = machines_of((1, 2, 8, "4/2"))
    held = {"a": at(machines, 0, 1, 2), "b": at(machines, 8, 9, 10, 11)}
    wanted = {"a": 3, "b": 4}
    assert place(machines, wanted | {"c": 1}, held).devices["c"] == at(machines, 3)
    assert place(machines, wanted | {"c": 2}, held).devices["c"] == at(machines, 12, 13)
    assert place(machines, wanted | {"c": 4}, held).devices["c"] == at(machines, 12, 13, 14, 15)


def test_jobs_of_whole_nodes_move_so_that_a_larger_one_is_within_a_rack() -> None:
    machines = machines_of((2, 4, 2, ""))
    held = {"a": at(machines, 0, 1, 2, 3), "b": at(machines, 8, 9, 10, 11)}
    placed = place(machines, {"a": 4, "b": 4, "big": 8}, held)
    assert num_groups(machines, placed.devices["big"], 8) == 1 and len(placed.moved) == 1
    pinned = place(machines, {"a": 4, "b": 4, "big": 8}, held, pinned="ab")
    assert pinned.devices["big"] == at(machines, 4, 5, 6, 7, 12, 13, 14, 15) and not pinned.moved
