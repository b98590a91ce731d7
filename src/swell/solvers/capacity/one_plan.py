"""One taker's plan: kept, mended, or made again.

As late as can be, at the lowest level that suffices; or early, as much as is useful.
"""

from __future__ import annotations

import numpy as np

from swell.solvers.capacity import courses
from swell.solvers.capacity.courses import PlanRows, TakerRows
from swell.solvers.capacity.plans import (
    AS_BELIEVED,
    AS_PLANNED,
    BROKEN,
    EARLY,
    INF,
    JUST,
    MARGIN,
    MOST_RUNS,
    MOST_SEGMENTS,
    SAME_TIME_S,
    TOLERANCE_SHARE,
)
from swell.solvers.capacity.segments import Segments

FAR_S = 1e9  #: as good as never
#: Whether there is a plan; TOO_RAGGED: there is, but with more segments than a plan may have.
NONE, TOO_RAGGED, FOUND = 0, 1, 2


def plan_one(profile: Segments, takers: TakerRows, plans: PlanRows, row: int, how: int, worst: int) -> int:
    """Write its plan, in the way asked for if that does; returns its grade, or one worse than `worst`."""
    until_s, need, just = takers.until_s[row], takers.work[row, MARGIN], takers.work[row, JUST]
    spare = courses.spare_of(takers, row)
    num, end_s, room = plans.num[row], plans.end_s[row], takers.room
    room.plan_starts_s[:], room.plan_levels[:] = plans.starts_s[row, :], plans.levels[row, :]
    may_keep = how in (AS_PLANNED, AS_BELIEVED) and num > 0
    may_keep = may_keep and (plans.levels[row, 0] == takers.held[row] or not takers.is_bound[row])
    if may_keep and how == AS_BELIEVED:
        if courses.holds(takers, plans, row, need, spare) and courses.is_free(profile, takers, plans, row):
            return MARGIN
        plans.end_s[row] = end_s
        if worst >= JUST and _keeps(profile, courses.as_believed(takers), plans, row, just, spare):
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
    believed = courses.as_believed(takers)
    if not is_within_reach(profile, believed, row, just):
        return BROKEN
    plans.num[row], plans.end_s[row] = num, end_s
    plans.starts_s[row, :], plans.levels[row, :] = room.plan_starts_s, room.plan_levels
    if may_keep and how == AS_PLANNED and _keeps(profile, believed, plans, row, just, spare):
        return JUST
    for work in (just + spare, just):
        if plan_early(profile, believed, plans, row, work, until_s):
            return JUST
        if plan_late(profile, believed, plans, row, work):
            return JUST
    return BROKEN


def _keeps(
    profile: Segments, takers: TakerRows, plans: PlanRows, row: int, work: float, spare: float
) -> bool:
    """Whether its plan, or a little more than that, is free and does so much in time."""
    if courses.holds(takers, plans, row, work, spare):
        return courses.is_free(profile, takers, plans, row)
    return courses.is_free(profile, takers, plans, row) and _mend(profile, takers, plans, row, work, spare)


def _mend(profile: Segments, takers: TakerRows, plans: PlanRows, row: int, work: float, spare: float) -> bool:
    """The same plan, but with a later end, or with a sooner first step up, by no more than it takes."""
    end_s, second_s = plans.end_s[row], plans.starts_s[row, 1]
    if courses.end_later(takers, plans, row, work, spare):
        if courses.is_free(profile, takers, plans, row):
            return True
        plans.end_s[row] = end_s
    if courses.step_sooner(takers, plans, row, work, spare):
        if courses.is_free(profile, takers, plans, row):
            return True
        plans.starts_s[row, 1], plans.end_s[row] = second_s, end_s
    return False


