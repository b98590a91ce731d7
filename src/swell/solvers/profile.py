"""Free capacity over time, and plans that take from it and pay for each of their changes.

Time runs from 0 (now). A *level* is one of a taker's sizes, numbered from 1 in ascending order; level 0 is
nothing. A plan is a list of levels over time. A start, and each change between two levels, takes time in
which no work is done; going to nothing takes none.

All of this is one kernel (`compiled`) and its parts: numbers, arrays and loops. `filling` calls it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.compiled import part

#: Work smaller than this share of the whole counts as done: sums of segments are not exact.
TOLERANCE_SHARE = 1e-9
#: Where that fits, a plan is made for more work than there is: for what the highest rate does in this time.
#: Else the rounding of a sum of times could put its end a moment behind the start of another plan, which
#: would have to be made anew for that, and so on.
SPARE_S = 0.0001
WIDTH = 32  #: segments a block has at most
MOST_SEGMENTS = 16  #: a plan has at most so many
MOST_RUNS = 512  #: stretches of one free level that are told apart; behind them the least that is free counts

MOMENT_S = 0.05  #: no plan has a step up sooner than this

FAR_S = 1e9  #: as good as never
NUM_HALVINGS = 24  #: until a time is known well enough

#: How a taker is planned.
AS_PLANNED, LATE, EARLY = 0, 1, 2
#: How well its plan does its work in time: with the margin, if all goes as believed, or not.
MARGIN, JUST, BROKEN = 0, 1, 2
#: Whether there is a plan; TOO_RAGGED: there is, but with more segments than a plan may have.
NONE, TOO_RAGGED, FOUND = 0, 1, 2


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


class Takers(NamedTuple):
    """J takers: work that is to be done by a time, and what changes cost."""

    devices: IntArray  #: (J, L) ascending
    rates: FloatArray  #: (J, L) work per second, strictly ascending
    start_s: FloatArray  #: (J, L) from nothing to a level
    resize_s: FloatArray  #: (J, L) to a level from another one
    num_levels: IntArray  #: (J,) the first so many of a row count
    held: IntArray  #: (J,) level that a taker has; -1 if what it has is between two levels
    idle_s: FloatArray  #: (J,) for which it does no work from now on, for a change is under way
    #: (J,) who cannot have another level than the held one before `idle_s`; until then its devices are not
    #: free in the profile: they are given back when it has its turn
    is_bound: BoolArray
    work: FloatArray  #: (J, 2) with the margin, and as believed
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
def fill_in_order(
    profile: FreeSegments,
    takers: Takers,
    plans: Plans,
    rows: IntArray,
    how: IntArray,
    worst: IntArray,
    is_late_served: bool,
) -> int:
    """Each taker in order takes what its plan needs; a plan that does not hold any more is made anew, late.

    Args:
        rows: takers in order.
        how: (n,) AS_PLANNED: by the plan that `plans` has, if that still does the work in time and is free.
            LATE: at the lowest level that suffices, as late as can be. EARLY: as much as is useful, from now
            on. One that is done in time in no such way is tried without the margin.
        worst: (J,) stop before a taker whose grade is worse than this; empty: none is too bad.
        is_late_served: one that cannot be in time takes, from now on, what there is; else nothing.

    Returns: how many of `rows` were served; fewer than all, too, if there may be too few blocks for the next.

    References: ElasticFlow, section 4.1, Algorithm 1.
    """
    for position in range(len(rows)):
        row = rows[position]
        if profile.num_blocks[0] + MOST_SEGMENTS + 2 > len(profile.order):
            return position
        held_devices = takers.devices[row, takers.held[row] - 1] if takers.is_bound[row] else 0
        _take_between(profile, 0.0, takers.idle_s[row], -held_devices)
        grade = _plan_one(
            profile, takers, plans, row, how[position], worst[row] if len(worst) > 0 else BROKEN
        )
        if len(worst) > 0 and grade > worst[row]:
            _take_between(profile, 0.0, takers.idle_s[row], held_devices)
            return position
        plans.grade[row] = grade
        if grade == BROKEN:
            plans.num[row] = 0
            if is_late_served:
                _plan_early(profile, takers, plans, row, takers.work[row, 1], np.inf)
        elif not takers.is_bound[row]:
            _hurry(profile, takers, plans, row)
        _finish(takers, plans, row)
        _take(profile, takers, plans, row, 1)
        if takers.is_bound[row] and plans.num[row] == 0:  # without a plan it stays where it is all the same
            _take_between(profile, 0.0, takers.idle_s[row], held_devices)
    return len(rows)


#: A row may need so many more blocks.
ROOM = 2 * MOST_SEGMENTS + 4


def fill_in_groups(
    profile: FreeSegments,
    groups: FreeSegments,
    group: IntArray,
    least: FreeSegments,
    takers: Takers,
    plans: Plans,
    rows: IntArray,
    how: IntArray,
    worst: IntArray,
    is_late_served: bool,
    is_exempt: BoolArray,
) -> int:
    """`fill_in_order`, where some takers may only have what is free for their group, too.

    Args:
        groups: what is free for each group; its columns have the group as a first axis, (G, ...).
        group: (J,) of each taker; below 0: none.
        least: blocks to work with.
        is_exempt: (J,) who may have more than that, and takes it of the group all the same; empty: none.
    """
    known = -1  # the group whose least is known
    for position in range(len(rows)):
        row, one = rows[position], slice(position, position + 1)
        number = group[row]
        if number < 0:
            known = -1
            if fill_in_order(profile, takers, plans, rows[one], how[one], worst, is_late_served) == 0:
                return position
            continue
        own = FreeSegments(
            groups.starts_s[number],
            groups.free[number],
            groups.used[number],
            groups.least[number],
            groups.most[number],
            groups.order[number],
            groups.num_blocks[number],
        )
        num_blocks = profile.num_blocks[0], own.num_blocks[0]
        if num_blocks[0] + ROOM > len(profile.order) or num_blocks[1] + ROOM > len(own.order):
            return position
        if 2 * (num_blocks[0] + num_blocks[1]) + ROOM > len(least.order):
            return position
        if len(is_exempt) > 0 and is_exempt[row]:
            known = -1
            if fill_in_order(profile, takers, plans, rows[one], how[one], worst, is_late_served) == 0:
                return position
        elif how[position] == AS_PLANNED and _stays(profile, own, takers, plans, row):
            known = -1
            plans.grade[row] = MARGIN
            _finish(takers, plans, row)
            _take(profile, takers, plans, row, 1)
            _take(own, takers, plans, row, 1)
            continue
        else:
            if number != known or least.num_blocks[0] + ROOM > len(least.order):
                write_least(profile, own, least)
                known = number  # what it takes is taken of the least, too
            if fill_in_order(least, takers, plans, rows[one], how[one], worst, is_late_served) == 0:
                return position
            take_as_planned(profile, takers, plans, rows[one])
        take_as_planned(own, takers, plans, rows[one])
    return len(rows)


@part
def _stays(profile: FreeSegments, own: FreeSegments, takers: Takers, plans: Plans, row: int) -> bool:
    """Whether its plan does its work in time, with the margin, and is free in both: so most plans are kept.

    Of a plan that is to be looked at more closely the answer is no.
    """
    if plans.num[row] == 0 or takers.is_bound[row]:
        return False
    if plans.num[row] >= 2 and plans.starts_s[row, 1] <= MOMENT_S:
        return False
    if not _is_free(profile, takers, plans, row) or not _is_free(own, takers, plans, row):
        return False
    return _holds(takers, plans, row, takers.work[row, MARGIN], _spare(takers, row))


@part
def _hurry(profile: FreeSegments, takers: Takers, plans: Plans, row: int) -> None:
    """A step up that is due in a moment is taken now, if that is free and in time.

    It may not be: what is held is resized then, where the plan would have left it and started anew.
    """
    if plans.num[row] < 2 or plans.starts_s[row, 1] > MOMENT_S:
        return
    lower, higher, end_s = plans.levels[row, 0], plans.levels[row, 1], plans.end_s[row]
    if higher > lower:
        plans.levels[row, 0] = higher
        is_in_time = _holds(takers, plans, row, takers.work[row, plans.grade[row]], _spare(takers, row))
        if not is_in_time or not _is_free(profile, takers, plans, row):
            plans.levels[row, 0], plans.end_s[row] = lower, end_s


@part
def _plan_one(profile: FreeSegments, takers: Takers, plans: Plans, row: int, how: int, worst: int) -> int:
    """Write its plan, in the way asked for if that does; returns its grade, or one worse than `worst`."""
    until_s, need, just = takers.until_s[row], takers.work[row, MARGIN], takers.work[row, JUST]
    spare = _spare(takers, row)
    num, end_s = plans.num[row], plans.end_s[row]
    starts_s, levels = plans.starts_s[row].copy(), plans.levels[row].copy()
    is_kept = how == AS_PLANNED and num > 0 and _is_free(profile, takers, plans, row)
    is_kept = is_kept and (plans.levels[row, 0] == takers.held[row] or not takers.is_bound[row])
    if is_kept and _keeps(profile, takers, plans, row, need, spare):
        return MARGIN
    for work in (need + spare, need):
        if how == EARLY and _plan_early(profile, takers, plans, row, work, until_s):
            return MARGIN
        if _plan_late(profile, takers, plans, row, work):
            return MARGIN
    if worst == MARGIN:
        return BROKEN
    plans.num[row], plans.end_s[row] = num, end_s
    plans.starts_s[row], plans.levels[row] = starts_s, levels
    if is_kept and _keeps(profile, takers, plans, row, just, spare):
        return JUST
    for work in (just + spare, just):
        if _plan_early(profile, takers, plans, row, work, until_s):
            return JUST
        if _plan_late(profile, takers, plans, row, work):
            return JUST
    return BROKEN


# What a plan does


@part
def _cost_s(takers: Takers, row: int, before: int, level: int) -> float:
    """Time without work when going from one level to another."""
    if level == 0 or level == before:
        return 0.0
    return takers.start_s[row, level - 1] if before == 0 else takers.resize_s[row, level - 1]  # type: ignore[no-any-return]


@part
def _lost(before: int, level: int) -> float:
    """Work that is under way when a level is left, and may not count."""
    return 1.0 if before > 0 and level != before else 0.0


@part
def _done_s(takers: Takers, plans: Plans, row: int, work: float, until_s: float) -> float:
    """When the plan has done so much; inf if it does not by then. All pauses are waited out one by one."""
    level, pause_s, done = takers.held[row], takers.idle_s[row], 0.0
    for segment in range(plans.num[row]):
        start_s, after = plans.starts_s[row, segment], plans.levels[row, segment]
        done -= _lost(level, after)
        end_s = plans.starts_s[row, segment + 1] if segment + 1 < plans.num[row] else until_s
        pause_s += _cost_s(takers, row, level, after)
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


@part
def _spare(takers: Takers, row: int) -> float:
    """Work that a plan is made for beyond what there is."""
    num_levels = takers.num_levels[row]
    return SPARE_S * takers.rates[row, num_levels - 1] if num_levels > 0 else 0.0


@part
def _holds(takers: Takers, plans: Plans, row: int, work: float, spare: float) -> bool:
    """Whether its plan does so much in time; if so, the plan ends when that and what is to spare is done."""
    end_s = min(plans.end_s[row], takers.until_s[row])
    if _done_s(takers, plans, row, work, end_s) == np.inf:
        return False
    plans.end_s[row] = min(_done_s(takers, plans, row, work + spare, end_s), end_s)
    return True


@part
def _mend(profile: FreeSegments, takers: Takers, plans: Plans, row: int, work: float, spare: float) -> bool:
    """The same plan, but with a later end, or with a sooner first step up, by no more than it takes."""
    end_s, until_s = plans.end_s[row], takers.until_s[row]
    if _done_s(takers, plans, row, work, until_s) < np.inf:
        plans.end_s[row] = min(_done_s(takers, plans, row, work + spare, until_s), until_s)
        if _is_free(profile, takers, plans, row):
            return True
        plans.end_s[row] = end_s
    if plans.num[row] < 2 or plans.levels[row, 1] <= plans.levels[row, 0]:
        return False
    latest_s = plans.starts_s[row, 1]
    sooner_s, later_s = 0.0, latest_s
    for _ in range(NUM_HALVINGS):
        plans.starts_s[row, 1] = (sooner_s + later_s) / 2.0
        if _done_s(takers, plans, row, work, min(end_s, until_s)) < np.inf:
            sooner_s = plans.starts_s[row, 1]
        else:
            later_s = plans.starts_s[row, 1]
    plans.starts_s[row, 1] = sooner_s
    if _holds(takers, plans, row, work, spare) and _is_free(profile, takers, plans, row):
        return True
    plans.starts_s[row, 1], plans.end_s[row] = latest_s, end_s
    return False


@part
def _keeps(profile: FreeSegments, takers: Takers, plans: Plans, row: int, work: float, spare: float) -> bool:
    """Whether its plan, or a little more than that, does so much in time."""
    return _holds(takers, plans, row, work, spare) or _mend(profile, takers, plans, row, work, spare)


@part
def _finish(takers: Takers, plans: Plans, row: int) -> None:
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
def _append(plans: Plans, row: int, start_s: float, level: int) -> bool:
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


# Making plans


@part
def _runs(
    profile: FreeSegments, until_s: float, devices: IntArray, starts_s: FloatArray, fits: IntArray
) -> int:
    """Write from when on which level is the highest that fits, until then; returns how many there are."""
    num, most = 0, devices[len(devices) - 1]
    for position in range(profile.num_blocks[0]):
        block = profile.order[position]
        if profile.starts_s[block, 0] >= until_s:
            break
        is_all, is_none = profile.least[block] >= most, profile.most[block] < devices[0]
        for segment in range(1 if is_all or is_none else profile.used[block]):
            start_s = profile.starts_s[block, segment]
            if start_s >= until_s:
                break
            if is_all or is_none:
                fit = len(devices) if is_all else 0
            else:
                fit = _fitting(len(devices), profile.free[block, segment], devices)
            if num > 0 and fits[num - 1] == fit:
                continue
            if num == MOST_RUNS:
                fits[num - 1] = min(fits[num - 1], fit)
                continue
            starts_s[num], fits[num] = start_s, fit
            num += 1
    return num


@part
def _coarsen(
    rates: FloatArray, until_s: float, starts_s: FloatArray, fits: IntArray, num: int, most: int
) -> int:
    """The same with fewer runs: neighbours become one of what is free in both, where that loses least."""
    if num <= most:
        return num
    losses = np.empty(num)
    for run in range(num - 1):
        losses[run] = _loss(rates, until_s, starts_s, fits, num, run)
    while num > most:
        best = int(np.argmin(losses[: num - 1]))
        fits[best] = min(fits[best], fits[best + 1])
        for run in range(best + 1, num - 1):
            starts_s[run], fits[run], losses[run] = starts_s[run + 1], fits[run + 1], losses[run + 1]
        num -= 1
        for run in range(max(best, 1) - 1, min(best + 1, num - 1)):
            losses[run] = _loss(rates, until_s, starts_s, fits, num, run)
    return num


@part
def _loss(
    rates: FloatArray, until_s: float, starts_s: FloatArray, fits: IntArray, num: int, run: int
) -> float:
    """Work that is lost if a run and the next one become one."""
    fit, middle_s = min(fits[run], fits[run + 1]), starts_s[run + 1]
    rate = rates[fit - 1] if fit > 0 else 0.0
    if fits[run] > fit:
        return (rates[fits[run] - 1] - rate) * (middle_s - starts_s[run])  # type: ignore[no-any-return]
    if fits[run + 1] > fit:
        end_s = min(starts_s[run + 2] if run + 2 < num else until_s, FAR_S)
        return (rates[fits[run + 1] - 1] - rate) * max(end_s - middle_s, 0.0)  # type: ignore[no-any-return]
    return 0.0


@part
def _bind(idle_s: float, starts_s: FloatArray, fits: IntArray, num: int) -> int:
    """The same with one run until `idle_s`, of what is free all the while; returns how many there are."""
    last = 0
    while last + 1 < num and starts_s[last + 1] < idle_s:
        last += 1
        fits[0] = min(fits[0], fits[last])
    if last == 0:
        return num
    starts_s[1], fits[1] = idle_s, fits[last]
    for run in range(last + 1, num):
        starts_s[run - last + 1], fits[run - last + 1] = starts_s[run], fits[run]
    return num - last + 1


@part
def _plan_late(profile: FreeSegments, takers: Takers, plans: Plans, row: int, work: float) -> bool:
    """The lowest level that suffices, from as late on as can be; one less before that.

    References: ElasticFlow, section 4.1, Algorithm 1, lines 11-22, in continuous time.
    """
    until_s, num_levels = takers.until_s[row], takers.num_levels[row]
    if until_s == np.inf:  # nothing is needed for what may end at infinity
        plans.num[row], plans.end_s[row] = 0, 0.0
        return True
    if not until_s > 0.0 or num_levels == 0:
        return False
    starts_s, fits = np.empty(MOST_RUNS), np.empty(MOST_RUNS, dtype=np.int64)
    lowest = max(takers.held[row], 1) if takers.is_bound[row] else 1
    num = _runs_of(profile, takers, row, num_levels, starts_s, fits)
    if _most(takers, row, starts_s, fits, num) < work * (1.0 - TOLERANCE_SHARE):
        return False
    for level in range(lowest, num_levels + 1):  # Algorithm 1, line 13: j from 1 to G
        if takers.rates[row, level - 1] * until_s < work * (1.0 - TOLERANCE_SHARE):
            continue
        num = _runs_of(profile, takers, row, level, starts_s, fits)
        if _most(takers, row, starts_s, fits, num) < work * (1.0 - TOLERANCE_SHARE):
            continue
        found = _plan_up_to(takers, plans, row, level, work, starts_s[:num], fits[:num])
        if found == TOO_RAGGED and num > MOST_SEGMENTS - 2:
            num = _coarsen(takers.rates[row], until_s, starts_s, fits, num, MOST_SEGMENTS - 2)
            found = _plan_up_to(takers, plans, row, level, work, starts_s[:num], fits[:num])
        if found == FOUND:
            return True
    return False


@part
def _runs_of(
    profile: FreeSegments, takers: Takers, row: int, level: int, starts_s: FloatArray, fits: IntArray
) -> int:
    """Write from when on how much fits of the levels up to this one; returns how many such runs there are."""
    num = _runs(profile, takers.until_s[row], takers.devices[row, :level], starts_s, fits)
    return _bind(takers.idle_s[row], starts_s, fits, num) if takers.is_bound[row] else num


@part
def _most(takers: Takers, row: int, starts_s: FloatArray, fits: IntArray, num: int) -> float:
    """Work that is done at most in these runs, if changes take no time."""
    most, end_s = 0.0, takers.until_s[row]
    for run in range(num - 1, -1, -1):
        if fits[run] > 0:
            most += takers.rates[row, fits[run] - 1] * (end_s - starts_s[run])
        end_s = starts_s[run]
    return most


@part
def _plan_up_to(
    takers: Takers, plans: Plans, row: int, level: int, work: float, starts_s: FloatArray, fits: IntArray
) -> int:
    """A plan with at most this level, from a time on that is as late as can be, and at most one less before.

    A dynamic program over the runs, forwards with the lower levels and backwards with all of them: the most
    work for each level that is had in a run. A pause counts as negative work at the level that it leads to,
    so what is longer than its run is waited out in the next one.

    Returns: FOUND, TOO_RAGGED if those that were found have too many segments, or NONE.
    """
    num, until_s = len(starts_s), takers.until_s[row]
    before = np.full((num, level), -np.inf)  # on entering a run at a level below the highest
    came_from = np.zeros((num, level), dtype=np.int64)
    after = np.full((num, level + 1), -np.inf)  # from the end of a run on, at this level in it
    goes_to = np.zeros((num, level + 1), dtype=np.int64)
    for run in range(num):
        _enter(takers, row, starts_s, fits, run, before, came_from)
    answer = NONE
    for run in range(num - 1, -1, -1):  # line 14: t from D_i down to startTime
        if run == num - 1:
            after[run, : fits[run] + 1] = 0.0
        else:
            _leave(takers, row, starts_s, fits, run, after, goes_to)
        cut_s, low, high = _latest_cut(takers, row, starts_s, fits, run, work, before, after)
        if cut_s < 0.0:
            continue
        if _write(takers, plans, row, work, starts_s, came_from, goes_to, run, cut_s, low, high):
            return FOUND
        answer = TOO_RAGGED
    high, best = 0, -np.inf
    end_s = starts_s[1] if num > 1 else until_s
    for higher in range(fits[0] + 1):
        if takers.is_bound[row] and higher != takers.held[row]:
            continue
        rate = takers.rates[row, higher - 1] if higher > 0 else 0.0
        pause_s = _cost_s(takers, row, takers.held[row], higher) + takers.idle_s[row]
        value = after[0, higher] + rate * (end_s - pause_s) - _lost(takers.held[row], higher)
        if value > best:
            best, high = value, higher
    if best < work * (1.0 - TOLERANCE_SHARE):
        return answer
    is_found = _write(takers, plans, row, work, starts_s, came_from, goes_to, 0, 0.0, high, high)
    return FOUND if is_found else TOO_RAGGED


@part
def _enter(
    takers: Takers,
    row: int,
    starts_s: FloatArray,
    fits: IntArray,
    run: int,
    before: FloatArray,
    came_from: IntArray,
) -> None:
    """Write the most work that is done on entering a run at each level, and the level that was had before."""
    rates, held, level = takers.rates[row], takers.held[row], before.shape[1]
    if run == 0:
        for higher in range(min(fits[0], level - 1) + 1):
            if higher == held or not takers.is_bound[row]:
                rate = rates[higher - 1] if higher > 0 else 0.0
                pause_s = _cost_s(takers, row, held, higher) + takers.idle_s[row]
                before[0, higher] = -rate * pause_s - _lost(held, higher)
        return
    length_s, waits_s = starts_s[run] - starts_s[run - 1], max(takers.idle_s[row] - starts_s[run], 0.0)
    most, best, lowest = min(fits[run - 1], level - 1), -np.inf, 0
    for lower in range(1, most + 1):  # all but nothing are left at the same cost: the best of them will do
        done = before[run - 1, lower] + rates[lower - 1] * length_s
        if done > best:
            best, lowest = done, lower
    nothing = before[run - 1, 0]
    for higher in range(min(fits[run], level - 1) + 1):
        rate = rates[higher - 1] if higher > 0 else 0.0
        value, lower = nothing - rate * (_cost_s(takers, row, 0, higher) + waits_s), 0
        changed = best - rate * (takers.resize_s[row, higher - 1] if higher > 0 else 0.0) - 1.0
        if changed > value:
            value, lower = changed, lowest
        if 0 < higher <= most:
            kept = before[run - 1, higher] + rate * length_s
            if kept >= value:
                value, lower = kept, higher
        before[run, higher], came_from[run, higher] = value, lower


@part
def _leave(
    takers: Takers,
    row: int,
    starts_s: FloatArray,
    fits: IntArray,
    run: int,
    after: FloatArray,
    goes_to: IntArray,
) -> None:
    """Write the most work from the end of a run on, for each level in it, and the level that follows."""
    rates, until_s = takers.rates[row], takers.until_s[row]
    end_s = starts_s[run + 2] if run + 2 < len(starts_s) else until_s
    length_s, waits_s = end_s - starts_s[run + 1], max(takers.idle_s[row] - starts_s[run + 1], 0.0)
    nothing = after[run + 1, 0]
    resized, started = nothing - 1.0, nothing
    resized_to = started_to = 0
    for higher in range(fits[run + 1], 0, -1):
        rate = rates[higher - 1]
        value = after[run + 1, higher] + rate * length_s
        if value - rate * takers.resize_s[row, higher - 1] - 1.0 > resized:
            resized, resized_to = value - rate * takers.resize_s[row, higher - 1] - 1.0, higher
        if value - rate * (takers.start_s[row, higher - 1] + waits_s) > started:
            started, started_to = value - rate * (takers.start_s[row, higher - 1] + waits_s), higher
    after[run, 0], goes_to[run, 0] = started, started_to
    for lower in range(1, fits[run] + 1):
        after[run, lower], goes_to[run, lower] = resized, resized_to
        if lower <= fits[run + 1]:
            kept = after[run + 1, lower] + rates[lower - 1] * length_s
            if kept >= resized:
                after[run, lower], goes_to[run, lower] = kept, lower


@part
def _latest_cut(
    takers: Takers,
    row: int,
    starts_s: FloatArray,
    fits: IntArray,
    run: int,
    work: float,
    before: FloatArray,
    after: FloatArray,
) -> tuple[float, int, int]:
    """(time, level before, level after) of the latest change in a run that suffices; (-1, 0, 0): none."""
    rates, level = takers.rates[row], before.shape[1]
    start_s, end_s = starts_s[run], starts_s[run + 1] if run + 1 < len(starts_s) else takers.until_s[row]
    length_s, best_s, low, high, most = end_s - start_s, -1.0, 0, 0, -np.inf
    for lower in range(min(fits[run], level - 1) + 1):
        most = max(most, before[run, lower])
    for higher in range(fits[run], 0, -1):
        rate = rates[higher - 1]
        if most + after[run, higher] + rate * length_s < work:
            continue
        for lower in range(min(higher, level)):
            slope = rate - (rates[lower - 1] if lower > 0 else 0.0)
            pause_s = _cost_s(takers, row, lower, higher)
            if lower == 0:
                pause_s += max(takers.idle_s[row] - start_s, 0.0)
            done = (
                before[run, lower] + after[run, higher] + rate * (length_s - pause_s) - _lost(lower, higher)
            )
            if done < work:  # line 15: what is left is floored to a lower level
                continue
            cut_s = min((done - work) / slope, length_s)
            if cut_s > best_s:
                best_s, low, high = cut_s, lower, higher
    return (start_s + best_s if best_s >= 0.0 else -1.0), low, high


@part
def _write(
    takers: Takers,
    plans: Plans,
    row: int,
    work: float,
    starts_s: FloatArray,
    came_from: IntArray,
    goes_to: IntArray,
    run: int,
    cut_s: float,
    low: int,
    high: int,
) -> bool:
    """The plan that goes from `low` to `high` at `cut_s`, in this run; whether it does its work in time."""
    levels = np.empty(run + 1, dtype=np.int64)
    levels[run] = low
    for earlier in range(run, 0, -1):
        levels[earlier - 1] = came_from[earlier, levels[earlier]]
    plans.num[row], plans.end_s[row] = 0, takers.until_s[row]
    fits = True
    for earlier in range(run + 1):
        if cut_s > starts_s[earlier]:
            fits = fits and _append(plans, row, starts_s[earlier], levels[earlier])
    fits = fits and _append(plans, row, cut_s, high)
    for later in range(run + 1, len(starts_s)):
        high = goes_to[later - 1, high]
        fits = fits and _append(plans, row, starts_s[later], high)
    return fits and _holds(takers, plans, row, work, 0.0)


@part
def _plan_early(
    profile: FreeSegments, takers: Takers, plans: Plans, row: int, work: float, until_s: float
) -> bool:
    """The highest level that is free, from now on, where a change to it pays; whether that is in time."""
    num_levels = takers.num_levels[row]
    if num_levels == 0 or not until_s > 0.0:
        return False
    starts_s, fits = np.empty(MOST_RUNS), np.empty(MOST_RUNS, dtype=np.int64)
    num = _runs(profile, until_s, takers.devices[row, :num_levels], starts_s, fits)
    if takers.is_bound[row]:
        num = _bind(takers.idle_s[row], starts_s, fits, num)
    num = _coarsen(takers.rates[row], until_s, starts_s, fits, num, MOST_SEGMENTS)
    plans.num[row], plans.end_s[row] = 0, until_s
    level, done, pause_s = takers.held[row], 0.0, takers.idle_s[row]
    for run in range(num):
        length_s = (starts_s[run + 1] if run + 1 < num else np.inf) - starts_s[run]
        if run == 0 and takers.is_bound[row]:
            if fits[0] < level:
                return False
            level_then = level
        else:
            level_then = _worth_most(takers, row, level, fits[run], length_s, pause_s, work - done)
        _append(plans, row, starts_s[run], level_then)
        pause_s += _cost_s(takers, row, level, level_then)
        done -= _lost(level, level_then)
        level = level_then
        if level == 0:
            pause_s = max(pause_s - length_s, 0.0)
        else:
            waited_s = min(pause_s, length_s)
            pause_s -= waited_s
            done += takers.rates[row, level - 1] * (length_s - waited_s)
        if done >= work:
            break
    if until_s == np.inf:
        end_s = _done_s(takers, plans, row, work, np.inf)
        if end_s < np.inf:
            plans.end_s[row] = end_s
        else:
            plans.num[row] = 0
        return end_s < np.inf
    return _holds(takers, plans, row, work, 0.0)


@part
def _worth_most(
    takers: Takers, row: int, level: int, fit: int, length_s: float, pause_s: float, left: float
) -> int:
    """The level that is done first with what is left, or does most of it while the run lasts."""
    best, best_done, best_end_s = 0, -1.0, np.inf
    for other in range(fit, 0, -1):
        rate = takers.rates[row, other - 1]
        waits_s = pause_s + _cost_s(takers, row, level, other)
        end_s = waits_s + left / rate
        done = min(rate * max(length_s - waits_s, 0.0), left)
        is_better = done > best_done * (1.0 + TOLERANCE_SHARE)
        if done >= left:
            is_better = end_s < best_end_s
        if is_better or (other == level and done == best_done and end_s <= best_end_s):
            best, best_done = other, done
            best_end_s = end_s if done >= left else np.inf
    return best


# Taking


@part
def _is_free(profile: FreeSegments, takers: Takers, plans: Plans, row: int) -> bool:
    """Whether all that its plan takes is there."""
    for segment in range(plans.num[row]):
        level = plans.levels[row, segment]
        if level == 0:
            continue
        need, start_s = takers.devices[row, level - 1], plans.starts_s[row, segment]
        end_s = plans.starts_s[row, segment + 1] if segment + 1 < plans.num[row] else plans.end_s[row]
        if not _are_free(profile, start_s, end_s, need):
            return False
    return True


@part
def _are_free(profile: FreeSegments, start_s: float, end_s: float, num: int) -> bool:
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
def _take(profile: FreeSegments, takers: Takers, plans: Plans, row: int, sign: int) -> None:
    """Take what its plan needs; with a sign of -1 give it back."""
    for segment in range(plans.num[row]):
        level = plans.levels[row, segment]
        if level == 0:
            continue
        num, start_s = sign * takers.devices[row, level - 1], plans.starts_s[row, segment]
        end_s = plans.starts_s[row, segment + 1] if segment + 1 < plans.num[row] else plans.end_s[row]
        _take_between(profile, start_s, end_s, num)


@part
def _take_between(profile: FreeSegments, start_s: float, end_s: float, num: int) -> None:
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


def pay_in_order(
    profile: FreeSegments,
    takers: Takers,
    plans: Plans,
    others: Plans,
    rows: IntArray,
    levels: IntArray,
    is_paid: BoolArray,
) -> int:
    """Whether each taker could go to another level now, pay for that, and still do its work in time.

    Its plan goes on from there; if that does not hold, another one is made of what is free. Its own plan
    stays as it is, for the change may not come about; what the other one takes beyond it is not free for the
    next ones.

    Args:
        others: the other plans; without a segment where there is none, or none is needed.
        levels: (n,) to go to; if that is the held one, to other devices, for which it is resized.
        is_paid: (n,) the answers.

    Returns: of how many, as `fill_in_order` does.
    """
    for position in range(len(rows)):
        row = rows[position]
        if profile.num_blocks[0] + 4 * MOST_SEGMENTS + 4 > len(profile.order):
            return position
        if levels[position] == takers.held[row]:
            pause_s = takers.resize_s[row, takers.held[row] - 1]
        else:
            pause_s = _cost_s(takers, row, takers.held[row], levels[position])
        is_paid[position] = _could_pay(profile, takers, plans, others, row, levels[position], pause_s)
        _take_beyond(profile, takers, others, plans, row)
    return len(rows)


@part
def take_as_planned(profile: FreeSegments, takers: Takers, plans: Plans, rows: IntArray) -> int:
    """Each takes what its plan says that was made elsewhere; returns of how many, as `fill_in_order` does."""
    for position in range(len(rows)):
        row = rows[position]
        if profile.num_blocks[0] + MOST_SEGMENTS + 2 > len(profile.order):
            return position
        if takers.is_bound[row] and plans.num[row] > 0:
            held_devices = takers.devices[row, takers.held[row] - 1]
            _take_between(profile, 0.0, takers.idle_s[row], -held_devices)
        _take(profile, takers, plans, row, 1)
    return len(rows)


def take_beyond(profile: FreeSegments, takers: Takers, others: Plans, plans: Plans, rows: IntArray) -> int:
    """Each takes what its other plan needs beyond its own; returns of how many, as `fill_in_order` does."""
    for position in range(len(rows)):
        if profile.num_blocks[0] + 4 * MOST_SEGMENTS + 4 > len(profile.order):
            return position
        _take_beyond(profile, takers, others, plans, rows[position])
    return len(rows)


@part
def _could_pay(
    profile: FreeSegments, takers: Takers, plans: Plans, others: Plans, row: int, level: int, pause_s: float
) -> bool:
    """Whether it could do its work in time from this level on, after a pause; by its own plan or another."""
    _copy(others, plans, row)
    held, idle_s, is_bound = takers.held[row], takers.idle_s[row], takers.is_bound[row]
    _take(profile, takers, plans, row, -1)
    takers.held[row], takers.idle_s[row] = level, idle_s + pause_s
    takers.is_bound[row] = held == 0  # what is being started cannot be stopped before it is up
    grade = plans.grade[row]
    others.grade[row] = _plan_one(profile, takers, others, row, AS_PLANNED, grade)
    takers.held[row], takers.idle_s[row], takers.is_bound[row] = held, idle_s, is_bound
    _take(profile, takers, plans, row, 1)
    is_paid = others.grade[row] <= grade
    if not is_paid or _is_within(others, plans, row):
        others.num[row] = 0
    _finish(takers, others, row)
    return is_paid  # type: ignore[no-any-return]


@part
def _copy(plans: Plans, source: Plans, row: int) -> None:
    """The segments of one taker's plan."""
    plans.num[row], plans.end_s[row] = source.num[row], source.end_s[row]
    plans.starts_s[row], plans.levels[row] = source.starts_s[row], source.levels[row]


