"""One taker's plan: kept, mended, or made again."""

from __future__ import annotations

from swell.compiled import part
from swell.solvers.profile.early_plan import plan_early
from swell.solvers.profile.late_plan import is_within_reach, plan_late
from swell.solvers.profile.plans import (
    AS_BELIEVED,
    AS_PLANNED,
    BROKEN,
    EARLY,
    JUST,
    MARGIN,
    Plans,
    Takers,
    as_believed,
    end_later,
    holds,
    is_free,
    spare_of,
    step_sooner,
)
from swell.solvers.profile.segments import FreeSegments


@part
def plan_one(profile: FreeSegments, takers: Takers, plans: Plans, row: int, how: int, worst: int) -> int:
    """Write its plan, in the way asked for if that does; returns its grade, or one worse than `worst`."""
    until_s, need, just = takers.until_s[row], takers.work[row, MARGIN], takers.work[row, JUST]
    spare = spare_of(takers, row)
    num, end_s = plans.num[row], plans.end_s[row]
    starts_s, levels = plans.starts_s[row].copy(), plans.levels[row].copy()
    may_keep = how in (AS_PLANNED, AS_BELIEVED) and num > 0
    may_keep = may_keep and (plans.levels[row, 0] == takers.held[row] or not takers.is_bound[row])
    if may_keep and how == AS_BELIEVED:
        if holds(takers, plans, row, need, spare) and is_free(profile, takers, plans, row):
            return MARGIN
        plans.end_s[row] = end_s
        if worst >= JUST and _keeps(profile, as_believed(takers), plans, row, just, spare):
            return JUST
    elif may_keep and _keeps(profile, takers, plans, row, need, spare):
        return MARGIN
    for work in (need + spare, need):
        if how == EARLY and plan_early(profile, takers, plans, row, work, until_s):
            return MARGIN
        if plan_late(profile, takers, plans, row, work):
            return MARGIN
    if worst == MARGIN:
        return BROKEN
    believed = as_believed(takers)
    if not is_within_reach(profile, believed, row, just):
        return BROKEN
    plans.num[row], plans.end_s[row] = num, end_s
    plans.starts_s[row], plans.levels[row] = starts_s, levels
    if may_keep and how == AS_PLANNED and _keeps(profile, believed, plans, row, just, spare):
        return JUST
    for work in (just + spare, just):
        if plan_early(profile, believed, plans, row, work, until_s):
            return JUST
        if plan_late(profile, believed, plans, row, work):
            return JUST
    return BROKEN


@part
def _keeps(profile: FreeSegments, takers: Takers, plans: Plans, row: int, work: float, spare: float) -> bool:
    """Whether its plan, or a little more than that, is free and does so much in time."""
    if holds(takers, plans, row, work, spare):
        return is_free(profile, takers, plans, row)
    return is_free(profile, takers, plans, row) and _mend(profile, takers, plans, row, work, spare)


@part
def _mend(profile: FreeSegments, takers: Takers, plans: Plans, row: int, work: float, spare: float) -> bool:
    """The same plan, but with a later end, or with a sooner first step up, by no more than it takes."""
    end_s, second_s = plans.end_s[row], plans.starts_s[row, 1]
    if end_later(takers, plans, row, work, spare):
        if is_free(profile, takers, plans, row):
            return True
        plans.end_s[row] = end_s
    if step_sooner(takers, plans, row, work, spare):
        if is_free(profile, takers, plans, row):
            return True
        plans.starts_s[row, 1], plans.end_s[row] = second_s, end_s
    return False
