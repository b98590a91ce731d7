"""Pollux: sizes and batches together, so that all jobs get far for what they use."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from swell.arrays import FloatArray
from swell.model.options import NO_OPTION, Domain, Sizes
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels, useful_levels
from swell.policies.order import by_arrival
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.solvers.knapsack import least_cost

#: Exponent of the mean over jobs (section 4.2, p): below 0 it is fair, for who is slow counts most.
FAIRNESS = -1.0
#: What a job without devices counts as, in speedups: with 0 one of them would make all else count nothing.
NO_SPEEDUP = 1e-3
#: A job may have so many times what it has had at most, or its smallest size (section 4.1, prior-driven
#: exploration).
EXPLORATION = 2
#: Decisions are at most so far apart (section 4.2).
INTERVAL_S = 60.0
#: Costs closer than this are a tie: whoever can keep its size does.
SAME_COST = 1e-9


class Pollux(Policy):
    """The sizes at which the generalised mean of the jobs' speedups is highest, each at its best batch.

    A job's goodput at a size is its throughput times its statistical efficiency, at the batch where that is
    most (`Domain.opens_batches`); where a job's batch is its own, throughput is all. Its speedup is over what
    an equal share of the cluster would give it. A running job's speedup at any other size is discounted by
    what changing takes, the more so the younger it is and the more often it has changed.

    References: Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
        OSDI 2021, sections 3 and 4, and its published simulator.
    Deviates: the search is exact (dynamic programming over jobs and devices) where the paper's is genetic,
        for here a size alone says how fast a job is, and the placer sees to compact places; so nothing is
        random, and interference between jobs on one node plays no part. Step times come from a trial run
        and not from a model fitted to what a job has tried; the rule that nobody gets more than twice its
        most so far is kept. The head chooses the batch, not an agent in the job. A change costs what was
        measured, not always 30 s; the discount is not for starts, for it would keep a job that was submitted
        this instant from starting. It decides when something happens, too, not every minute only. Nodes are
        not bought or given back (section 4.2, auto-scaling).
    """

    name = "pollux"
    domain = Domain(sizes=Sizes.EVERY, opens_batches=True)

    def decide(self, snapshot: Snapshot) -> Allocation:
        fair = _fair_goodput(snapshot)
        levels = useful_levels(snapshot, EXPLORATION * snapshot.most_workers)
        speedup = levels.rates / np.where(fair > 0.0, fair, 1.0)[:, None]
        order = by_arrival(snapshot, range(snapshot.num_jobs))
        level = np.zeros(snapshot.num_jobs, dtype=np.int64)
        level[order] = least_cost(
            levels.devices[order],
            _costs(snapshot, levels, speedup)[order],
            levels.num[order],
            snapshot.num_devices,
        )
        answer = without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: (
                f"{speedup[row, level[row] - 1]:.1f} times its speed on an equal share; this "
                "division gives the most progress over all jobs"
            ),
            "other jobs make more progress with these devices",
        )
        return replace(answer, wake_s=_wake_s(snapshot, levels))


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


def _costs(snapshot: Snapshot, levels: Levels, speedup: FloatArray) -> FloatArray:
    """(J, L + 1) speedup to the power `FAIRNESS`, whose sum is to be the least (section 4.2, fitness)."""
    all_levels = np.pad(speedup, ((0, 0), (1, 0)))
    workers = np.pad(levels.workers, ((0, 0), (1, 0)))
    is_change = workers != snapshot.held_workers[:, None]
    is_running = (snapshot.held_workers > 0)[:, None]
    discount = np.where(is_change & is_running, _change_factor(snapshot)[:, None], 1.0)
    costs: FloatArray = (all_levels * discount + NO_SPEEDUP) ** FAIRNESS + SAME_COST * is_change
    return costs


def _change_factor(snapshot: Snapshot) -> FloatArray:
    """(J,) what is left of a speedup if the gang changes once more (section 4.2, re-allocation penalty)."""
    age_s = np.maximum(snapshot.now_s - snapshot.submitted_s, 0.0)
    cost_s = snapshot.resize_cost_s
    useful_s = np.maximum(age_s - snapshot.num_changes * cost_s, 0.0)
    factor: FloatArray = np.where(cost_s > 0.0, useful_s / np.maximum(age_s + cost_s, 1e-9), 1.0)
    return factor


def _wake_s(snapshot: Snapshot, levels: Levels) -> float:
    """Efficiency changes as training goes on, so as long as a job can run there is something to decide."""
    if not levels.num.any():
        return math.inf
    return snapshot.now_s + max(INTERVAL_S, snapshot.min_hold_s)
