"""One step after the other divided exactly, while the others stay as they are."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import suited
from swell.solvers.horizon.pricing import DONE
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
        #: Where each option is in a flat table.
        self._at = np.flatnonzero(is_level & (np.arange(most)[None, :] > 0))
        self._starts = np.concatenate([[0], np.cumsum(table.num - 1)])
        self._devices = table.devices.ravel()[self._at]
        self._values = np.zeros((num_takers, most))
        self._columns = table.first_gain, table.gain, table.num, table.least, table.most, weights
        self.is_exact = True  #: every step so far was divided as well as it can be
        self._divided: dict[int, IntArray] = {}  #: step -> levels after its latest division without prices

    def improve(self, level: IntArray, max_cycles: int, prices: FloatArray) -> float:
        """Change (J, T) levels until no step alone can be divided better; returns what they are worth.

        In the first cycle devices of later steps have `prices` (T,): a taker that ends sooner frees some.
        """
        value, trial, no_prices = -np.inf, level.copy(), np.zeros_like(prices)
        for cycle in range(max_cycles):
            is_priced = cycle == 0 and bool(prices.any())
            for step in range(len(self._weights)):
                if is_priced:
                    self._divide(trial, step, prices)
                elif step not in self._divided or not np.array_equal(trial, self._divided[step]):
                    self._divide(trial, step, no_prices)
                    self._divided[step] = trial.copy()
            found = value_of(self._table, trial, self._weights)
            is_better = found > value + LEAST_GAIN
            if is_better or value == -np.inf:
                value, level[:] = found, trial
            if not is_better:
                break
        return value

    def _divide(self, level: IntArray, step: int, prices: FloatArray) -> None:
        """Divide the devices of one step; a taker that is bound then has its least in each later step."""
        table, values = self._table, self._values
        suited(_list_values, len(table.num) * len(self._weights))(
            *self._columns, level, table.devices, prices, step, values
        )
        best = best_options(
            self._starts, self._devices, values.ravel()[self._at], values[:, 0].copy(), self._num_devices
        )
        self.is_exact = self.is_exact and best.is_proven
        level[:, step] = np.where(best.option == NO_OPTION, 0, best.option - self._starts[:-1] + 1)
        suited(_bind, len(table.num) * len(self._weights))(*self._columns, level)


def _list_values(
    first_gain: FloatArray,
    gain: FloatArray,
    num: IntArray,
    least: IntArray,
    most: FloatArray,
    weights: FloatArray,
    level: IntArray,
    devices: IntArray,
    prices: FloatArray,
    step: int,
    values: FloatArray,
) -> None:
    """Write what each taker's plan is worth with each level in a step, later devices paid; -inf: bound."""
    for row in range(len(num)):
        before, fixed = 0.0, 0.0
        for at in range(step):
            one = level[row, at]
            before += first_gain[row, one] if at == 0 else gain[row, one]
            fixed += weights[at] * min(most[row], before)
        for one in range(num[row]):
            if one < least[row] and before < DONE * most[row]:
                values[row, one] = -np.inf
                continue
            done = before + (first_gain[row, one] if step == 0 else gain[row, one])
            value = fixed + weights[step] * min(most[row], done)
            for at in range(step + 1, len(weights)):
                if done < DONE * most[row]:
                    later = max(level[row, at], least[row])
                    done += gain[row, later]
                    value -= prices[at] * devices[row, later]
                value += weights[at] * min(most[row], done)
            values[row, one] = value


def _bind(
    first_gain: FloatArray,
    gain: FloatArray,
    num: IntArray,
    least: IntArray,
    most: FloatArray,
    weights: FloatArray,
    level: IntArray,
) -> None:
    """Raise levels that are below the least that a taker must have, before its demand is done."""
    for row in range(len(num)):
        done = 0.0
        for step in range(len(weights)):
            if done >= DONE * most[row]:
                break
            level[row, step] = max(level[row, step], least[row])
            one = level[row, step]
            done += first_gain[row, one] if step == 0 else gain[row, one]
