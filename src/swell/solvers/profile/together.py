"""Many plans that still hold are taken at once: one sort and one pass, where one by one each visits blocks.

Plans that are all free together are free one by one, in any order. So plans that hold need no search each:
the devices that they take are summed over time, and if nowhere more are taken than there are, each is kept.
"""

from __future__ import annotations

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.compiled import part
from swell.solvers.profile.plans import (
    AS_PLANNED,
    MARGIN,
    MOMENT_S,
    MOST_SEGMENTS,
    Plans,
    Takers,
    end_later,
    finish,
    holds,
    spare_of,
    step_sooner,
)
from swell.solvers.profile.segments import WIDTH, FreeSegments, end_of

#: Fewer are served one by one: a pass visits all segments.
FEWEST_TOGETHER = 8
#: Segments of a block after a pass: later changes split some.
FILLED = 3 * WIDTH // 4


@part
def mark_sound(
    takers: Takers, plans: Plans, rows: IntArray, how: IntArray, seconds_s: FloatArray, ends_s: FloatArray
) -> BoolArray:
    """(n,) takers whose plans do their work in time, with the margin, or do so after a mend.

    These plans are mended, and end when their work and what is to spare is done. Other plans stay as they
    are. The plan of a bound taker takes at least what it holds for as long as it is bound.

    Args:
        seconds_s, ends_s: (n,) written: when the second level of each plan began, and its end, before that.
    """
    is_sound = np.zeros(len(rows), dtype=np.bool_)
    for position in range(len(rows)):
        row = rows[position]
        seconds_s[position], ends_s[position] = plans.starts_s[row, 1], plans.end_s[row]
        if len(rows) < FEWEST_TOGETHER:
            continue
        if how[position] == AS_PLANNED and plans.num[row] > 0:
            is_sound[position] = _is_sound(takers, plans, row)
            if not is_sound[position]:
                plans.starts_s[row, 1], plans.end_s[row] = seconds_s[position], ends_s[position]
    return is_sound


@part
def _is_sound(takers: Takers, plans: Plans, row: int) -> bool:
    """Whether its plan, or a mend of it, does its work in time and needs no closer look."""
    work, spare = takers.work[row, MARGIN], spare_of(takers, row)
    is_in_time = holds(takers, plans, row, work, spare) or end_later(takers, plans, row, work, spare)
    if not is_in_time and not step_sooner(takers, plans, row, work, spare):
        return False
    second_s = plans.starts_s[row, 1] if plans.num[row] >= 2 else np.inf
    if not takers.is_bound[row]:
        return second_s > MOMENT_S
    is_held = plans.levels[row, 0] == takers.held[row]
    return is_held and min(second_s, plans.end_s[row]) >= takers.idle_s[row]  # type: ignore[no-any-return]


@part
def write_changes(
    takers: Takers,
    plans: Plans,
    rows: IntArray,
    sign: int,
    at_s: FloatArray,
    net: IntArray,
    gross: IntArray,
) -> int:
    """Write when how many devices more are taken by plans that are sound.

    Args:
        sign: -1: they give it back.
        at_s: times; unsorted.
        net: what is taken beyond what bound takers have already.
        gross: what is taken.

    Returns: how many changes there are.
    """
    num = 0
    for row in rows:
        finish(takers, plans, row)
        taken = 0
        for segment in range(plans.num[row] + 1):
            level = plans.levels[row, segment] if segment < plans.num[row] else 0
            need = takers.devices[row, level - 1] if level > 0 else 0
            if need != taken:
                at_s[num] = plans.starts_s[row, segment] if segment < plans.num[row] else plans.end_s[row]
                net[num] = gross[num] = sign * (need - taken)
                num, taken = num + 1, need
        if takers.is_bound[row] and takers.idle_s[row] > 0.0:
            held = sign * takers.devices[row, takers.held[row] - 1]
            at_s[num], net[num], gross[num] = 0.0, -held, 0
            at_s[num + 1], net[num + 1], gross[num + 1] = takers.idle_s[row], held, 0
            num += 2
    return num


@part
def take_changes(
    profile: FreeSegments,
    at_s: FloatArray,
    net: IntArray,
    gross: IntArray,
    starts_s: FloatArray,
    free: IntArray,
) -> int:
    """Write what is free after changes that are in order of time, as segments.

    Returns: how many segments there are; 0 if more is taken somewhere than there is.
    """
    num = change = taken = more = 0
    for position in range(profile.num_blocks[0]):
        block = profile.order[position]
        for segment in range(profile.used[block]):
            start_s, here = profile.starts_s[block, segment], profile.free[block, segment]
            end_s = end_of(profile, position, segment)
            while True:
                while change < len(at_s) and at_s[change] <= start_s:
                    taken += gross[change]
                    more += net[change]
                    change += 1
                if taken > 0 and here < more:
                    return 0
                if num == 0 or free[num - 1] != here - more:
                    starts_s[num], free[num] = start_s, here - more
                    num += 1
                if change == len(at_s) or at_s[change] >= end_s:
                    break
                start_s = at_s[change]
    return num


@part
def num_blocks_of(num_segments: int) -> int:
    """Blocks that so many segments need."""
    return (num_segments + FILLED - 1) // FILLED


@part
def write_segments(profile: FreeSegments, starts_s: FloatArray, free: IntArray, num: int) -> None:
    """Have these segments instead."""
    num_blocks = num_blocks_of(num)
    profile.num_blocks[0] = num_blocks
    for block in range(num_blocks):
        first, used = block * FILLED, min(FILLED, num - block * FILLED)
        profile.order[block], profile.used[block] = block, used
        least = most = free[first]
        for index in range(used):
            profile.starts_s[block, index], profile.free[block, index] = (
                starts_s[first + index],
                free[first + index],
            )
            least, most = min(least, free[first + index]), max(most, free[first + index])
        profile.least[block], profile.most[block] = least, most


@part
def take_together(profile: FreeSegments, takers: Takers, plans: Plans, rows: IntArray, sign: int) -> bool:
    """Take what sound plans need, if all of that is free and there is room for it; whether it was.

    With a sign of -1 they give back what they took together last; that always succeeds.
    """
    most = len(rows) * (MOST_SEGMENTS + 3)
    at_s, net, gross = np.empty(most), np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    num = write_changes(takers, plans, rows, sign, at_s, net, gross)
    order = np.argsort(at_s[:num])
    num_segments = num + 1
    for position in range(profile.num_blocks[0]):
        num_segments += profile.used[profile.order[position]]
    starts_s, free = np.empty(num_segments), np.empty(num_segments, dtype=np.int64)
    num = take_changes(profile, at_s[order], net[order], gross[order], starts_s, free)
    if num == 0 or num_blocks_of(num) > len(profile.order):
        return False
    write_segments(profile, starts_s, free, num)
    return True
