"""Takers in order take what their plans need: of all that is free, or also of what their group may have.

Many plans that still hold are taken at once: one sort and one pass, where one by one each visits blocks.
Plans that are all free together are free one by one, in any order. So plans that hold need no search each:
the devices that they take are summed over time, and if nowhere more are taken than there are, each is kept.
"""

from __future__ import annotations

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.solvers.capacity import courses, one_plan, segments
from swell.solvers.capacity.courses import PlanRows, TakerRows
from swell.solvers.capacity.plans import (
    AS_BELIEVED,
    AS_PLANNED,
    BROKEN,
    INF,
    JUST,
    MARGIN,
    MOMENT_S,
    MOST_SEGMENTS,
    NO_GROUP,
)
from swell.solvers.capacity.segments import Segments

#: Fewer are served one by one: a pass visits all segments.
FEWEST_TOGETHER = 8


class GroupRows:
    """What is free for groups of takers, who take of that and of all that is free."""

    def __init__(self, free: list[Segments], group: IntArray, is_exempt: BoolArray) -> None:
        self.free = free  #: of each group
        self.group = group  #: (J,) of each taker, or NO_GROUP; empty: there are no groups
        #: (J,) who may have more, and takes it of the group all the same; empty: none
        self.is_exempt = is_exempt
        self.least = Segments(0)  #: to work with: what is free for a group of all that is free
        self.known = NO_GROUP  #: the group whose least is in `least`


