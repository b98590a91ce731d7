"""The multiple-choice knapsack by plain dynamic programming and by HiGHS: what it means, slowly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse import csr_array
from tests.solvers.highs import Answer, solve

from swell.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Knapsack:
    """See `swell.solvers.knapsack.best_options`."""

    starts: IntArray
    devices: IntArray
    value: FloatArray
    nothing: FloatArray
    num_devices: int

    @property
    def arguments(self) -> tuple[IntArray, IntArray, FloatArray, FloatArray, int]:
        return self.starts, self.devices, self.value, self.nothing, self.num_devices

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


def solve_by_highs(knapsack: Knapsack, limit_s: float = np.inf) -> Answer:
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
    constraints = [
        LinearConstraint(choose, 1, 1),
        LinearConstraint(takes[None, :], -np.inf, knapsack.num_devices),
    ]
    cost = -np.where(is_allowed, value, 0.0)
    bounds = Bounds(0, is_allowed.astype(float))
    return solve(cost, constraints, bounds, np.ones(len(columns)), gap_share=0.0, limit_s=limit_s)
