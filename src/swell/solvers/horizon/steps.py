"""One step after the other divided exactly, while the others stay as they are."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import suited
from swell.solvers.horizon.problem import LevelTable, value_of
from swell.solvers.knapsack import NO_OPTION, best_options

#: A cycle that gains less is the last one.
LEAST_GAIN = 1e-9


class StepSearch:
    """Coordinate ascent: each step is a multiple-choice knapsack if all others are given.

    A plan for which there are not devices enough becomes one for which there are, within one cycle.
    """

    def __init__(self, table: LevelTable, weights: FloatArray, num_devices: int) -> None:
        self._table, self._weights, self._num_devices = table, weights, num_devices
        num_takers, most = table.devices.shape
        is_level = np.arange(most)[None, :] < table.num[:, None]
        self._is_option = is_level & (np.arange(most)[None, :] > 0)
        self._starts = np.concatenate([[0], np.cumsum(table.num - 1)])
        self._devices = table.devices[self._is_option]
        self._values = np.zeros((num_takers, most))
        self.is_exact = True  #: every step so far was divided as well as it can be

    def improve(self, level: IntArray, max_cycles: int) -> float:
        """Change (J, T) levels until no step alone can be divided better; returns what they are worth."""
        value = -np.inf
        for _ in range(max_cycles):
            before = value
            for step in range(len(self._weights)):
                self._divide(level, step)
            value = value_of(self._table, level, self._weights)
            if value <= before + LEAST_GAIN:
                break
        return value

    def _divide(self, level: IntArray, step: int) -> None:
        table, values = self._table, self._values
        run = suited(_list_values, len(table.num) * len(self._weights))
        run(table.first_gain, table.gain, table.num, self._weights, level, step, values)
        best = best_options(
            self._starts, self._devices, values[self._is_option], values[:, 0].copy(), self._num_devices
        )
        self.is_exact = self.is_exact and best.is_proven
        level[:, step] = np.where(best.option == NO_OPTION, 0, best.option - self._starts[:-1] + 1)


def _list_values(
    first_gain: FloatArray,
    gain: FloatArray,
    num: IntArray,
    weights: FloatArray,
    level: IntArray,
    step: int,
    values: FloatArray,
) -> None:
    """Write what the plan of each taker is worth with each of its levels in one step."""
    for row in range(len(num)):
        before, fixed = 0.0, 0.0
        for at in range(step):
            one = level[row, at]
            before = min(1.0, before + (first_gain[row, one] if at == 0 else gain[row, one]))
            fixed += weights[at] * before
        for one in range(num[row]):
            done = min(1.0, before + (first_gain[row, one] if step == 0 else gain[row, one]))
            value = fixed + weights[step] * done
            for at in range(step + 1, len(weights)):
                done = min(1.0, done + gain[row, level[row, at]])
                value += weights[at] * done
            values[row, one] = value
