"""Earliest deadline first with elastic sizes: ElasticFlow without its admission control."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from swell.arrays import IntArray
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.promises import PromisePlanner, Promises, all_free, takers_of
from swell.policies.elasticflow.shares import Queue, by_savings, share
from swell.policies.elasticflow.standing import NONE, remembered, to_remember
from swell.policies.levels import useful_levels
from swell.policies.order import by_deadline
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.solvers.filling import copy_of, no_plans
from swell.solvers.profile.plans import AS_PLANNED, MOMENT_S, Plans

#: Jobs that are planned before the next look whether any device is left.
NUM_AT_ONCE = 16


class EdfElastic(Policy):
    """Earliest deadline first, with the least share that meets each; spare devices go where they help most.

    No job is refused. A job that can no longer meet its deadline takes, in its turn, as much as is useful. So
    it may take what later jobs need, which admission control prevents.

    References: Gu et al., ElasticFlow, ASPLOS 2023, section 6.4, Figure 9: "EDF + Elastic Scaling";
        Algorithm 1 without lines 6-7, Algorithm 2.
    Deviates: as `elasticflow` does for the two algorithms (continuous time, expected costs of changes).
    """

    name = "edf_elastic"
    weighs_jobs = True

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = useful_levels(snapshot)
        order = by_deadline(snapshot, range(snapshot.num_jobs))
        rows = order[np.isfinite(snapshot.deadline_s[order])]
        free = all_free(snapshot).raised(snapshot.num_borrowed)
        planner = PromisePlanner(snapshot, takers_of(snapshot, levels), free)
        kept = _fill_while_any_fits(planner, remembered(snapshot, levels).plans, rows)  # Algorithm 1
        others = order[~np.isfinite(snapshot.deadline_s[order])]
        queue = Queue(kept.rows, NONE, NONE, others, no_plans(snapshot.num_jobs))
        ranking = by_savings(levels, kept, queue)
        shares = share(snapshot, levels, planner, kept, queue, (), ranking)  # Algorithm 2
        level, floor = shares.level, levels.workers_at(shares.floor)
        answer = without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: "what its deadline needs, plus free devices that help it most",
            "jobs with earlier deadlines need all devices",
        )
        change_s = max(float(kept.plans.change_s.min(initial=np.inf)), snapshot.min_hold_s, MOMENT_S)
        memory = to_remember(snapshot, levels, kept.plans, kept.rows, shares.after_change, level)
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
    while first < len(rows) and least[first] <= profile.num_free_now:
        profile.fill(takers, plans, rows[first : first + num], AS_PLANNED, is_late_served=True)
        first, num = first + num, 2 * num
    return Promises(rows[:first], plans, profile, np.zeros(len(plans.num), dtype=bool))
