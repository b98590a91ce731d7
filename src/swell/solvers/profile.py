"""Free capacity over time, and the two ways to take from it: as late as can be, as early as can be.

Time runs from 0 (now). A *level* is one of a taker's sizes, numbered from 1 in ascending order;
level 0 is nothing. Sizes come as two arrays: `devices` (L,) ascending and `rates` (L,) of work per
second, strictly ascending.

All of this is one kernel (`compiled`) and its parts: numbers, arrays and loops. `filling` calls it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.compiled import part

#: Work smaller than this share of the whole counts as done: sums of segments are not exact.
TOLERANCE_SHARE = 1e-9
WIDTH = 32  #: segments a block has at most


class FreeSegments(NamedTuple):
    """Free devices over [0, inf), piecewise constant: segments in order of time, in blocks of up to WIDTH.

    A segment ends where the next one begins, the last one never. A block knows the least and the most
    that is free in it: so a search passes over most blocks, and a taker takes from most of them, without
    regard to their segments.
    """

    starts_s: FloatArray  #: (B, WIDTH)
    free: IntArray  #: (B, WIDTH)
    used: IntArray  #: (B,) segments of the block
    least: IntArray  #: (B,)
    most: IntArray  #: (B,)
    order: IntArray  #: (B,) blocks by time
    num_blocks: IntArray  #: (1,) that are in use


class Takers(NamedTuple):
    """J takers, each with T tries: amounts of work and when they must be done, the best one first."""

    devices: IntArray  #: (J, L)
    rates: FloatArray  #: (J, L)
    num_levels: IntArray  #: (J,) the first so many of a row count
    work: FloatArray  #: (J, T)
    ends_s: FloatArray  #: (J, T) not above 0 where there is no such try
    grades: IntArray  #: (T + 1,) how good a try is, 0 is best; the last one is that of those whom none fits
    is_at_once: BoolArray  #: (T,) tries that count only if the taker has devices from now on
    #: (T,) tries that take their level from now on, not as late as can be, and no lower one than they have
    is_early: BoolArray
    held: IntArray  #: (J,) level that a taker has
    stop_s: FloatArray  #: (J,) one that would have nothing for less time than this has its lowest level then
    #: (J,) one that will need the level that it has sooner than this, or is to be done sooner, keeps it
    shrink_s: FloatArray
    easy_s: FloatArray  #: (J,) when it would be done with ease
    left: FloatArray  #: (J,) work to be done by those whom no try fits


class Plans(NamedTuple):
    """What takers took. A level is lower for a while where less was free."""

    grade: IntArray  #: (J,) of the try that was taken; -1 for those that had no turn
    top: IntArray  #: (J,) the highest level; 0: there is no plan
    now: IntArray  #: (J,) level at time 0
    keep: IntArray  #: (J,) what one keeps, if that is more than its level now, so that it is done with ease
    change_s: FloatArray  #: (J,) when the level first differs from that of now; the end if it never does
    end_s: FloatArray  #: (J,) when the last of the taken capacity is given back


def fill_in_order(
    profile: FreeSegments,
    takers: Takers,
    plans: Plans,
    rows: IntArray,
    hold_s: float,
    worst: IntArray,
    is_late_served: bool,
) -> int:
    """Each taker in order takes the first of its tries that fits; writes its plan.

    Args:
        rows: takers in order.
        hold_s: a step up sooner than this happens now instead: no size can change so soon after.
        worst: (J,) stop before a taker whose grade is worse than this; empty: nobody's is too bad.
        is_late_served: one whom no try fits takes, from now on, what there is; else nothing.

    Returns: how many of `rows` were served.

    References: ElasticFlow, section 4.1, Algorithm 1.
    """
    for position in range(len(rows)):
        row = rows[position]
        num = takers.num_levels[row]
        devices, rates = takers.devices[row, :num], takers.rates[row, :num]
        chosen, level, cut_s = _first_that_fits(profile, takers, row, devices, rates, hold_s)
        plans.grade[row] = takers.grades[chosen]
        if len(worst) > 0 and plans.grade[row] > worst[row]:
            return position
        plans.top[row], plans.now[row], plans.keep[row] = 0, 0, 0
        plans.change_s[row], plans.end_s[row] = np.inf, 0.0
        if chosen < len(takers.is_at_once):
            end_s = takers.ends_s[row, chosen]
            held = takers.held[row]
            if takers.is_at_once[chosen] and held > (level if cut_s == 0.0 else level - 1):
                easy, _ = _find_level(profile, takers.work[row, chosen], takers.easy_s[row], devices, rates)
                plans.keep[row] = min(held, easy) if easy > 0 else held
            is_worth_no_shrink = takers.is_early[chosen] or end_s < takers.shrink_s[row]
            if is_worth_no_shrink and held > level:
                level, cut_s = held, 0.0
                end_s = _end_if_early(profile, takers.work[row, chosen], devices[:level], rates[:level])
            _take(profile, plans, row, end_s, cut_s, level, devices)
            plans.top[row] = level
        elif is_late_served:
            end_s = _end_if_early(profile, takers.left[row], devices, rates)
            _take(profile, plans, row, end_s, 0.0, num, devices)
    return len(rows)


@part
def _first_that_fits(
    profile: FreeSegments, takers: Takers, row: int, devices: IntArray, rates: FloatArray, hold_s: float
) -> tuple[int, int, float]:
    """(number of the try, level, time from which on it is needed); one level less will do before that."""
    for attempt in range(len(takers.is_at_once)):
        need, end_s = takers.work[row, attempt], takers.ends_s[row, attempt]
        level, cut_s = _find_level(profile, need, end_s, devices, rates)
        if level == 0:
            continue
        is_stopped_for = level == 1 and cut_s < takers.stop_s[row]
        is_kept = takers.held[row] >= level and cut_s < takers.shrink_s[row]
        if takers.is_early[attempt] or cut_s < hold_s or is_stopped_for or is_kept:
            cut_s = 0.0
        first = profile.free[profile.order[0], 0]
        level_now = level if cut_s == 0.0 else level - 1
        if not takers.is_at_once[attempt] or _fitting(level_now, first, devices) > 0:
            return attempt, level, cut_s
    return len(takers.is_at_once), 0, 0.0


@part
def _find_level(
    profile: FreeSegments, need: float, end_s: float, devices: IntArray, rates: FloatArray
) -> tuple[int, float]:
    """(lowest level that does `need` work before `end_s`, latest time from which on it is needed).

    (0, 0.0) if the highest level does not suffice. Before that time the level is one less.

    References: ElasticFlow, section 4.1, Algorithm 1, lines 11-22, in continuous time.
    """
    if not end_s > 0.0:
        return 0, 0.0
    starts_s, free, used, least, most, order, _ = profile
    enough = need * (1.0 - TOLERANCE_SHARE)
    last, _ = _locate(profile, end_s)
    rate_below, done = 0.0, 0.0
    for level in range(1, len(devices) + 1):  # Algorithm 1, line 13: j from 1 to G
        slope, until_s = rates[level - 1] - rate_below, end_s
        for position in range(last, -1, -1):  # line 14: t from D_i down to startTime
            block = order[position]
            is_whole = least[block] >= devices[level - 1]
            is_none = most[block] < devices[level - 1]
            for segment in range(0 if is_whole or is_none else used[block] - 1, -1, -1):
                start_s = starts_s[block, segment]
                if start_s >= until_s:
                    continue
                # line 15: what is left is floored to a lower level
                if is_whole or free[block, segment] >= devices[level - 1]:
                    gain = slope * (until_s - start_s)
                    if done + gain >= enough:  # lines 17-19
                        return level, max(start_s, until_s - max(need - done, 0.0) / slope)
                    done += gain
                until_s = start_s
        rate_below = rates[level - 1]
    return 0, 0.0


@part
def _end_if_early(profile: FreeSegments, need: float, devices: IntArray, rates: FloatArray) -> float:
    """When `need` is done with the highest level that fits, whatever it is, from now on; inf if never."""
    done, start_s, rate = 0.0, 0.0, 0.0
    for position in range(profile.num_blocks[0]):
        block = profile.order[position]
        for segment in range(profile.used[block]):
            gain = rate * (profile.starts_s[block, segment] - start_s)
            if done + gain >= need:
                return start_s + max(need - done, 0.0) / rate
            done, start_s = done + gain, profile.starts_s[block, segment]
            level = _fitting(len(devices), profile.free[block, segment], devices)
            rate = rates[level - 1] if level > 0 else 0.0
    return start_s + max(need - done, 0.0) / rate if rate > 0.0 else np.inf


@part
def _take(
    profile: FreeSegments, plans: Plans, row: int, end_s: float, cut_s: float, level: int, devices: IntArray
) -> None:
    """Take `level` from `cut_s` to `end_s` and one less before, floored to what is free; write the plan.

    Nothing is needed for what may end at infinity.
    """
    if end_s == np.inf:
        return
    _split(profile, end_s)
    _split(profile, cut_s)
    starts_s, free, used, least, most, order, num_blocks = profile
    now, top, change_s, last_s = 0, 0, end_s, 0.0
    is_on = False
    for position in range(0 if level > 1 else _locate(profile, cut_s)[0], num_blocks[0]):
        block = order[position]
        start_s = starts_s[block, 0]
        if start_s >= end_s:
            break
        stop_s = np.inf if position + 1 == num_blocks[0] else starts_s[order[position + 1], 0]
        is_whole = stop_s <= end_s and (start_s >= cut_s or stop_s <= cut_s)
        given = level if start_s >= cut_s else level - 1
        is_whole = is_whole and _fitting(given, least[block], devices) == given
        for segment in range(1 if is_whole else used[block]):
            start_s = starts_s[block, segment]
            if start_s >= end_s:
                break
            if not is_whole:
                given = _fitting(level if start_s >= cut_s else level - 1, free[block, segment], devices)
                free[block, segment] -= devices[given - 1] if given > 0 else 0
            if start_s == 0.0:
                now = given
            elif given != now and change_s == end_s:
                change_s = start_s
            if is_on and given == 0:
                last_s = start_s
            is_on = given > 0
            top = max(top, given)
        if is_whole and given > 0:
            for segment in range(used[block]):
                free[block, segment] -= devices[given - 1]
            least[block] -= devices[given - 1]
            most[block] -= devices[given - 1]
        elif not is_whole:
            _sum_up(free[block, : used[block]], least, most, block)
    plans.now[row], plans.top[row], plans.change_s[row] = now, top, change_s
    plans.end_s[row] = end_s if is_on else last_s


# Blocks


@part
def _fitting(level: int, free: int, devices: IntArray) -> int:
    """The highest level up to `level` that so many devices are enough for."""
    while level > 0 and devices[level - 1] > free:
        level -= 1
    return level


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
    """Count anew what is free in a block."""
    least[block] = most[block] = free[0]
    for segment in range(1, len(free)):
        least[block] = min(least[block], free[segment])
        most[block] = max(most[block], free[segment])
