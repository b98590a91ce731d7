"""Sets of places as sorted intervals: which elements of a flat state a worker has."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

Interval = tuple[int, int]  #: places from the first, below the second
Intervals = tuple[Interval, ...]  #: sorted, disjoint, not empty, and none touches the next


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
