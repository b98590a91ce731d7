"""Takers in order take what their plans need: of all that is free, or also of what their group may have."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.compiled import part
from swell.solvers.profile.early_plan import plan_early
from swell.solvers.profile.one_plan import plan_one
from swell.solvers.profile.plans import (
    AS_BELIEVED,
    AS_PLANNED,
    BROKEN,
    JUST,
    MARGIN,
    MOMENT_S,
    MOST_SEGMENTS,
    TAKE_ROOM,
    Plans,
    Takers,
    as_believed,
    finish,
    holds,
    is_free,
    spare_of,
    take,
)
from swell.solvers.profile.segments import FreeSegments, has_room, take_between, write_least
from swell.solvers.profile.together import FEWEST_TOGETHER, mark_sound, take_together

#: In a column of groups: of none.
NO_GROUP = -1
#: Blocks that are needed at most to serve a taker of a group.
GROUP_ROOM = 2 * MOST_SEGMENTS + 4


class GroupedSegments(NamedTuple):
    """What is free for groups of takers, who take of that and of all that is free."""

    free: FreeSegments  #: its columns have the group as a first axis, (G, ...)
    group: IntArray  #: (J,) of each taker, or NO_GROUP; empty: there are no groups
    is_exempt: BoolArray  #: (J,) who may have more, and takes it of the group all the same; empty: none
    least: FreeSegments  #: blocks to work with


def fill_in_order(
    profile: FreeSegments,
    groups: GroupedSegments,
    takers: Takers,
    plans: Plans,
    rows: IntArray,
    how: IntArray,
    worst: IntArray,
    is_late_served: bool,
) -> int:
    """Each taker in order takes what its plan needs; a plan that does not hold any more is made again, late.

    Args:
        rows: takers in order.
        how: (n,) AS_PLANNED: by the plan that `plans` has, if that still does the work in time and is free.
            AS_BELIEVED: likewise; one that does so without the margin alone takes no more for that.
            LATE: at the lowest level that suffices, as late as can be. EARLY: as much as is useful, from now
            on. One that is done in time in no such way is tried without the margin.
        worst: (J,) stop before a taker whose grade is worse than this; empty: none is too bad.
        is_late_served: one that cannot be in time takes, from now on, what there is; else nothing.

    Returns: how many of `rows` were served; fewer than all, too, if there may be too few blocks for the next.

    References: ElasticFlow, section 4.1, Algorithm 1.
    """
    seconds_s, ends_s = np.empty(len(rows)), np.empty(len(rows))
    is_sound = mark_sound(takers, plans, rows, how, seconds_s, ends_s)
    known = np.full(1, NO_GROUP)  # the group whose least is known
    position, most = 0, len(rows)
    while position < len(rows):
        end = position
        while end < min(len(rows), position + most) and is_sound[end] and not _is_exempt(groups, rows[end]):
            end += 1
        if end - position >= FEWEST_TOGETHER:
            if _take_sound(profile, groups, takers, plans, rows[position:end]):
                position, most, known[0] = end, 2 * most, NO_GROUP
            else:
                most = (end - position) // 2
            continue
        row = rows[position]
        if not _is_room_for(profile, groups, row):
            return position
        plans.starts_s[row, 1], plans.end_s[row] = seconds_s[position], ends_s[position]
        bad = worst[row] if len(worst) > 0 else BROKEN
        if not _serve(profile, groups, known, takers, plans, row, how[position], bad, is_late_served):
            return position
        position, most = position + 1, max(most, FEWEST_TOGETHER)
    return len(rows)


@part
def _group_of(groups: GroupedSegments, row: int) -> int:
    return groups.group[row] if len(groups.group) > 0 else NO_GROUP


@part
def _is_exempt(groups: GroupedSegments, row: int) -> bool:
    return len(groups.is_exempt) > 0 and groups.is_exempt[row]


@part
def _take_sound(
    profile: FreeSegments, groups: GroupedSegments, takers: Takers, plans: Plans, rows: IntArray
) -> bool:
    """Take what sound plans need of all that is free and of their groups, if all of it is; whether it is."""
    is_all_free = True
    in_order = rows[np.argsort(groups.group[rows])] if len(groups.group) > 0 else rows[:0]
    served = 0
    while is_all_free and served < len(in_order):
        end = _end_of_group(groups, in_order, served)
        number = groups.group[in_order[served]]
        if number >= 0:
            own = _of_group(groups.free, number)
            is_all_free = take_together(own, takers, plans, in_order[served:end], 1)
        served = end if is_all_free else served
    if is_all_free and take_together(profile, takers, plans, rows, 1):
        for row in rows:
            plans.grade[row] = MARGIN
        return True
    first = 0
    while first < served:  # back to the groups
        end = _end_of_group(groups, in_order, first)
        number = groups.group[in_order[first]]
        if number >= 0:
            take_together(_of_group(groups.free, number), takers, plans, in_order[first:end], -1)
        first = end
    return False


@part
def _end_of_group(groups: GroupedSegments, in_order: IntArray, first: int) -> int:
    """Behind the last of the group to which the taker there belongs."""
    end = first + 1
    while end < len(in_order) and groups.group[in_order[end]] == groups.group[in_order[first]]:
        end += 1
    return end


@part
def _is_room_for(profile: FreeSegments, groups: GroupedSegments, row: int) -> bool:
    """Whether there is room for one more taker, in the free capacity and in that of its group."""
    number = _group_of(groups, row)
    if number < 0:
        return has_room(profile, TAKE_ROOM)
    own = _of_group(groups.free, number)
    if not has_room(profile, GROUP_ROOM) or not has_room(own, GROUP_ROOM):
        return False
    return 2 * (profile.num_blocks[0] + own.num_blocks[0]) + GROUP_ROOM <= len(groups.least.order)  # type: ignore[no-any-return]


@part
def _serve(
    profile: FreeSegments,
    groups: GroupedSegments,
    known: IntArray,
    takers: Takers,
    plans: Plans,
    row: int,
    how: int,
    worst: int,
    is_late_served: bool,
) -> bool:
    """Take what the taker's plan needs, of its group as well; whether its grade is not too bad.

    Args:
        known: (1,) the group whose least is in `groups.least`.
    """
    number = _group_of(groups, row)
    if number < 0:
        known[0] = NO_GROUP
        return _take_of(profile, takers, plans, row, how, worst, is_late_served)
    own, before = _of_group(groups.free, number), known[0]
    known[0] = NO_GROUP
    if _is_exempt(groups, row):
        if not _take_of(profile, takers, plans, row, how, worst, is_late_served):
            return False
    elif how == AS_PLANNED and _stays(profile, own, takers, plans, row):
        plans.grade[row] = MARGIN
        finish(takers, plans, row)
        take(profile, takers, plans, row, 1)
    else:
        if number != before or not has_room(groups.least, GROUP_ROOM):
            write_least(profile, own, groups.least)
        known[0] = number  # what it takes is taken of the least, too
        if not _take_of(groups.least, takers, plans, row, how, worst, is_late_served):
            return False
        _take_as_planned(profile, takers, plans, row)
    _take_as_planned(own, takers, plans, row)
    return True


@part
def _take_of(
    profile: FreeSegments,
    takers: Takers,
    plans: Plans,
    row: int,
    how: int,
    worst: int,
    is_late_served: bool,
) -> bool:
    """Take what the taker's plan needs; whether its grade is not too bad."""
    held_devices = takers.devices[row, takers.held[row] - 1] if takers.is_bound[row] else 0
    take_between(profile, 0.0, takers.idle_s[row], -held_devices)
    grade = plan_one(profile, takers, plans, row, how, worst)
    if grade > worst:
        take_between(profile, 0.0, takers.idle_s[row], held_devices)
        return False
    plans.grade[row] = grade
    if grade == BROKEN:
        plans.num[row] = 0
        if is_late_served:
            plan_early(profile, as_believed(takers), plans, row, takers.work[row, JUST], np.inf)
    elif how != AS_BELIEVED and not takers.is_bound[row]:
        if grade == MARGIN:  # not one call with either: their columns differ in type, if some are read-only
            _hurry(profile, takers, plans, row)
        else:
            _hurry(profile, as_believed(takers), plans, row)
    finish(takers, plans, row)
    take(profile, takers, plans, row, 1)
    if takers.is_bound[row] and plans.num[row] == 0:  # without a plan it stays where it is all the same
        take_between(profile, 0.0, takers.idle_s[row], held_devices)
    return True


