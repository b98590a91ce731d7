"""The rolling-horizon problem, and answers to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.compiled import suited
from swell.solvers.knapsack import NO_OPTION


class HorizonProblem(NamedTuple):
    """Maximise sum_j v_j sum_t w_t min(1, p_j^t), where p_j^t is what taker j has done of its demand by t.

    In each step a taker has one of its options or none, and all together have no more than `num_devices`.
    """

    starts: IntArray  #: (J + 1,) a taker's options are those from starts[row] to starts[row + 1]
    devices: IntArray  #: (O,) whole numbers > 0, ascending within a taker
    first_gain: FloatArray  #: (O,) share of the demand that is done in the first step, >= 0
    gain: FloatArray  #: (O,) the same of each later step, >= 0
    first_gain_of_none: FloatArray  #: (J,) without an option in the first step, <= 0: it may lose something
    is_bound: BoolArray  #: (J,) must have an option until its demand is done; has one, and all have enough
    weights: FloatArray  #: (T,) >= 0, of what is done by the end of each step
    num_devices: int
    worth: FloatArray | None = None  #: (J,) > 0, of a demand that is done (v); None: 1 for each

    @property
    def num_takers(self) -> int:
        return len(self.starts) - 1

    @property
    def num_steps(self) -> int:
        return len(self.weights)


class BestPlans(NamedTuple):
    """An answer to the rolling-horizon problem."""

    option: IntArray  #: (J, T) index of the option of each taker in each step; NO_OPTION: it waits
    value: float
    bound: float  #: no answer is worth more
    is_proven: bool  #: it is the optimum; otherwise a limit of work was reached, and it is the best found

    @property
    def gap_share(self) -> float:
        """Share by which the optimum may be better than this answer."""
        return self.bound / self.value - 1.0 if self.value > 0.0 else float(self.bound > 0.0)


class LevelTable(NamedTuple):
    """Options that may be in a best answer, as columns; level 0 is nothing."""

    option: IntArray  #: (J, L) index of the option; NO_OPTION at level 0
    devices: IntArray  #: (J, L) ascending in the first `num` of a row
    first_gain: FloatArray  #: (J, L) at most what can be left, times the worth of the demand
    gain: FloatArray  #: (J, L) the same
    num: IntArray  #: (J,) levels, level 0 included
    least: IntArray  #: (J,) lowest level before the demand is done: 1 for a taker that must have an option
    most: FloatArray  #: (J,) worth of the demand: no taker gains more


class LevelPlans(NamedTuple):
    """`BestPlans` in levels of a table."""

    level: IntArray  #: (J, T)
    value: float
    bound: float
    is_proven: bool

    def told(self, table: LevelTable) -> BestPlans:
        """The same plans, with the options of the table instead of its levels."""
        option = np.take_along_axis(table.option, self.level, axis=1)
        return BestPlans(option, self.value, self.bound, self.is_proven)


def level_table(problem: HorizonProblem) -> LevelTable:
    """Without options that do no more in any step than a smaller one does.

    A step ends what is left at most, so of the options that end a demand in one step the smallest is enough.
    """
    num_takers = problem.num_takers
    most = 1 + int(np.diff(problem.starts).max(initial=0))
    table = LevelTable(
        option=np.full((num_takers, most), NO_OPTION, dtype=np.int64),
        devices=np.zeros((num_takers, most), dtype=np.int64),
        first_gain=np.zeros((num_takers, most)),
        gain=np.zeros((num_takers, most)),
        num=np.ones(num_takers, dtype=np.int64),
        least=problem.is_bound.astype(np.int64),
        most=np.ones(num_takers) if problem.worth is None else problem.worth,
    )
    table.first_gain[:, 0] = problem.first_gain_of_none * table.most
    of_option = np.repeat(table.most, np.diff(problem.starts))
    run = suited(_list_levels, num_takers)
    columns = table.option, table.devices, table.first_gain, table.gain, table.num, table.least, table.most
    first_gain, gain = problem.first_gain * of_option, problem.gain * of_option
    run(problem.starts, problem.devices, first_gain, gain, problem.num_devices, columns)
    return table


def _list_levels(
    starts: IntArray,
    all_devices: IntArray,
    all_first_gain: FloatArray,
    all_gain: FloatArray,
    num_devices: int,
    columns: tuple[IntArray, IntArray, FloatArray, FloatArray, IntArray, IntArray, FloatArray],
) -> None:
    """Write the columns of `LevelTable`."""
    option, devices, first_gain, gain, num, least, most = columns
    for row in range(len(num)):
        enough = (
            most[row] - first_gain[row, 0]
        )  # what is lost by having none in the first step has to be done, too
        for at in range(starts[row], starts[row + 1]):
            if all_devices[at] > num_devices:
                continue
            first, later = min(all_first_gain[at], enough), min(all_gain[at], enough)
            is_better = True
            for level in range(least[row], num[row]):
                if first_gain[row, level] >= first and gain[row, level] >= later:
                    is_better = False
            if is_better:
                option[row, num[row]], devices[row, num[row]] = at, all_devices[at]
                first_gain[row, num[row]], gain[row, num[row]] = first, later
                num[row] += 1


def value_of(table: LevelTable, level: IntArray, weights: FloatArray) -> float:
    """What (J, T) levels are worth, whether or not there are devices for them."""
    return float(
        values_of(table.first_gain, table.gain, table.most, np.arange(len(level)), level, weights).sum()
    )


def values_of(
    first_gain: FloatArray,
    gain: FloatArray,
    most: FloatArray,
    row: IntArray,
    level: IntArray,
    weights: FloatArray,
) -> FloatArray:
    """(P,) what (P, T) plans of the takers `row` are worth."""
    done = gain[row[:, None], level]
    done[:, 0] = first_gain[row, level[:, 0]]
    values: FloatArray = np.minimum(np.cumsum(done, axis=1), most[row][:, None]) @ weights
    return values
