"""One taker's plan: kept, mended, or made anew."""

from __future__ import annotations

import numpy as np

from swell.compiled import part
from swell.solvers.profile.early_plan import plan_early
from swell.solvers.profile.late_plan import plan_late
from swell.solvers.profile.plans import (
    AS_PLANNED,
    BROKEN,
    EARLY,
    JUST,
    MARGIN,
    Plans,
    Takers,
    done_s,
    holds,
    is_free,
    spare_of,
)
from swell.solvers.profile.segments import FreeSegments

NUM_HALVINGS = 24  #: until a time is known well enough


@part
def plan_one(profile: FreeSegments, takers: Takers, plans: Plans, row: int, how: int, worst: int) -> int:
    """Write its plan, in the way asked for if that does; returns its grade, or one worse than `worst`."""
    until_s, need, just = takers.until_s[row], takers.work[row, MARGIN], takers.work[row, JUST]
    spare = spare_of(takers, row)
    num, end_s = plans.num[row], plans.end_s[row]
    starts_s, levels = plans.starts_s[row].copy(), plans.levels[row].copy()
    is_kept = how == AS_PLANNED and num > 0 and is_free(profile, takers, plans, row)
    is_kept = is_kept and (plans.levels[row, 0] == takers.held[row] or not takers.is_bound[row])
    if is_kept and _keeps(profile, takers, plans, row, need, spare):
        return MARGIN
    for work in (need + spare, need):
        if how == EARLY and plan_early(profile, takers, plans, row, work, until_s):
            return MARGIN
        if plan_late(profile, takers, plans, row, work):
            return MARGIN
    if worst == MARGIN:
        return BROKEN
    plans.num[row], plans.end_s[row] = num, end_s
    plans.starts_s[row], plans.levels[row] = starts_s, levels
    if is_kept and _keeps(profile, takers, plans, row, just, spare):
        return JUST
    for work in (just + spare, just):
        if plan_early(profile, takers, plans, row, work, until_s):
            return JUST
        if plan_late(profile, takers, plans, row, work):
            return JUST
    return BROKEN


@part
def _keeps(profile: FreeSegments, takers: Takers, plans: Plans, row: int, work: float, spare: float) -> bool:
    """Whether its plan, or a little more than that, does so much in time."""
    return holds(takers, plans, row, work, spare) or _mend(profile, takers, plans, row, work, spare)


@part
def _mend(profile: FreeSegments, takers: Takers, plans: Plans, row: int, work: float, spare: float) -> bool:
    """The same plan, but with a later end, or with a sooner first step up, by no more than it takes."""
    end_s, until_s = plans.end_s[row], takers.until_s[row]
    if done_s(takers, plans, row, work, until_s) < np.inf:
        plans.end_s[row] = min(done_s(takers, plans, row, work + spare, until_s), until_s)
        if is_free(profile, takers, plans, row):
            return True
        plans.end_s[row] = end_s
    if plans.num[row] < 2 or plans.levels[row, 1] <= plans.levels[row, 0]:
        return False
    latest_s = plans.starts_s[row, 1]
    sooner_s, later_s = 0.0, latest_s
    for _ in range(NUM_HALVINGS):
        plans.starts_s[row, 1] = (sooner_s + later_s) / 2.0
        if done_s(takers, plans, row, work, min(end_s, until_s)) < np.inf:
            sooner_s = plans.starts_s[row, 1]
        else:
            later_s = plans.starts_s[row, 1]
    plans.starts_s[row, 1] = sooner_s
    if holds(takers, plans, row, work, spare) and is_free(profile, takers, plans, row):
        return True
    plans.starts_s[row, 1], plans.end_s[row] = latest_s, end_s
    return False
