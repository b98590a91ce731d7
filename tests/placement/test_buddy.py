"""Laws of placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from swell.model.cluster import Cluster, Node
from swell.placement.buddy import BuddyPlacer
from swell.placement.reality import Reality
from swell.placement.tree import tree_of

Held = Mapping[str, tuple[str, ...]]


def node(name: str, num_devices: int, num_switches: int = 1, rack: str = "rack0") -> Node:
    devices = tuple(f"{name}/{index}" for index in range(num_devices))
    return Node(name=name, devices=devices, kind="cpu", num_switches=num_switches, rack=rack)


def cluster(*sizes: int, per_rack: int = 100, switches: int = 1) -> Cluster:
    return Cluster(
        tuple(
            node(f"n{index}", size, switches, f"rack{index // per_rack}") for index, size in enumerate(sizes)
        )
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
    placer: BuddyPlacer | None = None,
) -> Placed:
    """Where all are then, if those of `wanted` are to have so many devices and all others none."""
    held = held or {}
    others = {job: num for job, num in wanted.items() if num != len(held.get(job, ()))}
    others |= {job: 0 for job in held if job not in wanted}
    placement = (placer or BuddyPlacer()).place(machines, others, held, frozenset(pinned))
    devices = {job: own for job, own in (dict(held) | dict(placement.changes)).items() if own}
    assert placement.unplaced.isdisjoint(devices.keys())
    return Placed(devices, placement.moved)


def at(machines: Cluster, *positions: int) -> tuple[str, ...]:
    devices = list(machines.devices)
    return tuple(devices[position] for position in positions)


def is_aligned(machines: Cluster, devices: tuple[str, ...]) -> bool:
    """A whole aligned block, or whole nodes."""
    tree = tree_of(machines)
    positions = {tree.positions[device] for device in devices}
    size = min(len(devices), tree.largest_block)
    inside = [block for block in tree.blocks[size].tolist() if positions.issuperset(tree.span(block))]
    return len(inside) * size == len(devices)


machines_of_all_kinds = st.sampled_from(
    [
        cluster(8),
        cluster(4, 4, 4, 4, per_rack=2),
        cluster(8, 8, switches=2),
        cluster(6, 3, 8, 1, per_rack=2),
        cluster(12, 6, switches=2),
        cluster(),
    ]
)
wishes = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 9), max_size=8)


@given(machines=machines_of_all_kinds, steps=st.lists(wishes, min_size=1, max_size=4), data=st.data())
def test_devices_are_real_and_nobody_shares(
    machines: Cluster, steps: list[dict[str, int]], data: st.DataObject
) -> None:
    held: Held = {}
    placer = BuddyPlacer()
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
        held = placement.devices


@given(
    shape=st.sampled_from([(1, 8), (2, 4), (4, 4), (3, 8), (2, 16)]),
    steps=st.lists(st.lists(st.integers(0, 4), max_size=10), min_size=1, max_size=6),
)
def test_powers_of_two_always_get_whole_blocks(shape: tuple[int, int], steps: list[list[int]]) -> None:
    """The theorem of ElasticFlow's section 4.3: if enough devices are idle, there is a subtree."""
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
            assert is_aligned(machines, devices)
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
    machines = cluster(8, 8, switches=2)
    held = {"a": at(machines, 0, 1), "b": at(machines, 8)}
    wanted = {"a": 2, "b": 1}
    assert place(machines, wanted | {"c": 2}, held).devices["c"] == at(machines, 2, 3)
    assert place(machines, wanted | {"c": 1}, held).devices["c"] == at(machines, 9)
    assert place(machines, wanted | {"c": 4}, held).devices["c"] == at(machines, 4, 5, 6, 7)
    assert place(machines, wanted | {"c": 4, "d": 4}, held).devices["d"] == at(machines, 12, 13, 14, 15)


def test_growing_takes_the_free_buddy_and_survivors_come_first() -> None:
    machines = cluster(8)
    placement = place(machines, {"a": 4}, {"a": at(machines, 2, 3)})
    assert placement.devices["a"] == at(machines, 2, 3, 0, 1)
    assert not placement.moved


def test_growing_goes_elsewhere_rather_than_drive_out_a_running_buddy() -> None:
    machines = cluster(8)
    held = {"a": at(machines, 2, 3), "b": at(machines, 0, 1)}
    placement = place(machines, {"a": 4, "b": 2}, held)
    assert placement.devices == {"a": at(machines, 4, 5, 6, 7), "b": at(machines, 0, 1)}


def test_shrinking_keeps_the_lowest_aligned_half() -> None:
    machines = cluster(8)
    assert place(machines, {"a": 2}, {"a": at(machines, 6, 7, 4, 5)}).devices["a"] == at(machines, 4, 5)
    unaligned = {"a": at(machines, 3, 4, 5)}
    assert place(machines, {"a": 2}, unaligned).devices["a"] == at(machines, 4, 5)


