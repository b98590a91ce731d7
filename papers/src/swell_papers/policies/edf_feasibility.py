"""Admission to a queue that is served by deadline: does each job in it still end in time?"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.lengths import span
from swell.model.plan import Refusal
from swell.model.snapshot import Snapshot
from swell.policies import wording
from swell.policies.levels import Levels
from swell.policies.refusing import LazyRefusals, obstacles
from swell.solvers.turns import OccupiedDevices, Tasks, ends_if_in_time, ends_in_order


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
        self._tasks = _tasks(snapshot, levels)
        self._is_occupying = (snapshot.held_workers > 0) & (self._tasks.fixed_s > 0.0)
        self.kept = snapshot.by_deadline(np.flatnonzero(snapshot.is_promised))
        self.refusals = LazyRefusals()

    def admit(self) -> None:
        """Promise or refuse each undecided job, by priority and arrival; each counts for the next."""
        snapshot = self._snapshot
        newcomers = snapshot.in_order(np.flatnonzero(snapshot.is_undecided)).tolist()
        kept_ends_s = self._ends_s(self.kept) if newcomers else np.zeros(0)
        how = " when jobs run in order of deadline"
        for row in newcomers:
            trial = snapshot.by_deadline(np.append(self.kept, row))
            ends_s = self._sound_ends_s(trial, row, kept_ends_s)
            if ends_s is not None:
                self.kept, kept_ends_s = trial, ends_s
            else:
                self.refusals.add(row, partial(dropped, snapshot, self._levels, row, self.kept, how))

    def _ends_s(self, rows: IntArray) -> FloatArray:
        num_devices = self._snapshot.num_owned_until(self._latest_s(self._until_s[rows]))
        return ends_in_order(self._tasks, rows, num_devices, self._occupied(rows)) + self._wait_s[rows]

    def _latest_s(self, latest_s: FloatArray) -> float:
        """The latest finite one of these times from now, in head time."""
        return self._snapshot.now_s + float(latest_s[np.isfinite(latest_s)].max(initial=0.0))

    def _occupied(self, rows: IntArray) -> OccupiedDevices:
        """Devices that other jobs hold, and for how long no promise can take them away."""
        others = self._is_occupying.copy()
        others[rows] = False
        devices = self._snapshot.held_workers * self._snapshot.devices_per_worker
        return OccupiedDevices(devices[others], self._tasks.fixed_s[others])

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
        num_devices = self._snapshot.num_owned_until(self._latest_s(latest_s))
        occupied, wait_s = self._occupied(trial), self._wait_s[trial]
        ends_s = ends_if_in_time(self._tasks, trial, num_devices, occupied, latest_s - wait_s)
        return None if ends_s is None else ends_s + wait_s

    def _least_s(self, row: int) -> float:
        """What it takes from a start on, with as many devices as it can use."""
        tasks, num = self._tasks, self._levels.num[row]
        if num == 0:
            return math.inf
        starts_s = self._wait_s[row] + (tasks.start_s[row, :num].min() if tasks.held[row] == 0 else 0.0)
        return float(starts_s + tasks.work[row] / tasks.rates[row, :num].max())


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


def _tasks(snapshot: Snapshot, levels: Levels) -> Tasks:
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
    return Tasks(
        devices=levels.devices,
        rates=levels.safe_rates,
        num_levels=levels.num,
        work=snapshot.remaining_steps,
        held=held,
        pause_s=pause_s + change_s * is_other_size,
        fixed_s=np.where(ending_s > 0.0, pause_s + ending_s, starting_s),
        start_s=levels.start_s,
        change_s=levels.resize_s,
    )


def _ending_s(snapshot: Snapshot) -> FloatArray:
    """(J,) training that is left of gangs that the head leaves alone, for it is short; 0 for others."""
    rate_per_s = snapshot.held_rate_per_s
    is_ending = snapshot.remaining_steps <= rate_per_s * snapshot.start_cost_s
    ending_s = np.zeros(snapshot.num_jobs)
    np.divide(snapshot.remaining_steps, rate_per_s, out=ending_s, where=is_ending & (rate_per_s > 0.0))
    return ending_s
