"""When jobs will start and end if the policy is followed from now on.

No other job comes, no node comes or leaves, and what is believed of speeds and costs is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.core.hysteresis import KeptSizes
from swell.core.tenants import decide_within_quotas
from swell.model.plan import Allocation, PlanForecast
from swell.model.snapshot import STRICT, Memory, Snapshot
from swell.policies.policy import Policy

#: With more jobs, or more decisions, it takes more than some 20 ms: the rest is as the policy itself expects.
MOST_JOBS = 24
MOST_TURNS = 60

Settled = Callable[[Snapshot, Allocation, BoolArray], KeptSizes]


def follow(
    policy: Policy, settled: Settled, snapshot: Snapshot, allocation: Allocation, steadied: KeptSizes
) -> PlanForecast | None:
    """Ask the policy again at each end of a job, and whenever it wants to be asked.

    Args:
        settled: which changes of an answer are made.
        allocation: the answer to the snapshot, of which `steadied` is made.

    Returns:
        None: there are too many jobs, or how fast they go depends on their shares of cores.
    """
    if snapshot.num_jobs > MOST_JOBS or allocation.share is not None:
        return None
    rows, course = np.arange(snapshot.num_jobs), _Course(policy.makes_promises, snapshot)
    course.is_open[list(allocation.refusals)] = False
    seen, finish_s = snapshot, np.full(snapshot.num_jobs, math.inf)
    for _ in range(MOST_TURNS):
        course.change(rows, steadied.workers, seen.rates_at(steadied.workers))
        due_s = (course.now_s // policy.period_s + 1) * policy.period_s
        postponed = rows[allocation.workers != steadied.workers]
        asked_s = min(allocation.wake_s, steadied.wake_s, course.next_ready_s(postponed), due_s)
        is_over = course.go_on(asked_s)
        finish_s[is_over] = course.now_s
        still = course.is_open.nonzero()[0]
        if not len(still) or math.isinf(course.now_s):
            return PlanForecast(course.start_s, finish_s)
        try:
            view = course.snapshot(still, course.now_s >= due_s, allocation.memory)
            seen, allocation = decide_within_quotas(policy, view)
        except Exception:  # noqa: BLE001 - if it comes to that, the head will tell
            break
        rows, steadied = still, settled(seen, allocation, seen.is_pinned)
    is_open = course.is_open[rows]
    finish_s[rows[is_open]] = allocation.account.forecast.finish_s[is_open]
    return PlanForecast(course.start_s, finish_s)


class _Course:
    """Lets time go on for the jobs of a snapshot; rows are its rows."""

    def __init__(self, makes_promises: bool, first: Snapshot) -> None:
        self._first, self.now_s = first, first.now_s
        is_promised = first.is_promised | (first.is_undecided & makes_promises)
        self._is_promised = is_promised & (first.job_class == STRICT)
        self._left, self._held = first.remaining_steps.copy(), first.held_workers.copy()
        self._rate_per_s = first.held_rate_per_s.copy()
        self._ready_s = first.now_s + first.idle_s * (self._held > 0)  #: ends of pauses and starts
        self._attained_s, self._changed_s = first.attained_device_s.copy(), first.changed_s.copy()
        self.is_open = np.ones(first.num_jobs, dtype=bool)
        self.start_s = np.full(first.num_jobs, np.nan)

    def change(self, rows: IntArray, workers: IntArray, rate_per_s: FloatArray) -> None:
        """Give these jobs (n,) sizes now, at their costs; one that grows trains on until joiners come."""
        first, held = self._first, self._held[rows]
        is_start, is_growth = (held == 0) & (workers > 0), (held > 0) & (workers > held)
        wait_s = np.where(is_growth, first.resize_wait_s[rows], 0.0)
        running_s = np.where(is_growth, first.growth_cost_s[rows], first.shrink_cost_s[rows])
        pause_s = np.where(is_start, first.start_cost_s[rows], running_s) * (workers != held)
        self._left[rows] = np.maximum(self._left[rows] - wait_s * self._rate_per_s[rows], 0.0)
        self._ready_s[rows] = np.maximum(self._ready_s[rows], self.now_s) + wait_s + pause_s
        self._changed_s[rows] = np.where(workers != held, self.now_s, self._changed_s[rows])
        starting = rows[is_start & np.isnan(self.start_s[rows])]
        self.start_s[starting] = self.now_s
        self._held[rows], self._rate_per_s[rows] = workers, rate_per_s

    def next_ready_s(self, rows: IntArray) -> float:
        """Return when the first of these jobs can change that cannot now."""
        ready_s = self._ready_s[rows]
        return float(ready_s[ready_s > self.now_s].min(initial=math.inf))

    def go_on(self, until_s: float) -> BoolArray:
        """Let time go on until then, or until the first job ends. Returns (J,) those that end."""
        since_s, rate_per_s = np.maximum(self._ready_s, self.now_s), self._rate_per_s
        runs_s = np.divide(self._left, rate_per_s, out=np.full(len(since_s), np.inf), where=rate_per_s > 0)
        ends_s = np.where(self.is_open, since_s + runs_s, np.inf)
        then_s = max(self.now_s, min(until_s, float(ends_s.min(initial=math.inf))))
        is_over: BoolArray = self.is_open & np.isfinite(ends_s) & (ends_s <= then_s)
        if math.isfinite(then_s):
            self._left -= np.minimum(np.maximum(then_s - since_s, 0.0) * rate_per_s, self._left)
            self._attained_s += (then_s - self.now_s) * self._held * self._first.devices_per_worker
        self.is_open &= ~is_over
        self.now_s = then_s
        return is_over

    def snapshot(self, rows: IntArray, is_due: bool, memory: Memory) -> Snapshot:
        """Return what the policy sees of these jobs now."""
        first, held, left = self._first, self._held[rows], np.maximum(self._left[rows], 1e-9)
        idle_s = np.maximum(self._ready_s[rows] - self.now_s, 0.0) * (held > 0)
        return replace(
            first.of_jobs(rows, first.num_devices),
            now_s=self.now_s,
            quota_devices=first.quota_devices,
            remaining_steps=left,
            done_steps=first.done_steps[rows] + first.remaining_steps[rows] - left,
            held_workers=held,
            is_pinned=idle_s > 0.0,
            idle_s=idle_s,
            most_workers=np.maximum(first.most_workers[rows], held),
            changed_s=self._changed_s[rows],
            attained_device_s=self._attained_s[rows],
            is_promised=self._is_promised[rows],
            is_undecided=np.zeros(len(rows), dtype=bool),
            is_due=is_due,
            memory=memory,
        )
