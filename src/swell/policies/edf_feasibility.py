"""Admission to a queue that is served by deadline: does everybody in it still end in time?"""

from __future__ import annotations

import math

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.plan import Refusal
from swell.model.snapshot import Snapshot
from swell.policies import wording
from swell.policies.levels import Levels
from swell.policies.order import by_arrival, by_deadline
from swell.solvers.turns import ends_in_order


class Gate:
    """Foresees the run of the promised jobs: by deadline, each with the highest of `levels` that fits.

    What rates have proved too high by is planned for, and the start of a job that waits; what later
    preemptions cost is not.

    Args:
        wait_s: for which one that waits may have to wait although devices are due to it.
    """

    def __init__(self, snapshot: Snapshot, levels: Levels, wait_s: float = 0.0) -> None:
        self._snapshot, self._levels = snapshot, levels
        self._until_s = snapshot.deadline_s - snapshot.now_s
        self._work = snapshot.remaining_steps * (1.0 + snapshot.margin_share)
        self._starts_s = np.where(snapshot.held_workers == 0, wait_s + snapshot.start_cost_s, 0.0)
        self.kept = by_deadline(snapshot, np.flatnonzero(snapshot.is_promised))
        self.refusals: dict[int, Refusal] = {}

    def admit(self) -> None:
        """Promise or refuse each undecided job, the first to arrive first; each counts for the next."""
        snapshot = self._snapshot
        for row in by_arrival(snapshot, np.flatnonzero(snapshot.is_undecided)).tolist():
            trial = by_deadline(snapshot, np.append(self.kept, row))
            if self._is_sound(trial, row, self._until_s[row]):
                self.kept = trial
            else:
                self.refusals[row] = self._refusal(row)

    def _is_sound(self, trial: IntArray, newcomer: int, until_s: float) -> bool:
        """Whether the newcomer ends within `until_s`, and nobody is late who would not be late without it."""
        ends_s = self._ends_s(trial)
        if ends_s[trial == newcomer][0] > until_s:
            return False
        is_late = trial[ends_s > self._until_s[trial]]
        was_late = self.kept[self._ends_s(self.kept) > self._until_s[self.kept]]
        return bool(np.isin(is_late, np.append(was_late, newcomer)).all())

    def _ends_s(self, rows: IntArray) -> FloatArray:
        levels = self._levels
        ends_s = ends_in_order(
            levels.devices, levels.rates, levels.num, self._work, rows, self._snapshot.num_owned
        )
        later_s: FloatArray = ends_s + self._starts_s[rows]
        return later_s

    def _refusal(self, row: int) -> Refusal:
        if self._levels.num[row] == 0:
            text = f"none of its allowed sizes fits on the {wording.promisable(self._snapshot)}"
            return Refusal(earliest_deadline_s=None, text=f"{text}; allow fewer workers or add nodes")
        offer_s = self._offer_s(row)
        until_s = self._until_s[row]
        asked = (
            f"its deadline in {until_s:.0f} s cannot be kept" if until_s > 0 else "its deadline has passed"
        )
        return Refusal(
            earliest_deadline_s=self._snapshot.now_s + offer_s,
            text=f"{asked} when jobs run in order of deadline; one in {offer_s} s would be promised",
        )

    def _offer_s(self, row: int) -> int:
        """Whole seconds: the first place in the queue, found by bisection, where it makes nobody late.

        The place behind all others is always one.
        """
        low, place = 0, len(self.kept)
        while low < place:
            middle = (low + place) // 2
            if self._is_sound(np.insert(self.kept, middle, row), row, math.inf):
                place = middle
            else:
                low = middle + 1
        while True:
            trial = np.insert(self.kept, place, row)
            before_s = self._until_s[self.kept[place - 1]] if place else 0.0
            offer_s = math.floor(max(float(self._ends_s(trial)[place]), before_s)) + 1
            if place == len(self.kept) or offer_s < self._until_s[self.kept[place]]:
                return offer_s
            place += 1
