"""First in, first out: the queue everybody knows."""

from __future__ import annotations

import numpy as np

from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.levels import useful_levels
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.solvers.marginal import serve_in_order


class Fifo(Policy):
    """First come, first served: each job gets the largest useful size that fits on what is left.

    No job overtakes: once a job cannot get even its smallest size, all later ones wait too. A job that fits
    nowhere in the cluster is passed over, or it would block the queue for ever. When a job ends, the
    earliest jobs grow first. Refuses no job and promises nothing (`unpromised.without_promises`).
    """

    name = "fifo"

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = useful_levels(snapshot)
        level = np.zeros(snapshot.num_jobs, dtype=np.int64)
        order = snapshot.arrival_order
        serve_in_order(level, levels.devices, levels.num, order, snapshot.num_devices)
        return without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: "the most useful workers that earlier jobs leave free",
            "earlier jobs hold the devices, and no job may overtake",
        )
