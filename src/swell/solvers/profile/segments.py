"""Free capacity over time: blocks of segments, and stretches that are taken from them."""

from __future__ import annotations

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.solvers.profile.plans import INF, STRETCH_ROOM, FreeSegments


class Blocks:
    """`FreeSegments` as kernels take them."""

    def __init__(self, columns: FreeSegments) -> None:
        self.starts_s, self.free, self.used, self.least, self.most, self.order, self.num_blocks = columns


def width_of(profile: Blocks) -> int:
    """Segments that a block has at most."""
    return profile.starts_s.shape[1]


def has_room(profile: Blocks, num_more: int) -> bool:
    """Whether there is room for `num_more` blocks more."""
    return profile.num_blocks[0] + num_more <= len(profile.order)


def take_now(profile: Blocks, num_devices: IntArray, until_s: FloatArray) -> int:
    """So many are not free from now until then, each.

    Returns: how many were served; fewer than all if there may be too few blocks for the next.
    """
    for position in range(len(until_s)):
        if not has_room(profile, STRETCH_ROOM):
            return position
        take_between(profile, 0.0, until_s[position], num_devices[position])
    return len(until_s)


def take_what_is_free(profile: Blocks, num_devices: IntArray, until_s: FloatArray, is_free: BoolArray) -> int:
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


def are_free(profile: Blocks, start_s: float, end_s: float, num: int) -> bool:
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


def take_between(profile: Blocks, start_s: float, end_s: float, num: int) -> None:
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
        _sum_up(profile, block)
        position, first = position + 1, 0


def write_least(first: Blocks, second: Blocks, least: Blocks) -> None:
    """Write what is free in both; `least` is empty, and has blocks for all segments of both, half full."""
    position, segment, other_position, other_segment = 0, 0, 0, 0
    at_s, block, used = 0.0, 0, 0
    while at_s < INF:
        free = min(
            first.free[first.order[position], segment],
            second.free[second.order[other_position], other_segment],
        )
        if used == width_of(least) // 2:
            _sum_up(least, block)
            block, used = block + 1, 0
        least.order[block] = block
        least.starts_s[block, used], least.free[block, used] = at_s, free
        used += 1
        least.used[block] = used
        end_s, other_end_s = end_of(first, position, segment), end_of(second, other_position, other_segment)
        at_s = min(end_s, other_end_s)
        if at_s < INF and end_s == at_s:
            position, segment = _following(first, position, segment)
        if at_s < INF and other_end_s == at_s:
            other_position, other_segment = _following(second, other_position, other_segment)
    _sum_up(least, block)
    least.num_blocks[0] = block + 1


def end_of(profile: Blocks, position: int, segment: int) -> float:
    """When a segment of the block at this position ends."""
    block = profile.order[position]
    if segment + 1 < profile.used[block]:
        return profile.starts_s[block, segment + 1]
    if position + 1 < profile.num_blocks[0]:
        return profile.starts_s[profile.order[position + 1], 0]
    return INF


def _following(profile: Blocks, position: int, segment: int) -> tuple[int, int]:
    """(position of the block, segment in it) of the next segment."""
    if segment + 1 < profile.used[profile.order[position]]:
        return position, segment + 1
    return position + 1, 0


def _locate(profile: Blocks, at_s: float) -> tuple[int, int]:
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


def _split(profile: Blocks, at_s: float) -> None:
    """See that a segment begins at `at_s`."""
    position, segment = _locate(profile, at_s)
    block = profile.order[position]
    if profile.starts_s[block, segment] == at_s:
        return
    if profile.used[block] == width_of(profile):
        _halve(profile, position)
        position, segment = _locate(profile, at_s)
        block = profile.order[position]
    for index in range(profile.used[block], segment + 1, -1):
        profile.starts_s[block, index] = profile.starts_s[block, index - 1]
        profile.free[block, index] = profile.free[block, index - 1]
    profile.starts_s[block, segment + 1] = at_s
    profile.free[block, segment + 1] = profile.free[block, segment]
    profile.used[block] += 1


def _halve(profile: Blocks, position: int) -> None:
    """Make two blocks of a full one."""
    block, new, half = profile.order[position], profile.num_blocks[0], width_of(profile) // 2
    for index in range(new, position + 1, -1):
        profile.order[index] = profile.order[index - 1]
    profile.order[position + 1] = new
    profile.num_blocks[0] += 1
    for index in range(half):
        profile.starts_s[new, index] = profile.starts_s[block, half + index]
        profile.free[new, index] = profile.free[block, half + index]
    profile.used[block] = profile.used[new] = half
    _sum_up(profile, block)
    _sum_up(profile, new)


def _sum_up(profile: Blocks, block: int) -> None:
    """Count again what is free in a block."""
    least = most = profile.free[block, 0]
    for segment in range(1, profile.used[block]):
        least, most = min(least, profile.free[block, segment]), max(most, profile.free[block, segment])
    profile.least[block], profile.most[block] = least, most
