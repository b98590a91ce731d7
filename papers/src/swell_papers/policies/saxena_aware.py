"""Saxena et al. where a change has to pay."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray
from swell.model.snapshot import Snapshot
from swell.policies.saxena import Saxena, scaling_factors

#: A change that takes longer than the horizon leaves so little that a job makes it only if it has to, and
#: then to the size that is best.
MOST_LOST_SHARE = 0.999


class SaxenaAware(Saxena):
    """The same sum, over the time for which a size is expected to be kept, less what changes cost.

    A running job's scaling factor at another size counts for the horizon less the pause of the change,
    V(k) = (horizon - pause) T(k), and at its own size for all of it. The horizon is the period, or the time
    for which workers have been kept so far where that is shorter. So a small gain changes nothing, and with
    changes that are free it decides as `saxena`.

    References: Saxena et al., MASCOTS 2020, section III-C; what a change is worth, after BFTrainer,
        equation 16.
    Deviates: the paper keeps gangs from thrashing by its period alone.
    """

    name = "saxena_aware"

    def _value(self, snapshot: Snapshot) -> FloatArray:
        options, factor = snapshot.options, scaling_factors(self._weighed(snapshot))
        held = snapshot.held_workers[options.rows]
        horizon_s = np.minimum(snapshot.expected_hold_s, self.period_s)
        lost_share = np.minimum(snapshot.resize_cost_s / np.maximum(horizon_s, 1e-9), MOST_LOST_SHARE)
        is_change = (held > 0) & (options.workers != held)
        value: FloatArray = factor * np.where(is_change, 1.0 - lost_share[options.rows], 1.0)
        return value