def plan_late(profile: Segments, takers: TakerRows, plans: PlanRows, row: int, work: float) -> bool:
    """The lowest level that suffices, from as late on as can be; one less before that.

    References: ElasticFlow, section 4.1, Algorithm 1, lines 11-22, in continuous time.
    """
    until_s, num_levels = takers.until_s[row], takers.num_levels[row]
    if until_s == INF:  # nothing is needed for what may end at infinity
        plans.num[row], plans.end_s[row] = 0, 0.0
        return True
    if not until_s > 0.0 or num_levels == 0:
        return False
    lowest = max(takers.held[row], 1) if takers.is_bound[row] else 1
    num = _runs_of(profile, takers, row, num_levels)
    if _most(takers, row, num) < work * (1.0 - TOLERANCE_SHARE):
        return False
    for level in range(lowest, num_levels + 1):  # Algorithm 1, line 13: j from 1 to G
        if takers.rates[row, level - 1] * until_s < work * (1.0 - TOLERANCE_SHARE):
            continue
        num = _runs_of(profile, takers, row, level)
        if _most(takers, row, num) < work * (1.0 - TOLERANCE_SHARE):
            continue
        found = _plan_up_to(takers, plans, row, level, work, num)
        if found == TOO_RAGGED and num > MOST_SEGMENTS - 2:
            num = _coarsen(takers, row, until_s, num, MOST_SEGMENTS - 2)
            found = _plan_up_to(takers, plans, row, level, work, num)
        if found == FOUND:
            return True
    return False


def is_within_reach(profile: Segments, takers: TakerRows, row: int, work: float) -> bool:
    """Whether so much could be done in time if changes took no time; if not, no plan does it."""
    until_s, num_levels = takers.until_s[row], takers.num_levels[row]
    if until_s == INF:
        return True
    if not until_s > 0.0 or num_levels == 0:
        return False
    num = _runs_of(profile, takers, row, num_levels)
    return _most(takers, row, num) >= work * (1.0 - TOLERANCE_SHARE)


def _runs_of(profile: Segments, takers: TakerRows, row: int, level: int) -> int:
    """Write from when on how much fits of the levels up to this one; returns how many such runs there are."""
    num = _write_runs(profile, takers, row, level, takers.until_s[row])
    return _bind(takers, row, num) if takers.is_bound[row] else num


def _most(takers: TakerRows, row: int, num: int) -> float:
    """Work that is done at most in these runs, if changes take no time."""
    most, end_s, room = 0.0, takers.until_s[row], takers.room
    for run in range(num - 1, -1, -1):
        if room.fits[run] > 0:
            most += takers.rates[row, room.fits[run] - 1] * (end_s - room.starts_s[run])
        end_s = room.starts_s[run]
    return most


def _plan_up_to(takers: TakerRows, plans: PlanRows, row: int, level: int, work: float, num: int) -> int:
    """A plan with at most this level, from a time on that is as late as can be, and at most one less before.

    A dynamic program over the `num` runs, forwards with the lower levels and backwards with all of them: the
    most work for each level that is had in a run. A pause counts as negative work at the level that it leads
    to, so what is longer than its run is waited out in the next one.

    Returns: FOUND, TOO_RAGGED if those that were found have too many segments, or NONE.
    """
    room, until_s = takers.room, takers.until_s[row]
    room.make(num)
    room.before[:num, :level], room.after[:num, : level + 1] = -INF, -INF
    room.came_from[:num, :level], room.goes_to[:num, : level + 1] = 0, 0
    for run in range(num):
        _enter(takers, row, level, run)
    answer = NONE
    for run in range(num - 1, -1, -1):  # line 14: t from D_i down to startTime
        if run == num - 1:
            room.after[run, : room.fits[run] + 1] = 0.0
        else:
            _leave(takers, row, run, num)
        cut_s, low, high = _latest_cut(takers, row, level, run, num, work)
        if cut_s < 0.0:
            continue
        if _write(takers, plans, row, work, run, num, cut_s, low, high):
            return FOUND
        answer = TOO_RAGGED
    high, best = 0, -INF
    end_s = room.starts_s[1] if num > 1 else until_s
    for higher in range(room.fits[0] + 1):
        if takers.is_bound[row] and higher != takers.held[row]:
            continue
        rate = takers.rates[row, higher - 1] if higher > 0 else 0.0
        pause_s = courses.cost_s(takers, row, takers.held[row], higher) + takers.idle_s[row]
        value = room.after[0, higher] + rate * (end_s - pause_s) - courses.lost(takers.held[row], higher)
        if value > best:
            best, high = value, higher
    if best < work * (1.0 - TOLERANCE_SHARE):
        return answer
    is_found = _write(takers, plans, row, work, 0, num, 0.0, high, high)
    return FOUND if is_found else TOO_RAGGED


