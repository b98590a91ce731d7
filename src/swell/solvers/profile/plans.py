"""Who takes, what they take, and what a plan does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.compiled import part, small_part
from swell.solvers.profile.segments import FreeSegments, are_free, take_between

#: Work smaller than this share of the whole counts as done: sums of segments are not exact.
TOLERANCE_SHARE = 1e-9
#: Where that fits, a plan is made for more work than there is: for what the highest rate does in this time.
#: Else the rounding of a sum of times could put its end a moment behind the start of another plan, which
#: would have to be made again for that, and so on.
SPARE_S = 0.0001
#: Times that differ by less are the same: they are sums of others.
SAME_TIME_S = 1e-6
MOST_SEGMENTS = 16  #: a plan has at most so many
TAKE_ROOM = MOST_SEGMENTS + 2  #: blocks that are needed at most to take what a plan takes

MOMENT_S = 0.05  #: no plan has a step up sooner than this

#: How a taker is planned.
AS_PLANNED, LATE, EARLY, AS_BELIEVED = 0, 1, 2, 3
#: How well its plan does its work in time: with the margin, if all goes as believed, or not.
MARGIN, JUST, BROKEN = 0, 1, 2


class Takers(NamedTuple):
    """J takers: work that is to be done by a time, and what changes cost."""

    devices: IntArray  #: (J, L) ascending
    rates: FloatArray  #: (J, L) work per second, with the margin, strictly ascending
    believed_rates: FloatArray  #: (J, L) the same as believed, no lower
    start_s: FloatArray  #: (J, L) from nothing to a level
    resize_s: FloatArray  #: (J, L) to a level from another one
    num_levels: IntArray  #: (J,) the first so many of a row count
    held: IntArray  #: (J,) level that a taker has; -1 if what it has is between two levels
    idle_s: FloatArray  #: (J,) for which it does no work from now on, for a change is under way
    #: (J,) who cannot have another level than the held one before `idle_s`; until then its devices are not
    #: free in the profile: they are given back when it has its turn
    is_bound: BoolArray
    work: FloatArray  #: (J, 2) with the margin, and at the believed rates
    until_s: FloatArray  #: (J,)


class Plans(NamedTuple):
    """What takers take: segment i of a plan lasts until the next one begins, the last one until its end."""

    grade: IntArray  #: (J,) MARGIN, JUST or BROKEN; -1 for those that had no turn
    num: IntArray  #: (J,) segments; 0: there is no plan
    starts_s: FloatArray  #: (J, MOST_SEGMENTS) the first is 0
    levels: IntArray  #: (J, MOST_SEGMENTS)
    end_s: FloatArray  #: (J,) when the last of the taken capacity is given back
    now: IntArray  #: (J,) level at time 0
    top: IntArray  #: (J,) the highest level
    change_s: FloatArray  #: (J,) when the level first differs from that of now; the end if it never does


@part
def as_believed(takers: Takers) -> Takers:
    """The same at the believed rates."""
    return Takers(
        takers.devices,
        takers.believed_rates,
        takers.believed_rates,
        takers.start_s,
        takers.resize_s,
        takers.num_levels,
        takers.held,
        takers.idle_s,
        takers.is_bound,
        takers.work,
        takers.until_s,
    )


@small_part
def cost_s(takers: Takers, row: int, before: int, level: int) -> float:
    """Time without work when going from one level to another."""
    if level == 0 or level == before:
        return 0.0
    return takers.start_s[row, level - 1] if before == 0 else takers.resize_s[row, level - 1]  # type: ignore[no-any-return]


@small_part
def lost(before: int, level: int) -> float:
    """Work that is under way when a level is left, and may not count."""
    return 1.0 if before > 0 and level != before else 0.0


@part
def done_s(takers: Takers, plans: Plans, row: int, work: float, until_s: float) -> float:
    """When the plan has done so much; inf if it does not by then. All pauses are waited out one by one.

    No plan does anything that changes what is being started before that is up.
    """
    level, pause_s, done = takers.held[row], takers.idle_s[row], 0.0
    bound_s, has_run = pause_s if takers.is_bound[row] else 0.0, level != 0
    for segment in range(plans.num[row]):
        start_s, after = plans.starts_s[row, segment], plans.levels[row, segment]
        if after != level and start_s < bound_s - SAME_TIME_S:
            return np.inf
        takes_s = cost_s(takers, row, level, after)
        if level == 0 and after > 0:
            if has_run:  # when its stop is due it may be kept as it is: then this is a resize
                takes_s = max(takes_s, takers.resize_s[row, after - 1])
            bound_s, has_run = start_s + takes_s, True
        done -= lost(level, after)
        end_s = plans.starts_s[row, segment + 1] if segment + 1 < plans.num[row] else until_s
        pause_s += takes_s
        level = after
        if level == 0:  # to be stopped, it may run on all the same: the pause under way is waited out
            pause_s = max(pause_s - (end_s - start_s), 0.0)
            continue
        rate, length_s = takers.rates[row, level - 1], min(end_s, until_s) - start_s
        waited_s = min(pause_s, length_s)
        pause_s -= waited_s
        if done + rate * (length_s - waited_s) >= work * (1.0 - TOLERANCE_SHARE):
            return start_s + waited_s + max(work - done, 0.0) / rate  # type: ignore[no-any-return]
        done += rate * max(length_s - waited_s, 0.0)
    return np.inf


@small_part
def spare_of(takers: Takers, row: int) -> float:
    """Work that a plan is made for beyond what there is."""
    num_levels = takers.num_levels[row]
    return SPARE_S * takers.rates[row, num_levels - 1] if num_levels > 0 else 0.0


@small_part
def holds(takers: Takers, plans: Plans, row: int, work: float, spare: float) -> bool:
    """Whether its plan does so much in time; if so, the plan ends when that and what is to spare is done."""
    return _ends_by(takers, plans, row, work, spare, min(plans.end_s[row], takers.until_s[row]))


@small_part
def end_later(takers: Takers, plans: Plans, row: int, work: float, spare: float) -> bool:
    """Whether its plan does so much in time if its last level lasts longer; if so, that is its plan."""
    return _ends_by(takers, plans, row, work, spare, takers.until_s[row])


@small_part
def _ends_by(takers: Takers, plans: Plans, row: int, work: float, spare: float, until_s: float) -> bool:
    """Whether its plan does so much by then; if so, it ends when that and what is to spare is done."""
    end_s = done_s(takers, plans, row, work + spare, until_s)
    if end_s == np.inf and done_s(takers, plans, row, work, until_s) == np.inf:
        return False
    plans.end_s[row] = min(end_s, until_s)
    return True


@part
def step_sooner(takers: Takers, plans: Plans, row: int, work: float, spare: float) -> bool:
    """Whether its plan does so much in time if its first step up is sooner, by no more than it takes.

    If so, that is its plan.
    """
    if plans.num[row] < 2 or plans.levels[row, 1] <= plans.levels[row, 0]:
        return False
    latest_s, last = plans.starts_s[row, 1], plans.levels[row, plans.num[row] - 1]
    too_late_s = done_s(takers, plans, row, work, np.inf) - min(plans.end_s[row], takers.until_s[row])
    if last == 0 or too_late_s == np.inf:
        return False
    lower, higher = plans.levels[row, 0], plans.levels[row, 1]
    gain = takers.rates[row, higher - 1] - (takers.rates[row, lower - 1] if lower > 0 else 0.0)
    plans.starts_s[row, 1] = latest_s - too_late_s * takers.rates[row, last - 1] / gain
    if plans.starts_s[row, 1] > 0.0 and holds(takers, plans, row, work, spare):
        return True
    plans.starts_s[row, 1] = latest_s
    return False


@part
def finish(takers: Takers, plans: Plans, row: int) -> None:
    """Write what follows from its segments."""
    num, end_s = plans.num[row], plans.end_s[row]
    while num > 1 and plans.starts_s[row, num - 1] >= end_s:
        num -= 1
    plans.num[row] = num
    plans.now[row], plans.top[row], plans.change_s[row] = 0, 0, np.inf
    if num == 0:
        plans.end_s[row] = 0.0
        return
    plans.now[row], plans.change_s[row] = plans.levels[row, 0], end_s
    for segment in range(num):
        level = plans.levels[row, segment]
        plans.top[row] = max(plans.top[row], level)
        if level != plans.now[row] and plans.change_s[row] == end_s:
            plans.change_s[row] = plans.starts_s[row, segment]


@part
def append(plans: Plans, row: int, start_s: float, level: int) -> bool:
    """Another segment; False if there are too many."""
    num = plans.num[row]
    if num > 0 and plans.levels[row, num - 1] == level:
        return True
    if num > 0 and plans.starts_s[row, num - 1] >= start_s:
        plans.levels[row, num - 1] = level
        return True
    if num == MOST_SEGMENTS:
        return False
    plans.starts_s[row, num], plans.levels[row, num] = start_s, level
    plans.num[row] = num + 1
    return True


@part
def is_free(profile: FreeSegments, takers: Takers, plans: Plans, row: int) -> bool:
    """Whether all that its plan takes is there."""
    for segment in range(plans.num[row]):
        level = plans.levels[row, segment]
        if level == 0:
            continue
        need, start_s = takers.devices[row, level - 1], plans.starts_s[row, segment]
        end_s = plans.end_s[row]
        if segment + 1 < plans.num[row]:
            end_s = min(plans.starts_s[row, segment + 1], end_s)
        if end_s > start_s and not are_free(profile, start_s, end_s, need):
            return False
    return True


@part
def take(profile: FreeSegments, takers: Takers, plans: Plans, row: int, sign: int) -> None:
    """Take what its plan needs; with a sign of -1 give it back."""
    for segment in range(plans.num[row]):
        level = plans.levels[row, segment]
        if level == 0:
            continue
        num, start_s = sign * takers.devices[row, level - 1], plans.starts_s[row, segment]
        end_s = plans.starts_s[row, segment + 1] if segment + 1 < plans.num[row] else plans.end_s[row]
        take_between(profile, start_s, end_s, num)
