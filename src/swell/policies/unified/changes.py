"""What a change of size costs, as a part of what the new size is worth."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels


def charge_changes(
    worth: FloatArray, price: FloatArray, snapshot: Snapshot, levels: Levels, rows: IntArray
) -> None:
    """Take what a change costs from all levels but the held one of running jobs.

    A change to n takes R(n) seconds from training at the held speed, O(C), and lasts for T_fwd seconds: a
    second at n is worth O(n) - O(C) R(n) / T_fwd. T_fwd is the time for which workers have stayed with the
    job so far, which the head measures; where nodes are reclaimed often it is short.

    Args:
        worth: (J, L + 1) of levels 0, 1, 2, ...; changed.
        price: (J,) what a step is worth.
        rows: (n,) jobs that are charged.

    References: Liu et al., BFTrainer, 2021, section 3.4, equations 13 to 16.
    Deviates: T_fwd is each job's own and measured, where BFTrainer has one for all that is given.
    """
    rows = rows[levels.held[rows] > 0]
    if not len(rows):
        return
    held = levels.held[rows]
    now = levels.rates[rows, held - 1] * price[rows] / snapshot.expected_hold_s[rows]  # O_j(C_j) / T_fwd
    to = np.arange(worth.shape[1])[None, :]
    shrink, growth = now * snapshot.shrink_cost_s[rows], now * snapshot.growth_cost_s[rows]  # Eq. 13
    worth[rows] -= np.where(to < held[:, None], shrink[:, None], 0.0)
    worth[rows] -= np.where(to > held[:, None], growth[:, None], 0.0)
