"""Exactly the best options of many takers at once, where what each gains depends on its own option only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.solvers.knapsack_core import MAX_WORK, KnapsackProblem, improve
from swell.solvers.knapsack_hulls import upper_hulls
from swell.solvers.knapsack_relaxation import relax

#: In place of an option: nothing at all.
NO_OPTION = -1


class Best(NamedTuple):
    """An answer to the multiple-choice knapsack problem."""

    option: IntArray  #: (J,) index of each taker's option; NO_OPTION for none, and where there is no answer
    value: float  #: sum of its values; -inf: there is no answer, for what must be had exceeds the devices
    bound: float  #: no answer is worth more
    is_proven: bool  #: it is the optimum; otherwise the limit of work was reached, and it is the best found

    @property
    def is_possible(self) -> bool:
        """There is an answer."""
        return self.value > -np.inf


def best_options(
    starts: IntArray,
    devices: IntArray,
    value: FloatArray,
    nothing: FloatArray,
    num_devices: int,
    order: IntArray | None = None,
    max_work: int = MAX_WORK,
) -> Best:
    """The option of each taker with which the sum of values is the largest that the devices allow.

    The multiple-choice knapsack problem: maximise sum_j V_j(n_j) subject to sum_j n_j <= `num_devices`.
    Upper hulls and a greedy fill give a bound and a first answer; options that lose more than the gap between
    the two are in no better answer; dynamic programming over the others, which are few, closes the gap.

    Args:
        starts: (J + 1,) a taker's options are those from starts[row] to starts[row + 1].
        devices: (O,) whole numbers > 0, ascending within a taker.
        value: (O,) any numbers; -inf: the taker may not have this option.
        nothing: (J,) value of having no option; -inf: the taker must have one.
        order: (J,) rows, those first that win ties; None: as they come.
        max_work: looks of the dynamic program at partial answers. Beyond that the best answer so far is
            given, unproven.

    Complexity: O(O + J log O) and the looks.

    References: Kellerer, Pferschy, Pisinger, "Knapsack Problems", 2004, sections 11.2 (relaxation, hulls),
        11.4 (reduction by bounds) and 11.5 (dynamic programming); Pisinger, "A minimal algorithm for the
        multiple-choice knapsack problem", 1995 (a core around the break).
    """
    if order is None:
        order = np.arange(len(nothing), dtype=np.int64)
    hulls = upper_hulls(starts, devices, value, nothing)
    relaxed = None if hulls is None else relax(hulls, order, num_devices)
    if hulls is None or relaxed is None:
        none = np.full(len(nothing), NO_OPTION, dtype=np.int64)
        return Best(none, -np.inf, -np.inf, is_proven=True)
    option = relaxed.option
    greedy = float(np.where(option == NO_OPTION, nothing, value[option] if len(value) else 0.0).sum())
    bound = greedy + relaxed.price * relaxed.left
    if not relaxed.price * relaxed.left > 0.0:
        return Best(option, greedy, greedy, is_proven=True)
    is_proven = improve(KnapsackProblem(starts, devices, value, nothing), relaxed, order, max_work)
    total = float(np.where(option == NO_OPTION, nothing, value[option]).sum())
    return Best(option, total, total if is_proven else bound, is_proven)


def least_cost(devices: IntArray, cost: FloatArray, num_levels: IntArray, num_devices: int) -> IntArray:
    """(J,) the level of each taker with which the sum of costs is the least that the devices allow.

    `best_options` for takers that are rows of a table. Its limit of work holds here, too.

    Args:
        devices: (J, L) of levels 1, 2, ..., whole numbers > 0, ascending; the first `num_levels` count.
        cost: (J, L + 1) of levels 0, 1, 2, ...; finite. Later takers win ties.
    """
    starts = np.concatenate([[0], np.cumsum(num_levels)])
    is_level = np.arange(devices.shape[1])[None, :] < num_levels[:, None]
    last_first = np.arange(len(devices) - 1, -1, -1)
    best = best_options(
        starts, devices[is_level], -cost[:, 1:][is_level], -cost[:, 0], num_devices, order=last_first
    )
    level: IntArray = np.where(best.option == NO_OPTION, 0, best.option - starts[:-1] + 1)
    return level
