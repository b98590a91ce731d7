"""Which worker has which elements of a flat state, and what moves where it is to be laid out again.

The layout is a value that all workers compute alike from what each says that it holds. Each element has one
owner, and with mirrors one more holder, in another rack or on another machine where there are several. A
resize moves what a worker lacks of its next part and nothing else. A worker keeps of its part as much as it
may, wherever that lies: so the owners' moves are the fewest possible (law
`test_owners_get_no_more_than_they_lack`). Elements are told as intervals of one flat sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from swell.train.data.sample_schedule import cut

Interval = tuple[int, int]  #: places from the first, below the second
Intervals = tuple[Interval, ...]  #: sorted, disjoint, not empty, and none touches the next


class FailureDomains(NamedTuple):
    """What fails as a whole around a worker, the widest first; empty: not known."""

    rack: str = ""
    machine: str = ""  #: the place of a worker: workers of one machine can read each other's memory


class Layout(msgspec.Struct, frozen=True):
    """Where each element of a state lies in a group of workers."""

    owned: tuple[Intervals, ...]  #: by rank; each element has one owner
    mirrored: tuple[Intervals, ...]  #: by rank, what it holds of others' parts

    def held(self, rank: int) -> Intervals:
        return union(self.owned[rank], self.mirrored[rank])

    def stretches(self) -> list[Intervals]:
        """What each rank holds, which together has all places at which pieces of any rank are cut."""
        return [own + has for own, has in zip(self.owned, self.mirrored, strict=True)]


class Transfer(NamedTuple):
    """An interval that goes from one rank to another."""

    source: int
    target: int
    interval: Interval


class ShardCard(msgspec.Struct, frozen=True):
    """What a member of a group tells the others of its part of a state that is divided among them."""

    owned: Intervals = ()  #: no other has the same
    held: tuple[Interval, ...] = ()  #: its own part and mirrors, cut as they are computed
    is_voting: bool = False  #: it has the gradients of a further step; whether the vote passed is not known
    is_spread: bool = True  #: it has all parameters of its step, and not just those of its part


def covers(held: Sequence[Intervals], num_elements: int) -> bool:
    """Whether no element is lost."""
    return union(*held) == below(num_elements)


def lay_out(
    units: Sequence[Interval],
    owned: Sequence[Intervals],
    held: Sequence[Intervals],
    takers: Sequence[int],
    domains: Sequence[FailureDomains] | None = None,
) -> Layout:
    """The layout in which the ranks `takers` have parts of equal size of each unit, and keep what they can.

    Args:
        units: stretches that cover the state; what is gathered at once is one.
        owned: by rank, what it has owned; no element twice.
        held: by rank, what it has, its own part and mirrors.
        domains: by rank, if there are to be mirrors.
    """
    parts = [_divide(unit, owned, held, takers) for unit in units]
    owners = tuple(union(*(part.get(rank, ()) for part in parts)) for rank in range(len(owned)))
    return Layout(owners, _mirrors(owners, takers, domains))


def _divide(
    unit: Interval, owned: Sequence[Intervals], held: Sequence[Intervals], takers: Sequence[int]
) -> dict[int, Intervals]:
    """What each taker is to own of a unit."""
    parts: dict[int, Intervals] = {}
    room = {rank: len(cut(size([unit]), len(takers), turn)) for turn, rank in enumerate(takers)}
    for rank in takers:
        parts[rank] = largest(common(owned[rank], (unit,)), room[rank])
    free = without(union([unit]), union(*parts.values()))
    for near in (True, False):  # first what a mirror has here already
        for rank in takers:
            offered = common(free, held[rank]) if near else free
            taken = largest(offered, room[rank] - size(parts[rank]))
            parts[rank], free = union(parts[rank], taken), without(free, taken)
    return parts


def _mirrors(
    owned: Sequence[Intervals], takers: Sequence[int], domains: Sequence[FailureDomains] | None
) -> tuple[Intervals, ...]:
    """What each rank holds of others: each part lies a second time at the next rank of another machine.

    On a single machine that is the next rank. A rank of another rack comes first, but none mirrors a second
    part for that: else one alone in its rack would hold everything. Where several could mirror a part, one
    does that mirrors the fewest.
    """
    mirrored: list[Intervals] = [() for _ in owned]
    if domains is None or len(takers) < 2:
        return tuple(mirrored)
    num_mirrored = dict.fromkeys(takers, 0)
    for turn, rank in enumerate(takers):
        ring = [*takers[turn + 1 :], *takers[:turn]]
        own = domains[rank]
        idle = [other for other in ring if domains[other].rack != own.rack and not num_mirrored[other]]
        away = idle or [other for other in ring if domains[other].machine != own.machine] or ring[:1]
        chosen = min(away, key=lambda other: num_mirrored[other])  # the first of several
        mirrored[chosen] = union(mirrored[chosen], owned[rank])
        num_mirrored[chosen] += 1
    return tuple(mirrored)


def plan_transfers(held: Sequence[Intervals], layout: Layout) -> list[Transfer]:
    """What each rank lacks of its place in the layout, from whom it comes: those who have sent least.

    Args:
        held: by rank, what it has; together everything that is wanted.
    """
    planned: list[Transfer] = []
    sent = [0] * len(held)
    for target in range(len(held)):
        lacking = without(layout.held(target), held[target])
        while lacking:
            first = next(iter(lacking))
            having = [rank for rank in range(len(held)) if common((first,), held[rank])]
            sources = [rank for rank in having if common((first,), held[rank])[0][0] == first[0]]
            source = min(sources, key=sent.__getitem__)
            interval = common((first,), held[source])[0]
            sent[source] += size([interval])
            planned.append(Transfer(source, target, interval))
            lacking = without(lacking, (interval,))
    return planned


def size(places: Iterable[Interval]) -> int:
    return sum(end - begin for begin, end in places)


def below(end: int) -> Intervals:
    """All places before this one."""
    return union([(0, end)])


def union(*sets: Iterable[Interval]) -> Intervals:
    """Places that are in any of the sets, whose intervals may come in any order and overlap."""
    joined: list[Interval] = []
    for begin, end in sorted(chain(*sets)):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        elif begin < end:
            joined.append((begin, end))
    return tuple(joined)


def common(left: Intervals, right: Intervals) -> Intervals:
    """Places that are in both sets."""
    found, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        begin, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if begin < end:
            found.append((begin, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def without(left: Intervals, right: Intervals) -> Intervals:
    """Places of the first set that are not in the second."""
    if not left:
        return ()
    gaps, end = [], left[0][0]
    for begin, next_end in right:
        gaps.append((end, max(end, begin)))
        end = max(end, next_end)
    return common(left, union([*gaps, (end, max(end, left[-1][1]))]))


def largest(places: Intervals, most: int) -> Intervals:
    """A subset of `min(most, size(places))` places: whole intervals, the longest first, and part of one.

    Few intervals are cut, so that a state that is moved often does not fall into ever smaller ones.
    """
    chosen, room = [], most
    for begin, end in sorted(places, key=lambda interval: (interval[0] - interval[1], interval)):
        taken = min(room, end - begin)
        chosen.append((begin, begin + taken))
        room -= taken
    return union(chosen)
