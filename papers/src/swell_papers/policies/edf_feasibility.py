"""Admission to a queue that is served by deadline: does each job in it still end in time?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.plan import Allocation, Refusal
from swell.model.quantities import span
from swell.model.snapshot import Snapshot
from swell.policies import wording
from swell.policies.levels import Levels
from swell.policies.unpromised import without_promises
from swell.policies.wording import RefusalTable, obstacles
from swell.solvers.marginal import SeparatePart, raise_within

#: An end that is later by less is not later: sums are not exact.
NO_LATER_S = 1e-6


@dataclass(slots=True)
class ServedJob:
    """A job while it is served. Levels are numbered from 1 by ascending size; level 0 is nothing."""

    devices: list[int]  #: of levels 1, 2, ...
    rates: list[float]  #: of steps per second
    start_s: list[float]  #: time without work from a start at each level on
    change_s: list[float]  #: time without work from a change to each level on
    left: float  #: steps
    level: int
    pause_s: float  #: time without work from now on, if it keeps its level
    fixed_s: float  #: time from now on in which its level cannot change
    latest_s: float = math.inf  #: its end is looked for no further
    due: int = 0  #: level that it is to have
    end_s: float = math.inf

    @property
    def num_devices(self) -> int:
        return self.devices[self.level - 1] if self.level else 0

    def change(self, level: int) -> None:
        """Start, change or stop."""
        if level:
            self.pause_s = self.pause_s + self.change_s[level - 1] if self.level else self.start_s[level - 1]
        self.level = level

    def ends_at_s(self, clock_s: float) -> float:
        """When a job with a level ends, if it keeps that."""
        return clock_s + self.pause_s + self.left / self.rates[self.level - 1]

    def train(self, elapsed_s: float) -> None:
        """Let time pass."""
        self.left -= self.rates[self.level - 1] * max(elapsed_s - self.pause_s, 0.0)
        self.pause_s = max(self.pause_s - elapsed_s, 0.0)


def serve_in_order(
    jobs: Sequence[ServedJob], num_devices: int, occupied: Sequence[tuple[int, float]]
) -> bool:
    """Serve jobs in this order, each at the highest of its levels that fits; writes when each ends, from now.

    Levels are dealt out again whenever a job ends. What is due to one but still held by another, whose level
    cannot change yet, is waited for. So no job delays one before it, save by its present level. One that
    fits nowhere ends at infinity.

    Args:
        occupied: devices that no job can have before some time from now.

    Returns:
        Whether each ends by its `latest_s`; False as soon as one does not.
    """
    clock_s, waiting = 0.0, list(jobs)
    least = min((job.devices[0] for job in jobs if job.devices), default=0)
    while waiting and clock_s <= waiting[0].latest_s + NO_LATER_S:
        served = _due(waiting, num_devices, least)
        num_occupied = sum(num for num, until_s in occupied if until_s > clock_s)
        _deal(waiting, served, num_devices - num_occupied, clock_s)
        running = [job for job in waiting if job.level]
        waits_s = [job.fixed_s for job in running] + [until_s for _, until_s in occupied]
        events_s = [job.ends_at_s(clock_s) for job in running] + [at_s for at_s in waits_s if at_s > clock_s]
        next_s = min(events_s, default=math.inf)
        if next_s == math.inf:
            break
        for job in running:
            if job.ends_at_s(clock_s) <= next_s:
                job.end_s = next_s
            else:
                job.train(next_s - clock_s)
        clock_s, waiting = next_s, [job for job in waiting if job.end_s == math.inf]
    return all(job.end_s <= job.latest_s + NO_LATER_S for job in jobs)


def _due(waiting: Sequence[ServedJob], left: int, least: int) -> list[ServedJob]:
    """Jobs to which a level is due: in order, to each the highest one that fits."""
    for job in waiting:
        job.due = 0
    served = []
    for job in waiting:
        if left < least:
            break
        job.due = sum(size <= left for size in job.devices)
        if job.due:
            served.append(job)
            left -= job.devices[job.due - 1]
    return served


def _deal(waiting: Sequence[ServedJob], served: Sequence[ServedJob], free: int, clock_s: float) -> None:
    """Give what is due as far as it can be had, growths before starts."""
    for job in waiting:
        if job.due < job.level and job.fixed_s <= clock_s:
            job.change(job.due)
    free -= sum(job.num_devices for job in waiting)
    growing = [job for job in served if 0 < job.level < job.due and job.fixed_s <= clock_s]
    for job in growing + [job for job in served if not job.level]:
        more = job.devices[job.due - 1] - job.num_devices
        if more <= free:
            job.change(job.due)
            free -= more


class EdfForecast:
    """Foresees the run of the promised jobs: by deadline, each with the highest of `levels` that fits.

    Each start and each change of size in this run is charged at its upper cost, of the newcomer and of those
    that it makes start or change; and rates are taken to be too high by as much as they have proved to be.

    Args:
        wait_s: for which one that waits may have to wait although devices are due to it.
    """

    def __init__(self, snapshot: Snapshot, levels: Levels, wait_s: float = 0.0) -> None:
        self._snapshot, self._levels = snapshot, levels
        self._until_s = snapshot.deadline_s - snapshot.now_s
        self._wait_s = np.where(snapshot.held_workers == 0, wait_s, 0.0)
        self._jobs = _served_jobs(snapshot, levels)
        self._is_occupying = np.array([job.level > 0 and job.fixed_s > 0.0 for job in self._jobs], dtype=bool)
        self.kept = snapshot.by_deadline(np.flatnonzero(snapshot.is_promised))
        self.refusals = RefusalTable()

    def admit(self) -> None:
        """Promise or refuse each undecided job, by priority and arrival; each counts for the next."""
        snapshot = self._snapshot
        newcomers = snapshot.in_order(np.flatnonzero(snapshot.is_undecided)).tolist()
        if not newcomers:
            return
        kept_ends_s, _ = self._ends_s(self.kept, np.full(len(self.kept), math.inf), self._until_s[self.kept])
        how = " when jobs run in order of deadline"
        for row in newcomers:
            trial = snapshot.by_deadline(np.append(self.kept, row))
            ends_s = self._sound_ends_s(trial, row, kept_ends_s)
            if ends_s is not None:
                self.kept, kept_ends_s = trial, ends_s
            else:
                self.refusals.add(row, partial(dropped, snapshot, self._levels, row, self.kept, how))

    @property
    def others(self) -> IntArray:
        """Rows of jobs that are neither promised nor refused."""
        is_other = np.ones(self._snapshot.num_jobs, dtype=bool)
        is_other[self.kept] = is_other[list(self.refusals)] = False
        return np.flatnonzero(is_other)

    def serve(self, order: IntArray, most: int | IntArray, has: str, waits: str) -> Allocation:
        """The answer: jobs in this order, each with the highest of its levels up to `most` that fits.

        What was foreseen at the gate holds only if each promised job has just these sizes.

        Args:
            has: why a job has what it has, and `waits` why it waits, as parts of sentences.
        """
        snapshot, levels = self._snapshot, self._levels
        level = np.zeros(snapshot.num_jobs, dtype=np.int64)
        own = SeparatePart(snapshot.num_owned, snapshot.needs_owned)
        raise_within(level, levels.devices, levels.num, order, most, snapshot.num_devices, own)
        answer = without_promises(snapshot, levels, level, order, lambda row: has, waits)
        floor = np.zeros_like(answer.workers)
        floor[self.kept] = answer.workers[self.kept]
        return replace(answer, floor=floor, refusals=self.refusals)

    def _ends_s(self, rows: IntArray, latest_s: FloatArray, until_s: FloatArray) -> tuple[FloatArray, bool]:
        """(n,) ends of these jobs from now, and whether each is in time; if not, they are of no use.

        Args:
            latest_s: (n,) that each may end.
            until_s: (n,) devices count that are there until the last of these finite times.
        """
        jobs, wait_s = [copy(self._jobs[row]) for row in rows.tolist()], self._wait_s[rows]
        for job, its_latest_s in zip(jobs, (latest_s - wait_s).tolist(), strict=True):
            job.latest_s = its_latest_s
        last_s = self._snapshot.now_s + float(until_s[np.isfinite(until_s)].max(initial=0.0))
        num_devices = self._snapshot.num_owned_until(last_s)
        is_in_time = serve_in_order(jobs, num_devices, self._occupied(rows))
        return np.array([job.end_s for job in jobs]) + wait_s, is_in_time

    def _occupied(self, rows: IntArray) -> list[tuple[int, float]]:
        """Devices that other jobs hold, and for how long no promise can take them away."""
        others = self._is_occupying.copy()
        others[rows] = False
        devices = (self._snapshot.held_workers * self._snapshot.devices_per_worker).tolist()
        return [(devices[row], self._jobs[row].fixed_s) for row in np.flatnonzero(others).tolist()]

    def _sound_ends_s(self, trial: IntArray, newcomer: int, kept_ends_s: FloatArray) -> FloatArray | None:
        """Ends of `trial`; None unless the newcomer ends in time, and no other becomes late.

        One that is late even without the newcomer must not become later.

        Args:
            kept_ends_s: of the others, without the newcomer.
        """
        until_s = float(self._until_s[newcomer])
        if self._least_s(newcomer) > until_s:
            return None
        latest_s = np.full(len(trial), until_s)
        others = trial != newcomer
        latest_s[others] = np.maximum(self._until_s[trial[others]], kept_ends_s)
        ends_s, is_in_time = self._ends_s(trial, latest_s, latest_s)
        return ends_s if is_in_time else None

    def _least_s(self, row: int) -> float:
        """What it takes from a start on, with as many devices as it can use."""
        job = self._jobs[row]
        if not job.devices:
            return math.inf
        starts_s = 0.0 if job.level else min(job.start_s)
        return float(self._wait_s[row]) + starts_s + job.left / max(job.rates)


def dropped(snapshot: Snapshot, levels: Levels, row: int, promised: IntArray, how: str = "") -> Refusal:
    """Refuse a job as in print: it is dropped, and no deadline is named that would be promised.

    Args:
        promised: rows of the jobs whose promises stand.
        how: how jobs are served, where that is a reason, as a part of a sentence.
    """
    if not (levels.num[row] and levels.devices[row, 0] <= snapshot.num_owned):
        return Refusal(earliest_deadline_s=None, text=wording.no_size_fits(snapshot, row))
    window_s = float(snapshot.deadline_s[row]) - snapshot.now_s
    if window_s <= 0.0:
        return Refusal(earliest_deadline_s=None, text="its deadline has passed")
    found = obstacles(snapshot, levels, row, window_s, promised)
    text = (
        f"its deadline in {span(window_s)} cannot be kept{how}: {found}; this policy names no other deadline"
    )
    return Refusal(earliest_deadline_s=None, text=text)


def _served_jobs(snapshot: Snapshot, levels: Levels) -> list[ServedJob]:
    """Jobs as they are. A gang cannot change while it starts, nor if it is to end before another could start.

    The belief counts a pause that is under way as training, until its end is reported: it is still to come.
    """
    is_held, since_s = snapshot.held_workers > 0, snapshot.now_s - snapshot.changed_s
    held = np.where(is_held, np.maximum(levels.held, np.minimum(levels.num, 1)), 0)
    at = np.arange(snapshot.num_jobs), np.maximum(held - 1, 0)
    start_s, change_s = levels.start_s[at], levels.resize_s[at]
    starting_s = np.where(held > 0, np.maximum(start_s - since_s, 0.0), 0.0)
    is_pausing = (held > 0) & (snapshot.num_changes > 0) & (since_s < change_s)
    pause_s = np.maximum(starting_s, change_s * is_pausing)
    is_other_size = (held > 0) & (levels.workers_at(held) != snapshot.held_workers)
    ending_s = _ending_s(snapshot) * (1.0 + levels.margin_share[at])
    tables = (levels.devices, levels.safe_rates, levels.start_s, levels.resize_s)
    columns = (
        snapshot.remaining_steps,
        held,
        pause_s + change_s * is_other_size,
        np.where(ending_s > 0.0, pause_s + ending_s, starting_s),
    )
    of_levels = (
        [table[row, :num].tolist() for table in tables] for row, num in enumerate(levels.num.tolist())
    )
    of_jobs = zip(*(column.tolist() for column in columns), strict=True)
    return [ServedJob(*of_level, *of_job) for of_level, of_job in zip(of_levels, of_jobs, strict=True)]


def _ending_s(snapshot: Snapshot) -> FloatArray:
    """(J,) training that is left of gangs that the head leaves alone, for it is short; 0 for others."""
    rate_per_s = snapshot.held_rate_per_s
    is_ending = snapshot.remaining_steps <= rate_per_s * snapshot.start_cost_s
    ending_s = np.zeros(snapshot.num_jobs)
    np.divide(snapshot.remaining_steps, rate_per_s, out=ending_s, where=is_ending & (rate_per_s > 0.0))
    return ending_s
