"""The multiple-choice knapsack by plain dynamic programming and by HiGHS: what it means, slowly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import csr_array

from swell.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Knapsack:
    """See `swell.solvers.knapsack.best_options`."""

    starts: IntArray
    devices: IntArray
    value: FloatArray
    nothing: FloatArray
    num_devices: int

    def devices_of(self, option: IntArray) -> int:
        return int(np.where(option < 0, 0, np.append(self.devices, 0)[option]).sum())

    def value_of(self, option: IntArray) -> float:
        return float(np.where(option < 0, self.nothing, np.append(self.value, 0.0)[option]).sum())


def plain_value(knapsack: Knapsack) -> float:
    """The largest sum of values; -inf if there is no answer. O(O N)."""
    total = np.zeros(knapsack.num_devices + 1)  # of the takers so far, with so many devices or fewer
    for row, none in enumerate(knapsack.nothing):
        best = total + none
        for option in range(knapsack.starts[row], knapsack.starts[row + 1]):
            takes = int(knapsack.devices[option])
            if takes <= knapsack.num_devices:
                offer = total[: len(total) - takes] + knapsack.value[option]
                best[takes:] = np.maximum(best[takes:], offer)
        total = best
    return float(total[-1])


def highs_value(knapsack: Knapsack) -> float:
    """The same as a mixed-integer program: one binary for each option and for nothing."""
    rows = np.repeat(np.arange(len(knapsack.nothing)), np.diff(knapsack.starts))
    num, num_options = len(knapsack.nothing), len(rows)
    value = np.concatenate([knapsack.value, knapsack.nothing])
    is_allowed = np.isfinite(value)
    columns = np.arange(num_options + num)
    choose = csr_array(
        (np.ones(len(columns)), (np.concatenate([rows, np.arange(num)]), columns)), shape=(num, len(columns))
    )
    takes = np.concatenate([knapsack.devices, np.zeros(num)])
    found = milp(
        -np.where(is_allowed, value, 0.0),
        constraints=[
            LinearConstraint(choose, 1, 1),
            LinearConstraint(takes[None, :], -np.inf, knapsack.num_devices),
        ],
        bounds=(0, is_allowed.astype(float)),
        integrality=np.ones(len(columns)),
        options={"mip_rel_gap": 0.0},
    )
    return -np.inf if found.x is None else -float(found.fun)