def test_the_fewest_and_smallest_running_jobs_move_to_make_a_block() -> None:
    machines = cluster(4, 4)
    held = {"a": at(machines, 0, 1), "b": at(machines, 4), "c": at(machines, 5)}
    wanted = {"a": 2, "b": 1, "c": 1, "big": 4}
    placement = place(machines, wanted, held)
    assert placement.devices["big"] == at(machines, 0, 1, 2, 3)
    assert placement.moved == {"a"}
    small = place(machines, {"a": 2, "b": 1, "big": 4}, {job: held[job] for job in "ab"})
    assert small.moved == {"b"}
    assert small.devices == {"big": at(machines, 4, 5, 6, 7), "a": held["a"], "b": at(machines, 2)}


def test_pinned_jobs_stay_and_the_last_resort_is_scattered() -> None:
    machines = cluster(4)
    held = {"a": at(machines, 0), "b": at(machines, 3)}
    assert place(machines, {"c": 2}, held, pinned="a").devices == {
        "a": at(machines, 0),
        "c": at(machines, 2, 3),
    }
    placement = place(machines, {"c": 2}, held, pinned="ab")
    assert placement.devices["c"] == at(machines, 1, 2) and not placement.moved


def test_larger_than_a_node_means_whole_nodes_of_one_rack() -> None:
    machines = cluster(4, 4, 4, 4, per_rack=2)
    held = {"a": at(machines, 0)}
    placement = place(machines, {"a": 1, "big": 8}, held)
    assert placement.devices["big"] == at(machines, *range(8, 16))
    placement = place(machines, {"a": 1, "big": 12}, held)
    assert placement.devices["big"] == at(machines, *range(4, 16))
    placement = place(machines, {"a": 1, "big": 6}, held)
    assert placement.devices["big"] == at(machines, 2, 3, 4, 5, 6, 7)


def test_no_power_of_two_stays_on_one_node_if_it_can() -> None:
    machines = cluster(8, 6)
    assert place(machines, {"a": 6}).devices["a"] == at(machines, 8, 9, 10, 11, 12, 13)
    assert place(machines, {"a": 6, "b": 3}).devices["b"] == at(machines, 0, 1, 2)


def test_blocks_do_not_reach_over_switches_that_carry_three() -> None:
    tree = tree_of(cluster(6, switches=2))
    sizes = {size: tree.starts[blocks].tolist() for size, blocks in tree.blocks.items()}
    assert sizes == {2: [0, 3], 1: [0, 1, 2, 3, 4, 5]}
    assert sorted(tree_of(cluster(6)).blocks) == [1, 2, 4]


def test_devices_of_a_lost_node_are_forgotten() -> None:
    machines = cluster(4, 4)
    held = {"a": at(machines, 0, 1, 2, 3), "b": at(machines, 4, 5)}
    left = machines.without_node("n0")
    assert place(left, {"a": 2, "b": 2}, held).devices == {"a": ("n1/2", "n1/3"), "b": held["b"]}


def test_who_does_not_fit_is_absent_and_the_more_important_come_first() -> None:
    machines = cluster(4)
    assert place(machines, {"a": 2, "b": 4, "c": 2}).devices.keys() == {"a", "c"}
    assert place(Cluster(), {"a": 1}).devices == {}


def test_whole_blocks_on_a_cluster_of_a_thousand_devices() -> None:
    machines = cluster(*[8] * 125, per_rack=16)
    wanted = {f"job-{number}": 1 << number % 5 for number in range(60)}
    placement = place(machines, wanted)
    assert placement.devices.keys() == wanted.keys()
    assert all(is_aligned(machines, devices) for devices in placement.devices.values())


def test_who_grows_does_not_change_places_with_another_but_stays_and_moves_its_neighbour() -> None:
    """Two gangs that wait for each other's devices would both have to stop."""
    machines = cluster(8)
    held = {
        "shrinking": at(machines, 0, 1),
        "other": at(machines, 2, 3),
        "neighbour": at(machines, 4),
        "growing": at(machines, 5),
        "last": at(machines, 6, 7),
    }
    wanted = {"growing": 2, "shrinking": 1, "other": 2, "neighbour": 1, "last": 2}
    placed = place(machines, wanted, held)
    assert set(placed.devices["growing"]) == set(at(machines, 4, 5))
    assert placed.devices["neighbour"] == at(machines, 1)
    assert placed.moved == {"neighbour"}


def test_a_job_that_is_heard_of_first_because_it_is_pinned_gets_a_flag() -> None:
    """It waits for devices, and is to stay as it is for a while after a failure."""
    reality = Reality(cluster(4))
    flags = reality.flags(reality.number(job) for job in ("a", "b"))
    assert flags.tolist() == [True, True, False]
