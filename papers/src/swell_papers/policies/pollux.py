"""Pollux: sizes and batches together, so that all jobs get far for what they use."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.model.options import NO_OPTION, Domain, Sizes
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels, useful_levels
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.solvers import knapsack

#: Exponent of the mean over jobs (section 4.2, p): below 0 it is fair, for who is slow counts most.
FAIRNESS = -1.0
#: What a job without devices counts as, in speedups: with 0 one of them would make all else count nothing.
NO_SPEEDUP = 1e-3
#: A job may have so many times what it has had at most, or its smallest size (section 4.1, prior-driven
#: exploration).
EXPLORATION = 2
#: It decides once in so long (section 4.2), but for intervals in which it would change nothing.
INTERVAL_S = 60.0
#: So many intervals ahead it looks for one with another answer; by then beliefs may have drifted.
MOST_INTERVALS = 60
#: Costs closer than this are a tie: a job that can keep its size does.
SAME_COST = 1e-9


class Pollux(Policy):
    """The sizes at which the generalised mean of the jobs' speedups is highest, each at its best batch.

    A job's goodput at a size is its throughput times its statistical efficiency, at the batch where that is
    most (`Domain.weighs_efficiency`); where a job's batch is its own, throughput is all. Its speedup is over
    what an equal share of the cluster would give it. A running job's speedup at any other size is discounted
    by what changing takes, the more so the younger it is and the more often it has changed.

    References: Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
        OSDI 2021, sections 3 and 4, and its published simulator.
    Deviates: the search is exact (dynamic programming over jobs and devices) where the paper's is genetic,
        for here a size alone says how fast a job is, and the placer sees to compact places; so nothing is
        random, and interference between jobs on one node plays no part. Step times come from a trial run
        and not from a model fitted to what a job has tried; the rule that no job gets more than twice its
        most so far is kept. The head chooses the batch, not an agent in the job. A change costs what was
        measured, not always 30 s; the discount is not for starts, for it would keep a job that was submitted
        this instant from starting. It decides when something happens, too, and leaves out the minutes in
        which its answer would be to change nothing. Nodes are not bought or given back (section 4.2,
        auto-scaling).
    """

    name = "pollux"
    domain = Domain(sizes=Sizes.EVERY, opens_batches=True, weighs_efficiency=True)

    def decide(self, snapshot: Snapshot) -> Allocation:
        in_time, snapshot = snapshot, snapshot.in_goodput()
        fair = _fair_goodput(snapshot)
        levels = _explored(useful_levels(snapshot), EXPLORATION * snapshot.most_workers)
        speedup = levels.rates / np.where(fair > 0.0, fair, 1.0)[:, None]
        search = _Search.of(snapshot, levels, speedup)
        level = search.best_at(snapshot.now_s)
        answer = without_promises(
            in_time,
            levels.with_rates(in_time.options.rate_per_s),
            level,
            snapshot.arrival_order,
            lambda row: (
                f"{speedup[row, level[row] - 1]:.1f} times its speed on an equal share; this "
                "division gives the most progress over all jobs"
            ),
            "other jobs make more progress with these devices",
        )
        return replace(answer, wake_s=_wake_s(search, level))


class _Search(NamedTuple):
    """What is searched, as columns: level 0 is nothing."""

    snapshot: Snapshot
    levels: Levels
    order: IntArray  #: (J,) rows, the lowest priority first, then by arrival: later takers win ties
    speedup: FloatArray  #: (J, L + 1)
    is_change: BoolArray  #: (J, L + 1)

    @classmethod
    def of(cls, snapshot: Snapshot, levels: Levels, speedup: FloatArray) -> _Search:
        """Args: `speedup` (J, L) is that of levels 1, 2, ..."""
        nothing = ((0, 0), (1, 0))
        is_change = np.pad(levels.workers, nothing) != snapshot.held_workers[:, None]
        order = snapshot.in_order(range(snapshot.num_jobs), snapshot.priority)
        return cls(snapshot, levels, order, np.pad(speedup, nothing), is_change)

    def best_at(self, at_s: float) -> IntArray:
        """(J,) levels, if nothing happens until then."""
        level, order, levels = np.zeros(len(self.order), dtype=np.int64), self.order, self.levels
        costs = _costs(self, at_s)
        level[order] = least_cost(
            levels.devices[order], costs[order], levels.num[order], self.snapshot.num_devices
        )
        return level

    def is_held(self, level: IntArray) -> bool:
        """Whether these levels change nothing."""
        return bool((self.levels.workers_at(level) == self.snapshot.held_workers).all())


def _explored(levels: Levels, most_workers: IntArray) -> Levels:
    """Up to (J,) so many workers; each job may have its smallest size."""
    num = np.minimum(levels.num, np.maximum(levels.up_to(most_workers), 1))
    return replace(levels, num=num, held=np.minimum(levels.held, num))


def _fair_goodput(snapshot: Snapshot) -> FloatArray:
    """(J,) goodput on an equal share of the cluster (section 4.2, speedup).

    At the smallest size where that is more than the share; 0 for a job that can run nowhere.
    """
    options = snapshot.options
    num_jobs = max(int((options.num > 0).sum()), 1)
    share = math.ceil(snapshot.num_devices / num_jobs)
    within = options.at(share // snapshot.devices_per_worker)
    smallest = np.where(options.num > 0, options.starts[:-1], NO_OPTION)
    return options.rates_of(np.where(within == NO_OPTION, smallest, within))


def _costs(search: _Search, at_s: float) -> FloatArray:
    """(J, L + 1) speedup to the power `FAIRNESS`, whose sum is to be the least (section 4.2, fitness)."""
    snapshot, is_change = search.snapshot, search.is_change
    is_running = (snapshot.held_workers > 0)[:, None]
    discount = np.where(is_change & is_running, _change_factor(snapshot, at_s)[:, None], 1.0)
    costs: FloatArray = (search.speedup * discount + NO_SPEEDUP) ** FAIRNESS + SAME_COST * is_change
    return costs


def _change_factor(snapshot: Snapshot, at_s: float) -> FloatArray:
    """(J,) what is left of a speedup if the gang changes once more (section 4.2, re-allocation penalty)."""
    age_s = np.maximum(at_s - snapshot.submitted_s, 0.0)
    cost_s = snapshot.growth_cost_s
    useful_s = np.maximum(age_s - snapshot.num_changes * cost_s, 0.0)
    factor: FloatArray = np.where(cost_s > 0.0, useful_s / np.maximum(age_s + cost_s, 1e-9), 1.0)
    return factor


def _wake_s(search: _Search, level: IntArray) -> float:
    """The next time at which the answer may be another one.

    Efficiency changes as training goes on, so as long as a job can run there is something to decide. Where no
    batch is open, only discounts change: they fade. So an answer that changes nothing at some time changes
    nothing before it either, and the first one that does is found by bisection.
    """
    snapshot, levels = search.snapshot, search.levels
    if not levels.num.any():
        return math.inf
    interval_s = max(INTERVAL_S, snapshot.min_hold_s)
    is_settled = not snapshot.is_pinned.any() and search.is_held(level)
    if snapshot.options.has_configured or not is_settled:
        return snapshot.now_s + interval_s
    same, other = 0, MOST_INTERVALS
    while other - same > 1:
        middle = (same + other) // 2
        if search.is_held(search.best_at(snapshot.now_s + middle * interval_s)):
            same = middle
        else:
            other = middle
    return snapshot.now_s + other * interval_s


def least_cost(devices: IntArray, cost: FloatArray, num_levels: IntArray, num_devices: int) -> IntArray:
    """(J,) the level of each taker with which the sum of costs is the least that the devices allow.

    `best_options` for takers that are rows of a table.

    Args:
        devices: (J, L) of levels 1, 2, ..., whole numbers > 0, ascending; the first `num_levels` count.
        cost: (J, L + 1) of levels 0, 1, 2, ...; finite. Later takers win ties.
    """
    starts = np.concatenate([[0], np.cumsum(num_levels)])
    is_level = np.arange(devices.shape[1])[None, :] < num_levels[:, None]
    last_first = np.arange(len(devices) - 1, -1, -1)
    best = knapsack.best_options(
        starts, devices[is_level], -cost[:, 1:][is_level], -cost[:, 0], num_devices, order=last_first
    )
    level: IntArray = np.where(best.option == knapsack.NO_OPTION, 0, best.option - starts[:-1] + 1)
    return level
