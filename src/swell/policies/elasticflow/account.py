"""What ElasticFlow says about its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from swell.arrays import IntArray
from swell.model.plan import PlanForecast
from swell.model.quantities import span
from swell.model.snapshot import Snapshot
from swell.policies import wording
from swell.policies.elasticflow.promises import Promises
from swell.policies.elasticflow.shares import Queue, Shares
from swell.policies.levels import Levels
from swell.policies.unpromised import look_ahead
from swell.solvers.capacity.plans import BROKEN, JUST

CODES = ("waiting", "sharing", "boosted", "promised", "at_risk")


@dataclass(frozen=True)
class ElasticFlowAccount:
    """Reasons and estimates, worked out when asked for; see `model.plan.Account`."""

    snapshot: Snapshot
    levels: Levels
    promises: Promises
    queue: Queue
    shares: Shares
    come_first: str  #: which jobs without a deadline do, as a part of a sentence

    @cached_property
    def codes(self) -> Sequence[str]:
        """(J,) codes of the reasons."""
        level, grade = self.shares.level, self.promises.grade
        number = 2 - ((grade < 0) & (level == 1))
        number[(grade >= 0) & ((level == self.shares.floor) | (grade == JUST))] = 3
        number[level == 0] = 0
        number[grade == BROKEN] = 4
        return [CODES[one] for one in number.tolist()]

    def text(self, row: int) -> str:
        """Agrees with `codes`."""
        if self.promises.grade[row] >= 0:
            return self._of_promise(row)
        if self.levels.num[row] == 0:
            return wording.fits_nowhere(self.snapshot)
        if self.shares.level[row] == 0:
            return wording.waits(f"promises and {self.come_first} come first", self._num_higher(row))
        has, smallest = self._workers(row, self.shares.level), int(self.levels.workers[row, 0])
        return wording.shares(has, smallest, self._saved_s(row))

    def _num_higher(self, row: int) -> int:
        """Running jobs of its class that have a higher priority."""
        snapshot = self.snapshot
        is_before = (snapshot.job_class == snapshot.job_class[row]) & (
            snapshot.priority > snapshot.priority[row]
        )
        return int(np.count_nonzero(is_before & (self.shares.level > 0)))

    def _of_promise(self, row: int) -> str:
        has, grade = self._workers(row, self.shares.level), self.promises.grade[row]
        until_s = float(self.snapshot.deadline_s[row] - self.snapshot.now_s)
        if grade == BROKEN:
            return wording.at_risk(has, until_s, fits=bool(np.isfinite(self.forecast.finish_s[row])))
        if has == 0:
            starts_s = float(self.forecast.start_s[row]) - self.snapshot.now_s
            return wording.promise_can_wait(until_s, starts_s)
        if grade == JUST:
            return wording.barely_keeps_promise(has, until_s)
        floor, num_others = self._workers(row, self.shares.floor), len(self.promises.rows) - 1
        saved_s, later = self._saved_s(row), self._later_need(row)
        return wording.keeps_promise(has, floor, until_s, saved_s, later, num_others)

    def _later_need(self, row: int) -> str:
        """The first step of the job's plan to more workers than its floor; empty: there is none."""
        plans, floor = self.promises.plans, self.shares.floor[row]
        for segment in range(int(plans.num[row])):
            level = plans.levels[row, segment]
            if level > floor:
                in_s = float(plans.starts_s[row, segment])
                return f"{self.levels.workers[row, level - 1]} in {span(in_s)}"
        return ""

    def _workers(self, row: int, level: IntArray) -> int:
        """Number of workers of the job at its entry of `level` (J,)."""
        return int(self.levels.workers[row, level[row] - 1]) if level[row] > 0 else 0

    def _saved_s(self, row: int) -> float:
        """Time that running at its level saves over running at its floor, or at its smallest size."""
        level, floor = self.shares.level[row], self.shares.floor[row]
        slow, fast = self.levels.rates[row, max(floor, 1) - 1], self.levels.rates[row, level - 1]
        return float(self.snapshot.remaining_steps[row] * (1.0 / slow - 1.0 / fast))

    @cached_property
    def forecast(self) -> PlanForecast:
        """A promise ends by its plan, even if what the job gets now would take it longer."""
        in_order, now_s = self.queue.in_order, self.snapshot.now_s
        waiting = in_order[self.shares.level[in_order] == 0]
        start_s, finish_s = look_ahead(self.snapshot, self.levels, self.shares.level, waiting)
        plans, grade = self.promises.plans, self.promises.grade
        is_late = (grade == BROKEN) & (self.shares.level > 0)
        is_planned = (grade >= 0) & (plans.top > 0) & ~is_late
        return PlanForecast(
            np.where(is_planned, np.fmin(start_s, now_s + plans.change_s), start_s),
            np.where(is_planned, np.minimum(finish_s, now_s + plans.end_s), finish_s),
        )