def fill_in_order(
    profile: Segments,
    groups: GroupRows,
    takers: TakerRows,
    plans: PlanRows,
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

    Returns: how many of `rows` were served.

    References: ElasticFlow, section 4.1, Algorithm 1.
    """
    seconds_s, ends_s, is_sound = np.empty(len(rows)), np.empty(len(rows)), np.zeros(len(rows), dtype=bool)
    _mark_sound(takers, plans, rows, how, seconds_s, ends_s, is_sound)
    position, most = 0, len(rows)
    while position < len(rows):
        end = position
        while end < min(len(rows), position + most) and is_sound[end] and _group_of(groups, rows[end]) < 0:
            end += 1
        if end - position >= FEWEST_TOGETHER:
            if _take_together(profile, takers, plans, rows[position:end]):
                position, most, groups.known = end, 2 * most, NO_GROUP
            else:
                most = (end - position) // 2
            continue
        row = rows[position]
        plans.starts_s[row, 1], plans.end_s[row] = seconds_s[position], ends_s[position]
        bad = worst[row] if len(worst) > 0 else BROKEN
        if not _serve(profile, groups, takers, plans, row, how[position], bad, is_late_served):
            return position
        position, most = position + 1, max(most, FEWEST_TOGETHER)
    return len(rows)


def _group_of(groups: GroupRows, row: int) -> int:
    return groups.group[row] if len(groups.group) > 0 else NO_GROUP


def _is_exempt(groups: GroupRows, row: int) -> bool:
    return len(groups.is_exempt) > 0 and groups.is_exempt[row]


def _serve(
    profile: Segments,
    groups: GroupRows,
    takers: TakerRows,
    plans: PlanRows,
    row: int,
    how: int,
    worst: int,
    is_late_served: bool,
) -> bool:
    """Take what the taker's plan needs, of its group as well; whether its grade is not too bad."""
    number = _group_of(groups, row)
    if number < 0:
        groups.known = NO_GROUP
        return _take_of(profile, takers, plans, row, how, worst, is_late_served)
    own, before = _of_group(groups, number), groups.known
    groups.known = NO_GROUP
    if _is_exempt(groups, row):
        if not _take_of(profile, takers, plans, row, how, worst, is_late_served):
            return False
    elif how == AS_PLANNED and _stays(profile, own, takers, plans, row):
        plans.grade[row] = MARGIN
        courses.finish(takers, plans, row)
        courses.take(profile, takers, plans, row, 1)
    else:
        if number != before:
            segments.write_least(profile, own, groups.least)
        groups.known = number  # what it takes is taken of the least, too
        if not _take_of(groups.least, takers, plans, row, how, worst, is_late_served):
            return False
        _take_as_planned(profile, takers, plans, row)
    _take_as_planned(own, takers, plans, row)
    return True


def _take_of(
    profile: Segments,
    takers: TakerRows,
    plans: PlanRows,
    row: int,
    how: int,
    worst: int,
    is_late_served: bool,
) -> bool:
    """Take what the taker's plan needs; whether its grade is not too bad."""
    held_devices = takers.devices[row, takers.held[row] - 1] if takers.is_bound[row] else 0
    segments.take_between(profile, 0.0, takers.idle_s[row], -held_devices)
    grade = one_plan.plan_one(profile, takers, plans, row, how, worst)
    if grade > worst:
        segments.take_between(profile, 0.0, takers.idle_s[row], held_devices)
        return False
    plans.grade[row] = grade
    if grade == BROKEN:
        plans.num[row] = 0
        if is_late_served:
            one_plan.plan_early(profile, courses.as_believed(takers), plans, row, takers.work[row, JUST], INF)
    elif how != AS_BELIEVED and not takers.is_bound[row]:
        _hurry(profile, takers if grade == MARGIN else courses.as_believed(takers), plans, row)
    courses.finish(takers, plans, row)
    courses.take(profile, takers, plans, row, 1)
    if takers.is_bound[row] and plans.num[row] == 0:  # without a plan it stays where it is all the same
        segments.take_between(profile, 0.0, takers.idle_s[row], held_devices)
    return True


def _hurry(profile: Segments, takers: TakerRows, plans: PlanRows, row: int) -> None:
    """A step up that is due in a moment is taken now, if that is free and in time.

    It may not be: what is held is resized then, where the plan would have left it and started again.
    """
    if plans.num[row] < 2 or plans.starts_s[row, 1] > MOMENT_S:
        return
    lower, higher, end_s = plans.levels[row, 0], plans.levels[row, 1], plans.end_s[row]
    if higher > lower:
        plans.levels[row, 0] = higher
        is_in_time = courses.holds(
            takers, plans, row, takers.work[row, plans.grade[row]], courses.spare_of(takers, row)
        )
        if not is_in_time or not courses.is_free(profile, takers, plans, row):
            plans.levels[row, 0], plans.end_s[row] = lower, end_s


def _of_group(groups: GroupRows, number: int) -> Segments:
    """What is free for one of them."""
    return groups.free[number]


def _stays(profile: Segments, own: Segments, takers: TakerRows, plans: PlanRows, row: int) -> bool:
    """Whether its plan does its work in time, with the margin, and is free in both: so most plans are kept.

    Of a plan that is to be looked at more closely the answer is no.
    """
    if plans.num[row] == 0 or takers.is_bound[row]:
        return False
    if plans.num[row] >= 2 and plans.starts_s[row, 1] <= MOMENT_S:
        return False
    if not courses.is_free(profile, takers, plans, row) or not courses.is_free(own, takers, plans, row):
        return False
    return courses.holds(takers, plans, row, takers.work[row, MARGIN], courses.spare_of(takers, row))


def _take_as_planned(profile: Segments, takers: TakerRows, plans: PlanRows, row: int) -> None:
    """It takes what its plan says that was made elsewhere."""
    if takers.is_bound[row] and plans.num[row] > 0:
        held_devices = takers.devices[row, takers.held[row] - 1]
        segments.take_between(profile, 0.0, takers.idle_s[row], -held_devices)
    courses.take(profile, takers, plans, row, 1)


def _mark_sound(
    takers: TakerRows,
    plans: PlanRows,
    rows: IntArray,
    how: IntArray,
    seconds_s: FloatArray,
    ends_s: FloatArray,
    is_sound: BoolArray,
) -> None:
    """Write whether plans do their work in time, with the margin, or do so after a mend.

    These plans are mended, and end when their work and what is to spare is done. Other plans stay as they
    are. The plan of a bound taker takes at least what it holds for as long as it is bound.

    Args:
        seconds_s, ends_s: (n,) written: when the second level of each plan began, and its end, before that.
        is_sound: (n,) written; all False.
    """
    for position in range(len(rows)):
        row = rows[position]
        seconds_s[position], ends_s[position] = plans.starts_s[row, 1], plans.end_s[row]
        if len(rows) < FEWEST_TOGETHER:
            continue
        if how[position] == AS_PLANNED and plans.num[row] > 0:
            is_sound[position] = _is_sound(takers, plans, row)
            if not is_sound[position]:
                plans.starts_s[row, 1], plans.end_s[row] = seconds_s[position], ends_s[position]


def _is_sound(takers: TakerRows, plans: PlanRows, row: int) -> bool:
    """Whether its plan, or a mend of it, does its work in time and needs no closer look."""
    work, spare = takers.work[row, MARGIN], courses.spare_of(takers, row)
    is_in_time = courses.holds(takers, plans, row, work, spare) or courses.end_later(
        takers, plans, row, work, spare
    )
    if not is_in_time and not courses.step_sooner(takers, plans, row, work, spare):
        return False
    second_s = plans.starts_s[row, 1] if plans.num[row] >= 2 else INF
    if not takers.is_bound[row]:
        return second_s > MOMENT_S
    is_held = plans.levels[row, 0] == takers.held[row]
    return is_held and min(second_s, plans.end_s[row]) >= takers.idle_s[row]


def _write_changes(
    takers: TakerRows,
    plans: PlanRows,
    rows: IntArray,
    at_s: FloatArray,
    net: IntArray,
    gross: IntArray,
) -> int:
    """Write when how many devices more are taken by plans that are sound.

    Args:
        at_s: times; unsorted.
        net: what is taken beyond what bound takers have already.
        gross: what is taken.

    Returns: how many changes there are.
    """
    num = 0
    for row in rows:
        courses.finish(takers, plans, row)
        taken = 0
        for segment in range(plans.num[row] + 1):
            level = plans.levels[row, segment] if segment < plans.num[row] else 0
            need = takers.devices[row, level - 1] if level > 0 else 0
            if need != taken:
                at_s[num] = plans.starts_s[row, segment] if segment < plans.num[row] else plans.end_s[row]
                net[num] = gross[num] = need - taken
                num, taken = num + 1, need
        if takers.is_bound[row] and takers.idle_s[row] > 0.0:
            held = takers.devices[row, takers.held[row] - 1]
            at_s[num], net[num], gross[num] = 0.0, -held, 0
            at_s[num + 1], net[num + 1], gross[num + 1] = takers.idle_s[row], held, 0
            num += 2
    return num


def _take_changes(
    profile: Segments, at_s: FloatArray, net: IntArray, gross: IntArray, changed: Segments
) -> bool:
    """Write what is free after changes that are in order of time; whether no more is taken than there is."""
    change = taken = more = 0
    segments.make_room(changed, profile.num + len(at_s))
    changed.num = 0
    for place in range(profile.num):
        start_s, here = profile.starts_s[place], profile.free[place]
        end_s = segments.end_of(profile, place)
        while True:
            while change < len(at_s) and at_s[change] <= start_s:
                taken += gross[change]
                more += net[change]
                change += 1
            if taken > 0 and here < more:
                return False
            if changed.num == 0 or changed.free[changed.num - 1] != here - more:
                changed.starts_s[changed.num], changed.free[changed.num] = start_s, here - more
                changed.num += 1
            if change == len(at_s) or at_s[change] >= end_s:
                break
            start_s = at_s[change]
    return True


def _take_together(profile: Segments, takers: TakerRows, plans: PlanRows, rows: IntArray) -> bool:
    """Take what sound plans need, if all of that is free; whether it was."""
    most = len(rows) * (MOST_SEGMENTS + 3)
    at_s, net, gross = np.empty(most), np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    num = _write_changes(takers, plans, rows, at_s, net, gross)
    order = np.argsort(at_s[:num])
    changed = Segments(0)
    if not _take_changes(profile, at_s[order], net[order], gross[order], changed):
        return False
    profile.starts_s, profile.free, profile.num = changed.starts_s, changed.free, changed.num
    for row in rows:
        plans.grade[row] = MARGIN
    return True


def pay_in_order(
    profile: Segments,
    takers: TakerRows,
    plans: PlanRows,
    others: PlanRows,
    rows: IntArray,
    levels: IntArray,
    is_paid: BoolArray,
) -> None:
    """Whether each taker could go to another level now, pay for that, and still do its work in time.

    Its plan goes on from there; if that does not hold, another one is made of what is free. Its own plan
    stays as it is, for the change may not come about; what the other one takes beyond it is not free for the
    next ones.

    Args:
        others: the other plans; without a segment where there is none, or none is needed.
        levels: (n,) to go to; if that is the held one, to other devices, for which it is resized.
        is_paid: (n,) the answers.
    """
    for position in range(len(rows)):
        row = rows[position]
        if levels[position] == takers.held[row]:
            pause_s = takers.resize_s[row, takers.held[row] - 1]
        else:
            pause_s = courses.cost_s(takers, row, takers.held[row], levels[position])
        is_paid[position] = _could_pay(profile, takers, plans, others, row, levels[position], pause_s)
        _take_beyond(profile, takers, others, plans, row)


def take_beyond(
    profile: Segments, takers: TakerRows, plans: PlanRows, others: PlanRows, rows: IntArray
) -> None:
    """Each takes what its other plan needs beyond its own."""
    for row in rows:
        _take_beyond(profile, takers, others, plans, row)


def _could_pay(
    profile: Segments,
    takers: TakerRows,
    plans: PlanRows,
    others: PlanRows,
    row: int,
    level: int,
    pause_s: float,
) -> bool:
    """Whether it could do its work in time from this level on, after a pause; by its own plan or another."""
    _copy(others, plans, row)
    held, idle_s, is_bound = takers.held[row], takers.idle_s[row], takers.is_bound[row]
    courses.take(profile, takers, plans, row, -1)
    takers.held[row], takers.idle_s[row] = level, idle_s + pause_s
    # What is being started cannot be changed before it is up; what moves may have to be started.
    takers.is_bound[row] = held in (0, level)
    grade = plans.grade[row]
    others.grade[row] = one_plan.plan_one(profile, takers, others, row, AS_PLANNED, grade)
    takers.held[row], takers.idle_s[row], takers.is_bound[row] = held, idle_s, is_bound
    courses.take(profile, takers, plans, row, 1)
    is_paid = others.grade[row] <= grade
    if not is_paid or _is_within(others, plans, row):
        others.num[row] = 0
    courses.finish(takers, others, row)
    return is_paid


def _copy(plans: PlanRows, source: PlanRows, row: int) -> None:
    """The segments of one taker's plan."""
    plans.num[row], plans.end_s[row] = source.num[row], source.end_s[row]
    for segment in range(source.num[row]):
        plans.starts_s[row, segment] = source.starts_s[row, segment]
        plans.levels[row, segment] = source.levels[row, segment]


def _is_within(plans: PlanRows, wider: PlanRows, row: int) -> bool:
    """Whether its plan is the wider one, or ends sooner."""
    if plans.num[row] != wider.num[row] or plans.end_s[row] > wider.end_s[row]:
        return False
    for segment in range(wider.num[row]):
        if plans.levels[row, segment] != wider.levels[row, segment]:
            return False
        if plans.starts_s[row, segment] != wider.starts_s[row, segment]:
            return False
    return True


def _take_beyond(profile: Segments, takers: TakerRows, plans: PlanRows, taken: PlanRows, row: int) -> None:
    """Take what its plan needs beyond what is taken by its other plan."""
    for segment in range(plans.num[row]):
        start_s, level = plans.starts_s[row, segment], plans.levels[row, segment]
        end_s = plans.starts_s[row, segment + 1] if segment + 1 < plans.num[row] else plans.end_s[row]
        need = takers.devices[row, level - 1] if level > 0 else 0
        for other in range(taken.num[row] + 1):
            other_s, until_s, num = taken.end_s[row], INF, 0  # behind its end nothing is taken
            if other < taken.num[row]:
                other_s, until_s = taken.starts_s[row, other], taken.end_s[row]
                if other + 1 < taken.num[row]:
                    until_s = taken.starts_s[row, other + 1]
                if taken.levels[row, other] > 0:
                    num = takers.devices[row, taken.levels[row, other] - 1]
            elif taken.num[row] == 0:
                other_s = 0.0
            if need > num:
                segments.take_between(profile, max(start_s, other_s), min(end_s, until_s), need - num)
