"""Free capacity over time: blocks of segments, and stretches that are taken from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.compiled import part

WIDTH = 32  #: segments a block has at most
STRETCH_ROOM = 2  #: blocks that are needed at most to take one stretch


class FreeSegments(NamedTuple):
    """Free devices over [0, inf), piecewise constant: segments in order of time, in blocks of up to WIDTH.

    A segment ends where the next one begins, the last one never. A block knows the least and the most
    that is free in it: so a search passes over most blocks without regard to their segments.
    """

    starts_s: FloatArray  #: (B, WIDTH)
    free: IntArray  #: (B, WIDTH)
    used: IntArray  #: (B,) segments of the block
    least: IntArray  #: (B,)
    most: IntArray  #: (B,)
    order: IntArray  #: (B,) blocks by time
    num_blocks: IntArray  #: (1,) that are in use


@part
def has_room(profile: FreeSegments, num_more: int) -> bool:
    """Whether there is room for `num_more` blocks more."""
    return profile.num_blocks[0] + num_more <= len(profile.order)  # type: ignore[no-any-return]


def take_now(profile: FreeSegments, num_devices: IntArray, until_s: FloatArray) -> int:
    """So many are not free from now until then, each.

    Returns: how many were served; fewer than all if there may be too few blocks for the next.
    """
    for position in range(len(until_s)):
        if not has_room(profile, STRETCH_ROOM):
            return position
        take_between(profile, 0.0, until_s[position], num_devices[position])
    return len(until_s)


def take_what_is_free(
    profile: FreeSegments, num_devices: IntArray, until_s: FloatArray, is_free: BoolArray
) -> int:
    """Take so many from now until then, each, if they are free all the while; else none.

    Returns: how many were served; fewer than all if there may be too few blocks for the next.
    """
    for position in range(len(until_s)):
        if not has_room(profile, STRETCH_ROOM):
            return position
        num, end_s = num_devices[position], until_s[position]
        are_free_now = profile.free[profile.order[0], 0] >= num  # asked for no time, too
        is_free[position] = are_free_now and are_free(profile, 0.0, end_s, num)
        if is_free[position]:
            take_between(profile, 0.0, end_s, num)
    return len(until_s)


@part
def are_free(profile: FreeSegments, start_s: float, end_s: float, num: int) -> bool:
    """Whether so many are free from then on until then."""
    position, first = _locate(profile, start_s)
    while position < profile.num_blocks[0]:
        block = profile.order[position]
        if profile.starts_s[block, 0] >= end_s:
            break
        if profile.least[block] < num:
            for index in range(first, profile.used[block]):
                if profile.starts_s[block, index] >= end_s:
                    break
                if profile.free[block, index] < num:
                    return False
        position, first = position + 1, 0
    return True


@part
def take_between(profile: FreeSegments, start_s: float, end_s: float, num: int) -> None:
    """So many fewer are free from then on until then."""
    if not end_s > start_s:
        return
    _split(profile, end_s)
    _split(profile, start_s)
    position, first = _locate(profile, start_s)
    while position < profile.num_blocks[0]:
        block = profile.order[position]
        used = profile.used[block]
        if profile.starts_s[block, 0] >= end_s:
            break
        for index in range(first, used):
            if profile.starts_s[block, index] >= end_s:
                break
            profile.free[block, index] -= num
        _sum_up(profile.free[block, :used], profile.least, profile.most, block)
        position, first = position + 1, 0


@part
def write_least(first: FreeSegments, second: FreeSegments, least: FreeSegments) -> None:
    """Write what is free in both; `least` is empty, and has blocks for all segments of both, half full."""
    places = np.zeros((2, 2), dtype=np.int64)  # of each: the block's position, the segment in it
    at_s, block, used = 0.0, 0, 0
    while at_s < np.inf:
        free = min(
            first.free[first.order[places[0, 0]], places[0, 1]],
            second.free[second.order[places[1, 0]], places[1, 1]],
        )
        if used == WIDTH // 2:
            _sum_up(least.free[block, :used], least.least, least.most, block)
            block, used = block + 1, 0
        least.order[block] = block
        least.starts_s[block, used], least.free[block, used] = at_s, free
        used += 1
        least.used[block] = used
        ends_s = end_of(first, places[0, 0], places[0, 1]), end_of(second, places[1, 0], places[1, 1])
        at_s = min(ends_s[0], ends_s[1])
        if at_s < np.inf and ends_s[0] == at_s:
            _go_on(first, places[0])
        if at_s < np.inf and ends_s[1] == at_s:
            _go_on(second, places[1])
    _sum_up(least.free[block, :used], least.least, least.most, block)
    least.num_blocks[0] = block + 1


@part
def end_of(profile: FreeSegments, position: int, segment: int) -> float:
    """When a segment of the block at this position ends."""
    block = profile.order[position]
    if segment + 1 < profile.used[block]:
        return profile.starts_s[block, segment + 1]  # type: ignore[no-any-return]
    if position + 1 < profile.num_blocks[0]:
        return profile.starts_s[profile.order[position + 1], 0]  # type: ignore[no-any-return]
    return np.inf


@part
def _go_on(profile: FreeSegments, place: IntArray) -> None:
    """Move a place (block's position, segment) to the next segment."""
    if place[1] + 1 < profile.used[profile.order[place[0]]]:
        place[1] += 1
    else:
        place[0], place[1] = place[0] + 1, 0


@part
def _locate(profile: FreeSegments, at_s: float) -> tuple[int, int]:
    """(position of the block, segment in it) that `at_s` lies in."""
    low, high = 0, profile.num_blocks[0] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if profile.starts_s[profile.order[middle], 0] <= at_s:
            low = middle
        else:
            high = middle - 1
    block = profile.order[low]
    segment = profile.used[block] - 1
    while profile.starts_s[block, segment] > at_s:
        segment -= 1
    return low, segment


@part
def _split(profile: FreeSegments, at_s: float) -> None:
    """See that a segment begins at `at_s`."""
    position, segment = _locate(profile, at_s)
    block = profile.order[position]
    if profile.starts_s[block, segment] == at_s:
        return
    if profile.used[block] == WIDTH:
        _halve(profile, position)
        position, segment = _locate(profile, at_s)
        block = profile.order[position]
    for index in range(profile.used[block], segment + 1, -1):
        profile.starts_s[block, index] = profile.starts_s[block, index - 1]
        profile.free[block, index] = profile.free[block, index - 1]
    profile.starts_s[block, segment + 1] = at_s
    profile.free[block, segment + 1] = profile.free[block, segment]
    profile.used[block] += 1


@part
def _halve(profile: FreeSegments, position: int) -> None:
    """Make two blocks of a full one."""
    block, new, half = profile.order[position], profile.num_blocks[0], WIDTH // 2
    for index in range(new, position + 1, -1):
        profile.order[index] = profile.order[index - 1]
    profile.order[position + 1] = new
    profile.num_blocks[0] += 1
    for index in range(half):
        profile.starts_s[new, index] = profile.starts_s[block, half + index]
        profile.free[new, index] = profile.free[block, half + index]
    profile.used[block] = profile.used[new] = half
    _sum_up(profile.free[block, :half], profile.least, profile.most, block)
    _sum_up(profile.free[new, :half], profile.least, profile.most, new)


@part
def _sum_up(free: IntArray, least: IntArray, most: IntArray, block: int) -> None:
    """Count again what is free in a block."""
    least[block] = most[block] = free[0]
    for segment in range(1, len(free)):
        least[block] = min(least[block], free[segment])
        most[block] = max(most[block], free[segment])
