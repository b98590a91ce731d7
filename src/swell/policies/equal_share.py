"""Everybody the same: the heuristic that needs to know nothing of jobs."""

from __future__ import annotations

import numpy as np

from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.levels import useful_levels
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.solvers.marginal import raise_in_order


class EqualShare(Policy):
    """Devices divided equally between the jobs that can use any, rounded down to useful sizes.

    Leftovers go size by size, by arrival: first jobs whose share was too small for their smallest size get
    that, then jobs at their smallest size get the next one, and so on. Refuses no job and promises nothing
    (`unpromised.without_promises`).

    References: Liu et al., "BFTrainer: Low-Cost Training of Neural Networks on Unfillable Supercomputer
        Nodes", 2021, where an equal split is the baseline.
    """

    name = "equal_share"

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = useful_levels(snapshot)
        order = snapshot.arrival_order
        order = order[levels.num[order] > 0]
        share = snapshot.num_devices // max(1, len(order))
        is_level = np.arange(levels.devices.shape[1])[None, :] < levels.num[:, None]
        level = (is_level & (levels.devices <= share)).sum(axis=1)
        left = snapshot.num_devices - int(levels.devices_at(level).sum())
        for most in range(1, levels.highest + 1):
            if left == 0:
                break
            rows = order[level[order] == most - 1]
            left = raise_in_order(level, levels.devices, levels.num, rows, most, left)
        return without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: f"an equal share is {share} devices; remaining devices go to earlier jobs",
            f"{len(order)} jobs share {snapshot.num_devices} devices, and earlier jobs come first",
        )