@part
def _hurry(profile: FreeSegments, takers: Takers, plans: Plans, row: int) -> None:
    """A step up that is due in a moment is taken now, if that is free and in time.

    It may not be: what is held is resized then, where the plan would have left it and started again.
    """
    if plans.num[row] < 2 or plans.starts_s[row, 1] > MOMENT_S:
        return
    lower, higher, end_s = plans.levels[row, 0], plans.levels[row, 1], plans.end_s[row]
    if higher > lower:
        plans.levels[row, 0] = higher
        is_in_time = holds(takers, plans, row, takers.work[row, plans.grade[row]], spare_of(takers, row))
        if not is_in_time or not is_free(profile, takers, plans, row):
            plans.levels[row, 0], plans.end_s[row] = lower, end_s


@part
def _of_group(groups: FreeSegments, number: int) -> FreeSegments:
    """What is free for one of them."""
    return FreeSegments(
        groups.starts_s[number],
        groups.free[number],
        groups.used[number],
        groups.least[number],
        groups.most[number],
        groups.order[number],
        groups.num_blocks[number],
    )


@part
def _stays(profile: FreeSegments, own: FreeSegments, takers: Takers, plans: Plans, row: int) -> bool:
    """Whether its plan does its work in time, with the margin, and is free in both: so most plans are kept.

    Of a plan that is to be looked at more closely the answer is no.
    """
    if plans.num[row] == 0 or takers.is_bound[row]:
        return False
    if plans.num[row] >= 2 and plans.starts_s[row, 1] <= MOMENT_S:
        return False
    if not is_free(profile, takers, plans, row) or not is_free(own, takers, plans, row):
        return False
    return holds(takers, plans, row, takers.work[row, MARGIN], spare_of(takers, row))


@part
def _take_as_planned(profile: FreeSegments, takers: Takers, plans: Plans, row: int) -> None:
    """It takes what its plan says that was made elsewhere."""
    if takers.is_bound[row] and plans.num[row] > 0:
        held_devices = takers.devices[row, takers.held[row] - 1]
        take_between(profile, 0.0, takers.idle_s[row], -held_devices)
    take(profile, takers, plans, row, 1)
