"""Earliest deadline first: the canonical way to meet deadlines."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np

from swell.arrays import IntArray
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.promises import PromisePlanner, Promises, all_free, takers_of
from swell.policies.elasticflow.shares import Queue, by_savings, share
from swell.policies.elasticflow.standing import NONE, remembered, to_remember
from swell.policies.levels import Levels, all_levels, useful_levels
from swell.policies.policy import Policy, switch
from swell.policies.unpromised import without_promises
from swell.solvers.capacity.plans import AS_PLANNED, MOMENT_S, Plans
from swell.solvers.filling import copy_of, no_plans
from swell.solvers.marginal import raise_in_order

#: Jobs that are planned before the next look whether any device is left.
NUM_AT_ONCE = 16

Largest = Annotated[
    int, switch("1: a job gets the largest size that it may have, be it slower than another.")
]
Elastic = Annotated[
    int,
    switch(
        "1: a job gets the least share that meets its deadline, and spare devices go where they help most."
    ),
]


class Edf(Policy):
    """The earliest deadline gets as many devices as speed it up, then the next one from what is left.

    A later job runs beside earlier ones if something is left for it, at the most that fits. Jobs without
    deadlines come last, by arrival. Refuses no job, the hopeless neither: these keep devices from others.
    With `elastic` it is ElasticFlow without its admission control: a job that can no longer meet its deadline
    takes, in its turn, as much as is useful, so it may take what later jobs need.

    References: Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
        Environment", 1973, section 7; as the baseline of ElasticFlow (ASPLOS 2023), section 6.1: "as many
        GPUs as a job can scale out without decreasing the throughput". `elastic`: section 6.4, Figure 9,
        "EDF + Elastic Scaling"; Algorithm 1 without lines 6-7, Algorithm 2.
    Deviates: ElasticFlow's published simulator gives the largest size that was profiled even where that is
        slower than a smaller one; this follows the paper, and `largest` the simulator. The figures that the
        paper prints are those of the simulator: 17 of 195 jobs in time in Figure 6(b), 23 of 195 in Figure
        8(a). `elastic` plans in continuous time and expects the costs of changes, as `elasticflow` does; the
        published simulator charges costs that its plans do not know.
    """

    name = "edf"

    largest: Largest = 0
    elastic: Elastic = 0

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = levels_of(snapshot, self.largest)
        return _elastic(snapshot, levels) if self.elastic else _at_most(snapshot, levels)


def levels_of(snapshot: Snapshot, largest: int) -> Levels:
    """Sizes up to the peak of each curve (ElasticFlow, section 6.1), or all of them."""
    return all_levels(snapshot) if largest else useful_levels(snapshot)


def _at_most(snapshot: Snapshot, levels: Levels) -> Allocation:
    level = np.zeros(snapshot.num_jobs, dtype=np.int64)
    order = snapshot.by_deadline(range(snapshot.num_jobs))
    raise_in_order(level, levels.devices, levels.num, order, levels.highest, snapshot.num_devices)
    return without_promises(
        snapshot,
        levels,
        level,
        order,
        lambda row: "the most useful workers that jobs with earlier deadlines leave free",
        "jobs with earlier deadlines come first",
    )


def _elastic(snapshot: Snapshot, levels: Levels) -> Allocation:
    order = snapshot.by_deadline(range(snapshot.num_jobs))
    rows = order[np.isfinite(snapshot.deadline_s[order])]
    free = all_free(snapshot).raised(snapshot.num_borrowed)
    planner = PromisePlanner(snapshot, takers_of(snapshot, levels), free)
    kept = _fill_while_any_fits(planner, remembered(snapshot, levels).plans, rows)  # Algorithm 1
    others = order[~np.isfinite(snapshot.deadline_s[order])]
    queue = Queue(kept.rows, NONE, NONE, others, no_plans(snapshot.num_jobs))
    ranking = by_savings(levels, kept, queue)
    shares = share(snapshot, levels, planner, kept, queue, (), ranking)  # Algorithm 2
    answer = without_promises(
        snapshot,
        levels,
        shares.level,
        order,
        lambda row: "what its deadline needs, plus free devices that help it most",
        "jobs with earlier deadlines need all devices",
    )
    floor = levels.workers_at(shares.floor)
    change_s = max(float(kept.plans.change_s.min(initial=np.inf)), snapshot.min_hold_s, MOMENT_S)
    memory = to_remember(snapshot, levels, kept.plans, kept.rows, shares.after_change, shares.level)
    return replace(answer, floor=floor, wake_s=snapshot.now_s + change_s, memory=memory)


def _fill_while_any_fits(planner: PromisePlanner, standing: Plans, rows: IntArray) -> Promises:
    """Plans of `rows` in order, for as long as one of the rest could run now.

    None of the others gets any device now. Nor does a plan of theirs change sooner than one that is made:
    what they need is free only once another plan changes.

    Complexity: that of the plans that matter; a queue of late jobs is as long as it is.
    """
    takers, profile, plans = planner.takers, planner.free.copy(), copy_of(standing)
    smallest = np.where(takers.num_levels[rows] > 0, takers.devices[rows, 0], np.iinfo(np.int64).max)
    least = np.minimum.accumulate(smallest[::-1])[::-1]
    first, num = 0, NUM_AT_ONCE
    while first < len(rows) and least[first] <= profile.steps[1][0]:
        profile.fill(takers, plans, rows[first : first + num], AS_PLANNED, is_late_served=True)
        first, num = first + num, 2 * num
    return Promises(rows[:first], plans, profile, np.zeros(len(plans.num), dtype=bool))