def _enter(takers: TakerRows, row: int, level: int, run: int) -> None:
    """Write the most work that is done on entering a run at each level below this, and the level before."""
    room, held, idle_s = takers.room, takers.held[row], takers.idle_s[row]
    starts_s, fits, before = room.starts_s, room.fits, room.before
    if run == 0:
        for higher in range(min(fits[0], level - 1) + 1):
            if higher == held or not takers.is_bound[row]:
                rate = takers.rates[row, higher - 1] if higher > 0 else 0.0
                pause_s = courses.cost_s(takers, row, held, higher) + idle_s
                before[0, higher] = -rate * pause_s - courses.lost(held, higher)
        return
    length_s, waits_s = starts_s[run] - starts_s[run - 1], max(idle_s - starts_s[run], 0.0)
    most, best, lowest = min(fits[run - 1], level - 1), -INF, 0
    for lower in range(1, most + 1):  # all but nothing are left at the same cost: the best of them will do
        done = before[run - 1, lower] + takers.rates[row, lower - 1] * length_s
        if done > best:
            best, lowest = done, lower
    nothing = before[run - 1, 0]
    for higher in range(min(fits[run], level - 1) + 1):
        rate = takers.rates[row, higher - 1] if higher > 0 else 0.0
        value, came_from = nothing - rate * (courses.cost_s(takers, row, 0, higher) + waits_s), 0
        changed = best - rate * (takers.resize_s[row, higher - 1] if higher > 0 else 0.0) - 1.0
        if changed > value:
            value, came_from = changed, lowest
        if 0 < higher <= most:
            kept = before[run - 1, higher] + rate * length_s
            if kept >= value:
                value, came_from = kept, higher
        before[run, higher], room.came_from[run, higher] = value, came_from


def _leave(takers: TakerRows, row: int, run: int, num: int) -> None:
    """Write the most work from the end of a run on, for each level in it, and the level that follows."""
    room = takers.room
    starts_s, fits, after, goes_to = room.starts_s, room.fits, room.after, room.goes_to
    end_s = starts_s[run + 2] if run + 2 < num else takers.until_s[row]
    length_s, waits_s = end_s - starts_s[run + 1], max(takers.idle_s[row] - starts_s[run + 1], 0.0)
    nothing = after[run + 1, 0]
    resized, started = nothing - 1.0, nothing
    resized_to = started_to = 0
    for higher in range(fits[run + 1], 0, -1):
        rate = takers.rates[row, higher - 1]
        value = after[run + 1, higher] + rate * length_s
        if value - rate * takers.resize_s[row, higher - 1] - 1.0 > resized:
            resized, resized_to = value - rate * takers.resize_s[row, higher - 1] - 1.0, higher
        if value - rate * (takers.start_s[row, higher - 1] + waits_s) > started:
            started, started_to = value - rate * (takers.start_s[row, higher - 1] + waits_s), higher
    after[run, 0], goes_to[run, 0] = started, started_to
    for lower in range(1, fits[run] + 1):
        after[run, lower], goes_to[run, lower] = resized, resized_to
        if lower <= fits[run + 1]:
            kept = after[run + 1, lower] + takers.rates[row, lower - 1] * length_s
            if kept >= resized:
                after[run, lower], goes_to[run, lower] = kept, lower