@part
def _is_within(plans: Plans, wider: Plans, row: int) -> bool:
    """Whether its plan is the wider one, or ends sooner."""
    num = wider.num[row]
    is_same = plans.num[row] == num and plans.end_s[row] <= wider.end_s[row]
    is_same = is_same and (plans.levels[row, :num] == wider.levels[row, :num]).all()
    return is_same and (plans.starts_s[row, :num] == wider.starts_s[row, :num]).all()  # type: ignore[no-any-return]


@part
def _take_beyond(profile: FreeSegments, takers: Takers, plans: Plans, taken: Plans, row: int) -> None:
    """Take what its plan needs beyond what is taken by its other plan."""
    for segment in range(plans.num[row]):
        start_s, level = plans.starts_s[row, segment], plans.levels[row, segment]
        end_s = plans.starts_s[row, segment + 1] if segment + 1 < plans.num[row] else plans.end_s[row]
        need = takers.devices[row, level - 1] if level > 0 else 0
        for other in range(taken.num[row] + 1):
            other_s, until_s, num = taken.end_s[row], np.inf, 0  # behind its end nothing is taken
            if other < taken.num[row]:
                other_s, until_s = taken.starts_s[row, other], taken.end_s[row]
                if other + 1 < taken.num[row]:
                    until_s = taken.starts_s[row, other + 1]
                if taken.levels[row, other] > 0:
                    num = takers.devices[row, taken.levels[row, other] - 1]
            elif taken.num[row] == 0:
                other_s = 0.0
            if need > num:
                _take_between(profile, max(start_s, other_s), min(end_s, until_s), need - num)


