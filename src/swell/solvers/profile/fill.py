"""Takers in order take what their plans need: of all that is free, or also of what their group may have."""

from __future__ import annotations

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.compiled import part
from swell.solvers.profile.early_plan import plan_early
from swell.solvers.profile.one_plan import plan_one
from swell.solvers.profile.plans import (
    AS_PLANNED,
    BROKEN,
    MARGIN,
    MOMENT_S,
    MOST_SEGMENTS,
    TAKE_ROOM,
    Plans,
    Takers,
    finish,
    holds,
    is_free,
    spare_of,
    take,
)
from swell.solvers.profile.segments import FreeSegments, has_room, take_between, write_least
from swell.solvers.profile.together import FEWEST_TOGETHER, mark_sound, take_together

#: Blocks that are needed at most to serve a taker of a group.
GROUP_ROOM = 2 * MOST_SEGMENTS + 4


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
    seconds_s, ends_s = np.empty(len(rows)), np.empty(len(rows))
    is_sound = mark_sound(takers, plans, rows, how, seconds_s, ends_s)
    position, most = 0, len(rows)
    while position < len(rows):
        end = position
        while end < min(len(rows), position + most) and is_sound[end]:
            end += 1
        if end - position >= FEWEST_TOGETHER:
            if take_together(profile, takers, plans, rows[position:end]):
                position, most = end, 2 * most
            else:
                most = (end - position) // 2
            continue
        if not has_room(profile, TAKE_ROOM):
            return position
        row = rows[position]
        plans.starts_s[row, 1], plans.end_s[row] = seconds_s[position], ends_s[position]
        if not _serve(profile, takers, plans, row, how[position], worst, is_late_served):
            return position
        position, most = position + 1, max(most, FEWEST_TOGETHER)
    return len(rows)


@part
def _serve(
    profile: FreeSegments,
    takers: Takers,
    plans: Plans,
    row: int,
    how: int,
    worst: IntArray,
    is_late_served: bool,
) -> bool:
    """Take what the taker's plan needs; whether its grade is not too bad."""
    held_devices = takers.devices[row, takers.held[row] - 1] if takers.is_bound[row] else 0
    take_between(profile, 0.0, takers.idle_s[row], -held_devices)
    grade = plan_one(profile, takers, plans, row, how, worst[row] if len(worst) > 0 else BROKEN)
    if len(worst) > 0 and grade > worst[row]:
        take_between(profile, 0.0, takers.idle_s[row], held_devices)
        return False
    plans.grade[row] = grade
    if grade == BROKEN:
        plans.num[row] = 0
        if is_late_served:
            plan_early(profile, takers, plans, row, takers.work[row, 1], np.inf)
    elif not takers.is_bound[row]:
        _hurry(profile, takers, plans, row)
    finish(takers, plans, row)
    take(profile, takers, plans, row, 1)
    if takers.is_bound[row] and plans.num[row] == 0:  # without a plan it stays where it is all the same
        take_between(profile, 0.0, takers.idle_s[row], held_devices)
    return True


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
        is_in_time = holds(takers, plans, row, takers.work[row, plans.grade[row]], spare_of(takers, row))
        if not is_in_time or not is_free(profile, takers, plans, row):
            plans.levels[row, 0], plans.end_s[row] = lower, end_s


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
        own = _of_group(groups, number)
        if not _have_room(profile, own, least):
            return position
        if len(is_exempt) > 0 and is_exempt[row]:
            known = -1
            if fill_in_order(profile, takers, plans, rows[one], how[one], worst, is_late_served) == 0:
                return position
        elif how[position] == AS_PLANNED and _stays(profile, own, takers, plans, row):
            known = -1
            plans.grade[row] = MARGIN
            finish(takers, plans, row)
            take(profile, takers, plans, row, 1)
        else:
            if number != known or not has_room(least, GROUP_ROOM):
                write_least(profile, own, least)
                known = number  # what it takes is taken of the least, too
            if fill_in_order(least, takers, plans, rows[one], how[one], worst, is_late_served) == 0:
                return position
            take_as_planned(profile, takers, plans, rows[one])
        take_as_planned(own, takers, plans, rows[one])
    return len(rows)


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
def _have_room(profile: FreeSegments, own: FreeSegments, least: FreeSegments) -> bool:
    """For one more taker of the group."""
    if not has_room(profile, GROUP_ROOM) or not has_room(own, GROUP_ROOM):
        return False
    return 2 * (profile.num_blocks[0] + own.num_blocks[0]) + GROUP_ROOM <= len(least.order)  # type: ignore[no-any-return]


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
def take_as_planned(profile: FreeSegments, takers: Takers, plans: Plans, rows: IntArray) -> int:
    """Each takes what its plan says that was made elsewhere; returns of how many, as `fill_in_order` does."""
    for position in range(len(rows)):
        row = rows[position]
        if not has_room(profile, TAKE_ROOM):
            return position
        if takers.is_bound[row] and plans.num[row] > 0:
            held_devices = takers.devices[row, takers.held[row] - 1]
            take_between(profile, 0.0, takers.idle_s[row], -held_devices)
        take(profile, takers, plans, row, 1)
    return len(rows)
