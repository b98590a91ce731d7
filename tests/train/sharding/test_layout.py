"""Laws of layouts: each element has one owner, parts are equal, and a resize moves no more than it must."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import profile

from swell.train.sharding.intervals import Interval, Intervals, below, common, largest, size, union, without
from swell.train.sharding.layout import FailureDomains, Layout, covers, lay_out, plan_transfers

places = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=6).map(
    lambda pairs: union((min(pair), max(pair)) for pair in pairs)
)


def _set(intervals: Intervals) -> set[int]:
    return {place for begin, end in intervals for place in range(begin, end)}


@given(places, places)
def test_intervals_are_sets(left: Intervals, right: Intervals) -> None:
    assert _set(union(left, right)) == _set(left) | _set(right)
    assert _set(common(left, right)) == _set(left) & _set(right)
    assert _set(without(left, right)) == _set(left) - _set(right)
    for made in (union(left, right), common(left, right), without(left, right)):
        assert all(begin < end for begin, end in made)
        assert all(end < begin for (_, end), (begin, _) in pairwise(made))


@given(places, st.integers(0, 50))
def test_the_largest_part_is_as_large_as_may_be(all_places: Intervals, most: int) -> None:
    chosen = largest(all_places, most)
    assert size(chosen) == min(most, size(all_places))
    assert without(chosen, all_places) == ()


sizes = st.lists(st.integers(1, 6), min_size=1, max_size=12)


#: The ends of the units into which a state falls.
ends = st.lists(st.integers(1, 60), min_size=1, max_size=4).map(lambda sizes: list(accumulate(sizes)))


def _resized(
    units: list[Interval], before: Layout, takers: list[int], sites: list[FailureDomains] | None
) -> tuple[Layout, int]:
    """The next layout, and how many elements moved; every move is from where the element lies."""
    num_ranks = len(before.owned)
    held = [before.held(rank) for rank in range(num_ranks)]
    layout = lay_out(units, before.owned, held, takers, sites)
    planned = plan_transfers(held, layout)
    for source, target, interval in planned:
        assert common((interval,), held[source]) == (interval,)
        held_now = union(
            held[target], *[move.interval and (move.interval,) for move in planned if move.target == target]
        )
        assert common((interval,), held_now) == (interval,)
    for rank in range(num_ranks):
        got = [move.interval for move in planned if move.target == rank]
        assert size(got) == size(union(got)), "an element was sent twice"
        assert union(got) == without(layout.held(rank), held[rank])
    return layout, size(move.interval for move in planned)


#: Two machines in a rack, one in another.
SITES = [FailureDomains("r", "a"), FailureDomains("r", "b"), FailureDomains("s", "c")]


@given(ends, sizes, st.data())
def test_each_element_has_one_owner_at_every_size(
    ends: list[int], steps: list[int], data: st.DataObject
) -> None:
    """Growth and shrinking by any ranks, one after another, with mirrors and without."""
    units, num_elements = list(pairwise([0, *ends])), ends[-1]
    sites = data.draw(st.none() | st.lists(st.sampled_from(SITES), min_size=6, max_size=6))
    layout = Layout((union([(0, num_elements)]), *[()] * 5), ((),) * 6)
    for num_workers in steps:
        takers = data.draw(st.permutations(range(6)))[:num_workers]
        layout, _ = _resized(units, layout, takers, sites)
        assert sum(map(size, layout.owned)) == num_elements
        assert covers(layout.owned, num_elements)
        for unit in units:
            shares = [size(common(layout.owned[rank], (unit,))) for rank in takers]
            assert max(shares) - min(shares) <= 1
        if sites is None or num_workers == 1:
            assert not any(layout.mirrored)
            continue
        for lost in takers:  # nothing is lost with any one worker
            assert covers([layout.held(rank) for rank in takers if rank != lost], num_elements)
        machines = {sites[rank].machine for rank in takers}
        for machine in machines if len(machines) > 1 else ():  # nor with all of one machine
            left = [rank for rank in takers if sites[rank].machine != machine]
            assert covers([layout.held(rank) for rank in left], num_elements)


@given(st.lists(st.sampled_from("rst"), min_size=2, max_size=9))
def test_mirrors_lie_in_another_rack_as_far_as_no_worker_mirrors_two_parts_for_it(racks: list[str]) -> None:
    num = len(racks)
    domains = [FailureDomains(rack, f"machine {rank}") for rank, rack in enumerate(racks)]
    everything = ((0, 10 * num),)
    whole = [everything, *[()] * (num - 1)]
    layout = lay_out(everything, whole, whole, range(num), domains)
    assert max(map(size, layout.mirrored)) <= 20, "a worker alone in its rack does not hold everything"
    is_balanced = len(set(Counter(racks).values())) == 1 and len(set(racks)) > 1
    for rack in set(racks) if is_balanced else ():
        left = [rank for rank in range(num) if racks[rank] != rack]
        assert covers([layout.held(rank) for rank in left], 10 * num)


@given(ends, sizes, st.data())
def test_owners_get_no_more_than_they_lack(ends: list[int], steps: list[int], data: st.DataObject) -> None:
    """Without mirrors the plan is the lower bound: what the parts exceed of what their owners had before."""
    units, num_elements = list(pairwise([0, *ends])), ends[-1]
    layout = Layout((union([(0, num_elements)]), *[()] * 5), ((),) * 6)
    for num_workers in steps:
        takers = data.draw(st.permutations(range(6)))[:num_workers]
        had = layout.owned
        layout, moved = _resized(units, layout, takers, None)
        assert moved == sum(
            max(size(common(layout.owned[rank], (unit,))) - size(common(had[rank], (unit,))), 0)
            for rank in takers
            for unit in units
        )


@pytest.mark.parametrize("machines", ["", "a" * 8, "aabbccdd"])
def test_a_state_that_is_often_moved_stays_in_few_pieces(machines: str) -> None:
    sites = [FailureDomains("", machine) for machine in machines] or None
    layout = Layout((((0, 10_000_000),), *[()] * 7), ((),) * 8)
    most = 0
    for turn in range(400):
        first, num_workers = turn * 5 % 8, 1 + turn * turn % 8
        takers = [(first + number) % 8 for number in range(num_workers)]
        layout, _ = _resized([(0, 10_000_000)], layout, takers, sites)
        most = max(most, sum(map(len, layout.owned)))
    assert most <= 8 * 8, most


@given(st.lists(st.integers(1, 8), min_size=2, max_size=8), st.booleans())
def test_the_head_counts_what_comes_to_a_worker_as_the_layout_plans_it(
    sizes: list[int], is_mirrored: bool
) -> None:
    """Where the newest workers come and go: exactly, but where mirrors move in a shrink."""
    units = [(0, 4000), (4000, 12_000)]
    profiled = msgspec.structs.replace(
        profile(), state_bytes=12_000, divided_bytes=12_000, has_mirrors=is_mirrored
    )
    owned: list[Intervals] = [below(12_000)]
    held = list(owned)
    for before, after in pairwise([1, *sizes]):
        newcomers: list[Intervals] = [()] * max(0, after - before)
        domains = [FailureDomains()] * max(before, after) if is_mirrored else None
        layout = lay_out(units, owned + newcomers, held + newcomers, range(after), domains)
        coming = Counter(dict.fromkeys(range(after), 0))
        for _, target, interval in plan_transfers(held + newcomers, layout):
            coming[target] += size([interval])
        most, counted = max(coming.values()), profiled.copied_bytes(before, after)
        if after > before or not is_mirrored:
            assert counted - len(units) <= most <= counted + len(units)
        elif after == before:
            assert most == counted == 0
        else:
            assert most <= profiled.copied_bytes(0, after) + len(units)
        owned = [layout.owned[rank] for rank in range(after)]
        held = [layout.held(rank) for rank in range(after)]
