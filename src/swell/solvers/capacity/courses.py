"""What plans do over time, and what they take."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.solvers.capacity import segments
from swell.solvers.capacity.plans import (
    INF,
    MOST_RUNS,
    MOST_SEGMENTS,
    SAME_TIME_S,
    SPARE_S,
    TOLERANCE_SHARE,
    Plans,
    Takers,
)
from swell.solvers.capacity.segments import Segments


class Room:
    """Room to plan one taker in: the runs of what is free, and columns for each of them."""

    def __init__(self, num_levels: int) -> None:
        self.starts_s, self.fits = np.empty(MOST_RUNS), np.empty(MOST_RUNS, dtype=np.int64)
        self.num_levels = num_levels
        #: The plan that it had.
        self.plan_starts_s = np.empty(MOST_SEGMENTS)
        self.plan_levels = np.empty(MOST_SEGMENTS, dtype=np.int64)
        self.before = self.after = np.empty((0, 0))
        self.came_from = self.goes_to = np.empty((0, 0), dtype=np.int64)

    def make(self, num_runs: int) -> None:
        """Have tables for so many runs at least."""
        if num_runs > len(self.before):
            by_level = 2 * num_runs, self.num_levels + 1
            #: Most work on entering a run at a level below the highest, and the level before that.
            self.before, self.came_from = np.empty(by_level), np.empty(by_level, dtype=np.int64)
            #: Most work from the end of a run on, at a level in it, and the level after that.
            self.after, self.goes_to = np.empty(by_level), np.empty(by_level, dtype=np.int64)


class TakerRows:
    """`Takers` as kernels take them."""

    def __init__(self, takers: Takers, room: Room) -> None:
        self.devices, self.rates, self.num_levels = takers.devices, takers.rates, takers.num_levels
        self.start_s, self.resize_s = takers.start_s, takers.resize_s
        self.held, self.idle_s, self.is_bound = takers.held, takers.idle_s, takers.is_bound
        self.work, self.until_s = takers.work, takers.until_s
        self.columns, self.room = takers, room
        self.believed: TakerRows | None = None


class PlanRows:
    """`Plans` as kernels take them."""

    def __init__(self, plans: Plans) -> None:
        self.grade, self.num, self.end_s = plans.grade, plans.num, plans.end_s
        self.starts_s, self.levels = plans.starts_s, plans.levels
        self.now, self.top, self.change_s = plans.now, plans.top, plans.change_s


def rows_of(takers: Takers) -> TakerRows:
    """Return the takers as kernels take them, with room to plan them in."""
    return TakerRows(takers, Room(takers.devices.shape[1]))


def as_believed(takers: TakerRows) -> TakerRows:
    """The same at the believed rates."""
    if takers.believed is None:
        columns = takers.columns
        takers.believed = TakerRows(columns._replace(rates=columns.believed_rates), takers.room)
    return takers.believed


def cost_s(takers: TakerRows, row: int, before: int, level: int) -> float:
    """Time without work when going from one level to another."""
    if level == 0 or level == before:
        return 0.0
    return takers.start_s[row, level - 1] if before == 0 else takers.resize_s[row, level - 1]


def lost(before: int, level: int) -> float:
    """Work that is under way when a level is left, and may not count."""
    return 1.0 if before > 0 and level != before else 0.0


def done_s(takers: TakerRows, plans: PlanRows, row: int, work: float, until_s: float) -> float:
    """When the plan has done so much; inf if it does not by then. All pauses are waited out one by one.

    No plan does anything that changes what is being started before that is up.
    """
    level, pause_s, done = takers.held[row], takers.idle_s[row], 0.0
    bound_s, has_run = pause_s if takers.is_bound[row] else 0.0, level != 0
    for segment in range(plans.num[row]):
        start_s, after = plans.starts_s[row, segment], plans.levels[row, segment]
        if after != level and start_s < bound_s - SAME_TIME_S:
            return INF
        takes_s = cost_s(takers, row, level, after)
        if level == 0 and after > 0:
            if has_run:  # when its stop is due it may be kept as it is: then this is a resize
                takes_s = max(takes_s, takers.resize_s[row, after - 1])
            bound_s, has_run = start_s + takes_s, True
        done -= lost(level, after)
        end_s = plans.starts_s[row, segment + 1] if segment + 1 < plans.num[row] else until_s
        pause_s += takes_s
        level = after
        if level == 0:  # to be stopped, it may run on all the same: the pause under way is waited out
            pause_s = max(pause_s - (end_s - start_s), 0.0)
            continue
        rate, length_s = takers.rates[row, level - 1], min(end_s, until_s) - start_s
        waited_s = min(pause_s, length_s)
        pause_s -= waited_s
        if done + rate * (length_s - waited_s) >= work * (1.0 - TOLERANCE_SHARE):
            return start_s + waited_s + max(work - done, 0.0) / rate
        done += rate * max(length_s - waited_s, 0.0)
    return INF


def spare_of(takers: TakerRows, row: int) -> float:
    """Work that a plan is made for beyond what there is."""
    num_levels = takers.num_levels[row]
    return SPARE_S * takers.rates[row, num_levels - 1] if num_levels > 0 else 0.0


def holds(takers: TakerRows, plans: PlanRows, row: int, work: float, spare: float) -> bool:
    """Whether its plan does so much in time; if so, the plan ends when that and what is to spare is done."""
    return _ends_by(takers, plans, row, work, spare, min(plans.end_s[row], takers.until_s[row]))


def end_later(takers: TakerRows, plans: PlanRows, row: int, work: float, spare: float) -> bool:
    """Whether its plan does so much in time if its last level lasts longer; if so, that is its plan."""
    return _ends_by(takers, plans, row, work, spare, takers.until_s[row])


def _ends_by(takers: TakerRows, plans: PlanRows, row: int, work: float, spare: float, until_s: float) -> bool:
    """Whether its plan does so much by then; if so, it ends when that and what is to spare is done."""
    end_s = done_s(takers, plans, row, work + spare, until_s)
    if end_s == INF and done_s(takers, plans, row, work, until_s) == INF:
        return False
    plans.end_s[row] = min(end_s, until_s)
    return True


def step_sooner(takers: TakerRows, plans: PlanRows, row: int, work: float, spare: float) -> bool:
    """Whether its plan does so much in time if its first step up is sooner, by no more than it takes.

    If so, that is its plan.
    """
    if plans.num[row] < 2 or plans.levels[row, 1] <= plans.levels[row, 0]:
        return False
    latest_s, last = plans.starts_s[row, 1], plans.levels[row, plans.num[row] - 1]
    too_late_s = done_s(takers, plans, row, work, INF) - min(plans.end_s[row], takers.until_s[row])
    if last == 0 or too_late_s == INF:
        return False
    lower, higher = plans.levels[row, 0], plans.levels[row, 1]
    gain = takers.rates[row, higher - 1] - (takers.rates[row, lower - 1] if lower > 0 else 0.0)
    plans.starts_s[row, 1] = latest_s - too_late_s * takers.rates[row, last - 1] / gain
    if plans.starts_s[row, 1] > 0.0 and holds(takers, plans, row, work, spare):
        return True
    plans.starts_s[row, 1] = latest_s
    return False


def finish(takers: TakerRows, plans: PlanRows, row: int) -> None:
    """Write what follows from its segments."""
    num, end_s = plans.num[row], plans.end_s[row]
    while num > 1 and plans.starts_s[row, num - 1] >= end_s:
        num -= 1
    plans.num[row] = num
    plans.now[row], plans.top[row], plans.change_s[row] = 0, 0, INF
    if num == 0:
        plans.end_s[row] = 0.0
        return
    plans.now[row], plans.change_s[row] = plans.levels[row, 0], end_s
    for segment in range(num):
        level = plans.levels[row, segment]
        plans.top[row] = max(plans.top[row], level)
        if level != plans.now[row] and plans.change_s[row] == end_s:
            plans.change_s[row] = plans.starts_s[row, segment]


def append(plans: PlanRows, row: int, start_s: float, level: int) -> bool:
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


def is_free(profile: Segments, takers: TakerRows, plans: PlanRows, row: int) -> bool:
    """Whether all that its plan takes is there."""
    for segment in range(plans.num[row]):
        level = plans.levels[row, segment]
        if level == 0:
            continue
        need, start_s = takers.devices[row, level - 1], plans.starts_s[row, segment]
        end_s = plans.end_s[row]
        if segment + 1 < plans.num[row]:
            end_s = min(plans.starts_s[row, segment + 1], end_s)
        if end_s > start_s and not segments.are_free(profile, start_s, end_s, need):
            return False
    return True


def take(profile: Segments, takers: TakerRows, plans: PlanRows, row: int, sign: int) -> None:
    """Take what its plan needs; with a sign of -1 give it back."""
    for segment in range(plans.num[row]):
        level = plans.levels[row, segment]
        if level == 0:
            continue
        num, start_s = sign * takers.devices[row, level - 1], plans.starts_s[row, segment]
        end_s = plans.starts_s[row, segment + 1] if segment + 1 < plans.num[row] else plans.end_s[row]
        segments.take_between(profile, start_s, end_s, num)


def write_plans(
    now_s: float,
    rows: IntArray,
    plans: PlanRows,
    workers: IntArray,
    starts_s: FloatArray,
    sizes: IntArray,
) -> None:
    """Write when each segment of the plans of these rows begins, and the workers in it."""
    for job in range(len(rows)):
        row = rows[job]
        for segment in range(plans.num[row]):
            level = plans.levels[row, segment]
            starts_s[job, segment] = plans.starts_s[row, segment] + now_s
            sizes[job, segment] = workers[row, level - 1] if level > 0 else 0


def read_plans(
    now_s: float,
    rows: IntArray,
    grade: IntArray,
    segments: IntArray,
    starts_s: FloatArray,
    sizes: IntArray,
    ends_s: FloatArray,
    workers: IntArray,
    num_levels: IntArray,
    plans: PlanRows,
) -> None:
    """Write what is left of each plan that was remembered."""
    for job in range(len(rows)):
        row = rows[job]
        if row < 0:
            continue
        plans.grade[row] = grade[job]
        if ends_s[job] <= now_s:
            continue
        kept = 0
        for segment in range(segments[job]):
            size, level = sizes[job, segment], 0
            while level < num_levels[row] and size > 0 and workers[row, level] != size:
                level += 1
            if size > 0 and level == num_levels[row]:
                kept = 0
                break
            start_s = max(starts_s[job, segment] - now_s, 0.0)
            if start_s == 0.0:
                kept = 0
            plans.starts_s[row, kept] = start_s
            plans.levels[row, kept] = level + 1 if size > 0 else 0
            kept += 1
        plans.num[row], plans.end_s[row] = kept, ends_s[job] - now_s
