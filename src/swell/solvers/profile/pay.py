"""Changes that no plan needs: whether a plan can pay for one, and what it takes then."""

from __future__ import annotations

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.compiled import part
from swell.solvers.profile.one_plan import plan_one
from swell.solvers.profile.plans import AS_PLANNED, MOST_SEGMENTS, Plans, Takers, cost_s, finish, take
from swell.solvers.profile.segments import FreeSegments, has_room, take_between

PAY_ROOM = 4 * MOST_SEGMENTS + 4  #: blocks that are needed at most to take what a plan takes beyond another


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
        if not has_room(profile, PAY_ROOM):
            return position
        if levels[position] == takers.held[row]:
            pause_s = takers.resize_s[row, takers.held[row] - 1]
        else:
            pause_s = cost_s(takers, row, takers.held[row], levels[position])
        is_paid[position] = _could_pay(profile, takers, plans, others, row, levels[position], pause_s)
        _take_beyond(profile, takers, others, plans, row)
    return len(rows)


def take_beyond(profile: FreeSegments, takers: Takers, others: Plans, plans: Plans, rows: IntArray) -> int:
    """Each takes what its other plan needs beyond its own; returns of how many, as `fill_in_order` does."""
    for position in range(len(rows)):
        if not has_room(profile, PAY_ROOM):
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
    take(profile, takers, plans, row, -1)
    takers.held[row], takers.idle_s[row] = level, idle_s + pause_s
    # What is being started cannot be changed before it is up; what moves may have to be started.
    takers.is_bound[row] = held in (0, level)
    grade = plans.grade[row]
    others.grade[row] = plan_one(profile, takers, others, row, AS_PLANNED, grade)
    takers.held[row], takers.idle_s[row], takers.is_bound[row] = held, idle_s, is_bound
    take(profile, takers, plans, row, 1)
    is_paid = others.grade[row] <= grade
    if not is_paid or _is_within(others, plans, row):
        others.num[row] = 0
    finish(takers, others, row)
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
                take_between(profile, max(start_s, other_s), min(end_s, until_s), need - num)