def take_now(profile: FreeSegments, num_devices: IntArray, until_s: FloatArray) -> int:
    """So many are not free from now until then, each; returns of how many, as `fill_in_order` does."""
    for position in range(len(until_s)):
        if profile.num_blocks[0] + MOST_SEGMENTS + 2 > len(profile.order):
            return position
        _take_between(profile, 0.0, until_s[position], num_devices[position])
    return len(until_s)


def take_what_is_free(
    profile: FreeSegments, num_devices: IntArray, until_s: FloatArray, is_free: BoolArray
) -> int:
    """Take so many from now until then, each, if they are free all the while; else none.

    Returns: of how many, as `fill_in_order` does.
    """
    for position in range(len(until_s)):
        if profile.num_blocks[0] + MOST_SEGMENTS + 2 > len(profile.order):
            return position
        num, end_s = num_devices[position], until_s[position]
        are_free_now = profile.free[profile.order[0], 0] >= num  # asked for no time, too
        is_free[position] = are_free_now and _are_free(profile, 0.0, end_s, num)
        if is_free[position]:
            _take_between(profile, 0.0, end_s, num)
    return len(until_s)


# Blocks


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
        ends_s = _end_s(first, places[0]), _end_s(second, places[1])
        at_s = min(ends_s[0], ends_s[1])
        if at_s < np.inf and ends_s[0] == at_s:
            _go_on(first, places[0])
        if at_s < np.inf and ends_s[1] == at_s:
            _go_on(second, places[1])
    _sum_up(least.free[block, :used], least.least, least.most, block)
    least.num_blocks[0] = block + 1


@part
def _end_s(profile: FreeSegments, place: IntArray) -> float:
    """Of the segment at this (position of its block, segment in it)."""
    block = profile.order[place[0]]
    if place[1] + 1 < profile.used[block]:
        return profile.starts_s[block, place[1] + 1]  # type: ignore[no-any-return]
    if place[0] + 1 < profile.num_blocks[0]:
        return profile.starts_s[profile.order[place[0] + 1], 0]  # type: ignore[no-any-return]
    return np.inf


@part
def _go_on(profile: FreeSegments, place: IntArray) -> None:
    """To the next segment."""
    if place[1] + 1 < profile.used[profile.order[place[0]]]:
        place[1] += 1
    else:
        place[0], place[1] = place[0] + 1, 0


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
