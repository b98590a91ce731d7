"""Earliest deadline first with elastic sizes: ElasticFlow without its admission control."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.promises import all_free, hold_s, tries_of
from swell.policies.levels import Levels, useful_levels
from swell.policies.order import by_arrival, by_deadline
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.solvers.filling import FreeProfile, no_plans
from swell.solvers.marginal import boost, raise_in_order
from swell.solvers.profile import Plans, Takers

#: Jobs that are planned before the next look whether any device is left.
NUM_AT_ONCE = 16


class EdfElastic(Policy):
    """By deadline each job gets the least share that meets it; what is left goes where it helps most.

    Nobody is refused. A job that cannot be on time any more takes, in its turn, as much as is useful: so
    a hopeless one takes from later ones what they would need, which is what admission control is for.

    References: Gu et al., ElasticFlow, ASPLOS 2023, section 6.4, Figure 9: "EDF + Elastic Scaling";
        Algorithm 1 without lines 6-7, Algorithm 2.
    Deviates: as `elasticflow` does for the two algorithms (continuous time, expected costs of changes).
    """

    name = "edf_elastic"

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = useful_levels(snapshot)
        order = by_deadline(snapshot, range(snapshot.num_jobs))
        rows = order[np.isfinite(snapshot.deadline_s[order])]
        plans = no_plans(snapshot.num_jobs)
        tries = tries_of(snapshot, levels, snapshot.deadline_s - snapshot.now_s)
        profile = all_free(snapshot).raised(snapshot.num_borrowed)  # nothing is promised
        _fill_while_any_fits(profile, tries, plans, rows, hold_s(snapshot))  # Algorithm 1
        level = plans.now.copy()
        floor = levels.workers_at(level)
        left = snapshot.num_devices - int(levels.devices_at(level).sum())
        running = order[snapshot.held_workers[order] > 0]  # else they would stop only to start again
        for group in (running, order):
            left = raise_in_order(level, levels.devices, levels.num, group, 1, left)
        level, _ = boost(  # Algorithm 2
            level,
            levels.devices,
            levels.rates,
            levels.num,
            _prices(levels, plans),
            levels.held,
            np.argsort(by_arrival(snapshot, range(snapshot.num_jobs))),
            left,
        )
        answer = without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: "what its deadline needs, plus free devices that help it most",
            "jobs with earlier deadlines need all devices",
        )
        change_s = max(float(plans.change_s.min(initial=np.inf)), hold_s(snapshot))
        return replace(answer, floor=floor, wake_s=snapshot.now_s + change_s)


def _fill_while_any_fits(
    profile: FreeProfile, tries: Takers, plans: Plans, rows: IntArray, least_s: float
) -> None:
    """Plan `rows` in order, with a minimum hold of `least_s`, for as long as one of the rest could run now.

    None of the others gets any device now. Nor does a plan of theirs change sooner than one that is made:
    what they need is free only once another plan changes.

    Complexity: that of the plans that matter; a queue of late jobs is as long as it is.
    """
    smallest = np.where(tries.num_levels[rows] > 0, tries.devices[rows, 0], np.iinfo(np.int64).max)
    least = np.minimum.accumulate(smallest[::-1])[::-1]
    first, num = 0, NUM_AT_ONCE
    while first < len(rows) and least[first] <= profile.num_free_now:
        profile.fill(tries, plans, rows[first : first + num], least_s, is_late_served=True)
        first, num = first + num, 2 * num


def _prices(levels: Levels, plans: Plans) -> FloatArray:
    """(J,) device-seconds that a step costs at the level to which a job is filled, or at its lowest."""
    return levels.prices(np.minimum(np.maximum(plans.top, 1), levels.num))
