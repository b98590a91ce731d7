"""The plan of the lowest level that suffices, as late as can be."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import part
from swell.solvers.profile.plans import (
    MOST_SEGMENTS,
    TOLERANCE_SHARE,
    Plans,
    Takers,
    append,
    cost_s,
    holds,
    lost,
)
from swell.solvers.profile.runs import MOST_RUNS, bind, coarsen, write_runs
from swell.solvers.profile.segments import FreeSegments

#: Whether there is a plan; TOO_RAGGED: there is, but with more segments than a plan may have.
NONE, TOO_RAGGED, FOUND = 0, 1, 2


@part
def plan_late(profile: FreeSegments, takers: Takers, plans: Plans, row: int, work: float) -> bool:
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
            num = coarsen(takers.rates[row], until_s, starts_s, fits, num, MOST_SEGMENTS - 2)
            found = _plan_up_to(takers, plans, row, level, work, starts_s[:num], fits[:num])
        if found == FOUND:
            return True
    return False


@part
def is_within_reach(profile: FreeSegments, takers: Takers, row: int, work: float) -> bool:
    """Whether so much could be done in time if changes took no time; if not, no plan does it."""
    until_s, num_levels = takers.until_s[row], takers.num_levels[row]
    if until_s == np.inf:
        return True
    if not until_s > 0.0 or num_levels == 0:
        return False
    starts_s, fits = np.empty(MOST_RUNS), np.empty(MOST_RUNS, dtype=np.int64)
    num = _runs_of(profile, takers, row, num_levels, starts_s, fits)
    return _most(takers, row, starts_s, fits, num) >= work * (1.0 - TOLERANCE_SHARE)


@part
def _runs_of(
    profile: FreeSegments, takers: Takers, row: int, level: int, starts_s: FloatArray, fits: IntArray
) -> int:
    """Write from when on how much fits of the levels up to this one; returns how many such runs there are."""
    num = write_runs(profile, takers.until_s[row], takers.devices[row, :level], starts_s, fits)
    return bind(takers.idle_s[row], starts_s, fits, num) if takers.is_bound[row] else num


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
        pause_s = cost_s(takers, row, takers.held[row], higher) + takers.idle_s[row]
        value = after[0, higher] + rate * (end_s - pause_s) - lost(takers.held[row], higher)
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
                pause_s = cost_s(takers, row, held, higher) + takers.idle_s[row]
                before[0, higher] = -rate * pause_s - lost(held, higher)
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
        value, lower = nothing - rate * (cost_s(takers, row, 0, higher) + waits_s), 0
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
            pause_s = cost_s(takers, row, lower, higher)
            if lower == 0:
                pause_s += max(takers.idle_s[row] - start_s, 0.0)
            done = before[run, lower] + after[run, higher] + rate * (length_s - pause_s) - lost(lower, higher)
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
            fits = fits and append(plans, row, starts_s[earlier], levels[earlier])
    fits = fits and append(plans, row, cut_s, high)
    for later in range(run + 1, len(starts_s)):
        high = goes_to[later - 1, high]
        fits = fits and append(plans, row, starts_s[later], high)
    return fits and holds(takers, plans, row, work, 0.0)