def _latest_cut(
    takers: TakerRows, row: int, level: int, run: int, num: int, work: float
) -> tuple[float, int, int]:
    """(time, level before, level after) of the latest change in a run that suffices; (-1, 0, 0): none."""
    room, start_s = takers.room, takers.room.starts_s[run]
    fits, before, after = room.fits[run], room.before, room.after
    end_s = room.starts_s[run + 1] if run + 1 < num else takers.until_s[row]
    length_s, best_s, low, high, most = end_s - start_s, -1.0, 0, 0, -INF
    for lower in range(min(fits, level - 1) + 1):
        most = max(most, before[run, lower])
    for higher in range(fits, 0, -1):
        rate = takers.rates[row, higher - 1]
        if most + after[run, higher] + rate * length_s < work:
            continue
        for lower in range(min(higher, level)):
            slope = rate - (takers.rates[row, lower - 1] if lower > 0 else 0.0)
            pause_s = courses.cost_s(takers, row, lower, higher)
            if lower == 0:
                pause_s += max(takers.idle_s[row] - start_s, 0.0)
            done = (
                before[run, lower]
                + after[run, higher]
                + rate * (length_s - pause_s)
                - courses.lost(lower, higher)
            )
            if done < work:  # line 15: what is left is floored to a lower level
                continue
            cut_s = min((done - work) / slope, length_s)
            if cut_s > best_s:
                best_s, low, high = cut_s, lower, higher
    return (start_s + best_s if best_s >= 0.0 else -1.0), low, high


def _write(
    takers: TakerRows,
    plans: PlanRows,
    row: int,
    work: float,
    run: int,
    num: int,
    cut_s: float,
    low: int,
    high: int,
) -> bool:
    """The plan that goes from `low` to `high` at `cut_s`, in this run; whether it does its work in time."""
    room, levels = takers.room, np.empty(run + 1, dtype=np.int64)
    levels[run] = low
    for earlier in range(run, 0, -1):
        levels[earlier - 1] = room.came_from[earlier, levels[earlier]]
    plans.num[row], plans.end_s[row] = 0, takers.until_s[row]
    fits = True
    for earlier in range(run + 1):
        if cut_s > room.starts_s[earlier]:
            fits = fits and courses.append(plans, row, room.starts_s[earlier], levels[earlier])
    fits = fits and courses.append(plans, row, cut_s, high)
    for later in range(run + 1, num):
        high = room.goes_to[later - 1, high]
        fits = fits and courses.append(plans, row, room.starts_s[later], high)
    return fits and courses.holds(takers, plans, row, work, 0.0)


def plan_early(
    profile: Segments, takers: TakerRows, plans: PlanRows, row: int, work: float, until_s: float
) -> bool:
    """The highest level that is free, from now on, where a change to it pays; whether that is in time."""
    num_levels = takers.num_levels[row]
    if num_levels == 0 or not until_s > 0.0:
        return False
    room = takers.room
    starts_s, fits = room.starts_s, room.fits
    num = _write_runs(profile, takers, row, num_levels, until_s)
    if takers.is_bound[row]:
        num = _bind(takers, row, num)
    num = _coarsen(takers, row, until_s, num, MOST_SEGMENTS)
    plans.num[row], plans.end_s[row] = 0, until_s
    level, done, pause_s = takers.held[row], 0.0, takers.idle_s[row]
    bound_s = pause_s if takers.is_bound[row] else 0.0
    for run in range(num):
        length_s = (starts_s[run + 1] if run + 1 < num else INF) - starts_s[run]
        if starts_s[run] < bound_s - SAME_TIME_S:
            if fits[run] < level:
                return False
            level_then = level
        else:
            fit = fits[run] if level > 0 else _fit_of_start(takers, row, run, num)
            level_then = _worth_most(takers, row, level, fit, length_s, pause_s, work - done)
        courses.append(plans, row, starts_s[run], level_then)
        if level == 0 and level_then > 0:
            bound_s = starts_s[run] + takers.start_s[row, level_then - 1]
        pause_s += courses.cost_s(takers, row, level, level_then)
        done -= courses.lost(level, level_then)
        level = level_then
        if level == 0:
            pause_s = max(pause_s - length_s, 0.0)
        else:
            waited_s = min(pause_s, length_s)
            pause_s -= waited_s
            done += takers.rates[row, level - 1] * (length_s - waited_s)
        if done >= work:
            break
    if until_s == INF:
        end_s = courses.done_s(takers, plans, row, work, INF)
        if end_s < INF:
            plans.end_s[row] = end_s
        else:
            plans.num[row] = 0
        return end_s < INF
    return courses.holds(takers, plans, row, work, 0.0)


