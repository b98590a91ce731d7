"""Shortest remaining time first: the best average completion time one device can have."""

from __future__ import annotations

import numpy as np

from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.flowcon import requested_levels
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.solvers.marginal import raise_in_order


class Srtf(Policy):
    """Jobs at the sizes they asked for, preemptive, the one with the least time left first.

    One that does not fit on what is left is passed over, and shorter jobs that come later go before it.

    References: Schrage, "A Proof of the Optimality of the Shortest Remaining Processing Time Discipline",
        1968, for one server; as a baseline of Tiresias (NSDI 2019), section 5.
    """

    name = "srtf"

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = requested_levels(snapshot)
        left_s = snapshot.remaining_steps / np.where(levels.num > 0, levels.rates[:, 0], 1.0)
        order = snapshot.by_key(range(snapshot.num_jobs), left_s)
        level = np.zeros(snapshot.num_jobs, dtype=np.int64)
        raise_in_order(level, levels.devices, levels.num, order, 1, snapshot.num_devices)
        return without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: "its requested size, which shorter jobs leave free",
            "jobs with less remaining time come first",
        )
