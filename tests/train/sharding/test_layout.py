"""Laws of layouts: each element has one owner, parts are equal, and a resize moves no more than it must."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from swell.train.sharding.layout import (
    FailureDomains,
    Interval,
    Intervals,
    Layout,
    below,
    common,
    covers,
    lay_out,
    plan_transfers,
    size,
    union,
    without,
)
from tests.core.fakes import profile

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
