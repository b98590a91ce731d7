"""The multiple-choice knapsack by dynamic programming over all takers and devices: what it means, slowly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
