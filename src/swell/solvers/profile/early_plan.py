"""The plan of as much as is useful, from now on."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import part
from swell.solvers.profile.plans import (
    MOST_SEGMENTS,
    SAME_TIME_S,
    TOLERANCE_SHARE,
    Plans,
    Takers,
    append,
    cost_s,
    done_s,
    holds,
    lost,
)
from swell.solvers.profile.runs import MOST_RUNS, bind, coarsen, write_runs
from swell.solvers.profile.segments import FreeSegments


@part
def plan_early(
    profile: FreeSegments, takers: Takers, plans: Plans, row: int, work: float, until_s: float
) -> bool:
    """The highest level that is free, from now on, where a change to it pays; whether that is in time."""
    num_levels = takers.num_levels[row]
    if num_levels == 0 or not until_s > 0.0:
        return False
    starts_s, fits = np.empty(MOST_RUNS), np.empty(MOST_RUNS, dtype=np.int64)
    num = write_runs(profile, until_s, takers.devices[row, :num_levels], starts_s, fits)
    if takers.is_bound[row]:
        num = bind(takers.idle_s[row], starts_s, fits, num)
    num = coarsen(takers.rates[row], until_s, starts_s, fits, num, MOST_SEGMENTS)
    plans.num[row], plans.end_s[row] = 0, until_s
    level, done, pause_s = takers.held[row], 0.0, takers.idle_s[row]
    bound_s = pause_s if takers.is_bound[row] else 0.0
    for run in range(num):
        length_s = (starts_s[run + 1] if run + 1 < num else np.inf) - starts_s[run]
        if starts_s[run] < bound_s - SAME_TIME_S:
            if fits[run] < level:
                return False
            level_then = level
        else:
            fit = fits[run] if level > 0 else _fit_of_start(takers, row, starts_s[:num], fits, run)
            level_then = _worth_most(takers, row, level, fit, length_s, pause_s, work - done)
        append(plans, row, starts_s[run], level_then)
        if level == 0 and level_then > 0:
            bound_s = starts_s[run] + takers.start_s[row, level_then - 1]
        pause_s += cost_s(takers, row, level, level_then)
        done -= lost(level, level_then)
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
        end_s = done_s(takers, plans, row, work, np.inf)
        if end_s < np.inf:
            plans.end_s[row] = end_s
        else:
            plans.num[row] = 0
        return end_s < np.inf
    return holds(takers, plans, row, work, 0.0)


@part
def _fit_of_start(takers: Takers, row: int, starts_s: FloatArray, fits: IntArray, run: int) -> int:
    """The highest level that is free from this run on for as long as a start takes."""
    fit, later = fits[run], run + 1
    until_s = starts_s[run] + (takers.start_s[row, fit - 1] if fit > 0 else 0.0) - SAME_TIME_S
    while later < len(starts_s) and starts_s[later] < until_s:
        fit = min(fit, fits[later])
        later += 1
    return fit  # type: ignore[no-any-return]


@part
def _worth_most(
    takers: Takers, row: int, level: int, fit: int, length_s: float, pause_s: float, left: float
) -> int:
    """The level that is done first with what is left, or does most of it while the run lasts."""
    best, best_done, best_end_s = 0, -1.0, np.inf
    for other in range(fit, 0, -1):
        rate = takers.rates[row, other - 1]
        waits_s = pause_s + cost_s(takers, row, level, other)
        end_s = waits_s + left / rate
        done = min(rate * max(length_s - waits_s, 0.0), left)
        is_better = done > best_done * (1.0 + TOLERANCE_SHARE)
        if done >= left:
            is_better = end_s < best_end_s
        if is_better or (other == level and done == best_done and end_s <= best_end_s):
            best, best_done = other, done
            best_end_s = end_s if done >= left else np.inf
    return best