def _fit_of_start(takers: TakerRows, row: int, run: int, num: int) -> int:
    """The highest level that is free from this run on for as long as a start takes."""
    room, later = takers.room, run + 1
    fit = room.fits[run]
    until_s = room.starts_s[run] + (takers.start_s[row, fit - 1] if fit > 0 else 0.0) - SAME_TIME_S
    while later < num and room.starts_s[later] < until_s:
        fit = min(fit, room.fits[later])
        later += 1
    return fit


def _worth_most(
    takers: TakerRows, row: int, level: int, fit: int, length_s: float, pause_s: float, left: float
) -> int:
    """The level that is done first with what is left, or does most of it while the run lasts."""
    best, best_done, best_end_s = 0, -1.0, INF
    for other in range(fit, 0, -1):
        rate = takers.rates[row, other - 1]
        waits_s = pause_s + courses.cost_s(takers, row, level, other)
        end_s = waits_s + left / rate
        done = min(rate * max(length_s - waits_s, 0.0), left)
        is_better = done > best_done * (1.0 + TOLERANCE_SHARE)
        if done >= left:
            is_better = end_s < best_end_s
        if is_better or (other == level and done == best_done and end_s <= best_end_s):
            best, best_done = other, done
            best_end_s = end_s if done >= left else INF
    return best


def _write_runs(profile: Segments, takers: TakerRows, row: int, num_levels: int, until_s: float) -> int:
    """Write from when on which of so many levels is the highest that fits; returns how many runs."""
    starts_s, fits, num = takers.room.starts_s, takers.room.fits, 0
    for place in range(profile.num):
        if profile.starts_s[place] >= until_s:
            break
        fit = num_levels
        while fit > 0 and takers.devices[row, fit - 1] > profile.free[place]:
            fit -= 1
        if num > 0 and fits[num - 1] == fit:
            continue
        if num == MOST_RUNS:
            fits[num - 1] = min(fits[num - 1], fit)
            continue
        starts_s[num], fits[num] = profile.starts_s[place], fit
        num += 1
    return num


def _coarsen(takers: TakerRows, row: int, until_s: float, num: int, most: int) -> int:
    """The same with fewer runs: neighbours become one of what is free in both, where that loses least."""
    if num <= most:
        return num
    starts_s, fits, losses = takers.room.starts_s, takers.room.fits, np.empty(num)
    for run in range(num - 1):
        losses[run] = _loss(takers, row, until_s, num, run)
    while num > most:
        best = int(np.argmin(losses[: num - 1]))
        fits[best] = min(fits[best], fits[best + 1])
        for run in range(best + 1, num - 1):
            starts_s[run], fits[run], losses[run] = starts_s[run + 1], fits[run + 1], losses[run + 1]
        num -= 1
        for run in range(max(best, 1) - 1, min(best + 1, num - 1)):
            losses[run] = _loss(takers, row, until_s, num, run)
    return num


def _loss(takers: TakerRows, row: int, until_s: float, num: int, run: int) -> float:
    """Work that is lost if a run and the next one become one."""
    starts_s, fits = takers.room.starts_s, takers.room.fits
    fit, middle_s = min(fits[run], fits[run + 1]), starts_s[run + 1]
    rate = takers.rates[row, fit - 1] if fit > 0 else 0.0
    if fits[run] > fit:
        return (takers.rates[row, fits[run] - 1] - rate) * (middle_s - starts_s[run])
    if fits[run + 1] > fit:
        end_s = min(starts_s[run + 2] if run + 2 < num else until_s, FAR_S)
        return (takers.rates[row, fits[run + 1] - 1] - rate) * max(end_s - middle_s, 0.0)
    return 0.0


def _bind(takers: TakerRows, row: int, num: int) -> int:
    """The same with one run until a change is over, of what is free all the while; returns how many."""
    starts_s, fits, idle_s, last = takers.room.starts_s, takers.room.fits, takers.idle_s[row], 0
    while last + 1 < num and starts_s[last + 1] < idle_s:
        last += 1
        fits[0] = min(fits[0], fits[last])
    if last == 0:
        return num
    starts_s[1], fits[1] = idle_s, fits[last]
    for run in range(last + 1, num):
        starts_s[run - last + 1], fits[run - last + 1] = starts_s[run], fits[run]
    return num - last + 1
