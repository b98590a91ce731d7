"""Sizes of many takers over several steps that are coupled by what each has done so far."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.solvers.knapsack import NO_OPTION

if TYPE_CHECKING:
    from highspy import HighsLp
    from highspy._core import _Highs as Highs

#: What is left of a demand beyond this is rounding.
DONE = 1.0 - 1e-12
#: More than rounding takes from a difference of values.
ROUNDING = 1e-9
#: So many plans that lose least are tried first, and no more than so many to prove an optimum.
FEW_PLANS, MAX_PLANS = 200, 3_000
#: Of a taker that could have more plans only every second size counts, or every fourth.
MOST_PLANS_OF_ONE = 50_000
#: To this, relative and absolute, HiGHS proves optima.
PROVEN_GAP = 1e-6
#: Nodes of HiGHS's tree: a guard only, for few searches leave the root.
MAX_NODES = 1_000


class HorizonProblem(NamedTuple):
    """Maximise sum_j v_j sum_t w_t min(1, p_j^t), where p_j^t is what taker j has done of its demand by t.

    In each step a taker has one of its options or none, and all together have no more than `num_devices`.
    """

    starts: IntArray  #: (J + 1,) a taker's options are those from starts[row] to starts[row + 1]
    devices: IntArray  #: (O,) whole numbers > 0, ascending within a taker
    gain: FloatArray  #: (O,) share of the demand that is done in a step, >= 0
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


def best_plans(problem: HorizonProblem, few_plans: int = FEW_PLANS, max_plans: int = MAX_PLANS) -> BestPlans:
    """Options of each taker in each step with which what all have done of their demands is worth most.

    One plan is chosen for each taker, with devices enough in each step. The linear relaxation of that gives
    a price for the devices of each step; an answer that is worth more than a known one loses at these prices
    less than the gap between that and the bound, and so does each plan in it (reduced-cost fixing). HiGHS
    finds the best answer among the plans that lose least. The relaxation of the one-hot formulation, over
    sizes instead of plans, is not as tight.

    Args:
        few_plans: that are tried first, beside the best one of each taker at the prices.
        max_plans: HiGHS is not asked about more plans than that, beside these.

    References: Nemhauser and Wolsey, "Integer and Combinatorial Optimization", 1988, II.3.6 and II.5.2
        (columns as they are needed; reduced costs); Huangfu and Hall, "Parallelizing the dual revised simplex
        method", 2018 (HiGHS).
    """
    option = np.full((problem.num_takers, problem.num_steps), NO_OPTION, dtype=np.int64)
    if not problem.num_takers:
        return BestPlans(option, 0.0, 0.0, is_proven=True)
    plans = _list_plans(problem)
    loss, bound = _losses(plans, problem.num_devices)
    at_prices = plans.first_of_groups(-loss)
    in_order = _first_in_order(loss, len(at_prices) + max_plans + 1)
    best, is_proven = plans.smallest, False
    value = float(plans.value[best].sum())
    for most in (few_plans, max_plans):
        num = int(np.searchsorted(loss[in_order], bound - value + ROUNDING))
        num = min(len(at_prices) + most, num)
        among = np.union1d(in_order[:num], at_prices)
        chosen, is_optimal = _best_of(plans.at(among), problem.num_devices)
        if not len(chosen):  # it may be that these do not fit together, and the smallest do
            among = np.union1d(among, plans.smallest)
            chosen, is_optimal = _best_of(plans.at(among), problem.num_devices)
        if len(chosen) and (its_value := float(plans.value[among[chosen]].sum())) > value:
            value, best = its_value, among[chosen]
        least_elsewhere = loss[in_order[num]] if num < len(in_order) else np.inf
        is_proven = is_optimal and value >= bound - least_elsewhere - ROUNDING
        if is_proven:
            break
    np.maximum.at(option, plans.row[best], plans.option[best])
    return BestPlans(option, value, value if is_proven else max(bound, value), is_proven)


def _first_in_order(key: FloatArray, num: int) -> IntArray:
    """The first of a stable order by the key: so many at least, if there are."""
    places = np.arange(len(key))
    if len(key) > num:
        places = np.flatnonzero(key <= np.partition(key, num - 1)[num - 1])
    return places[np.argsort(key[places], kind="stable")]


@dataclass(frozen=True)
class _Plans:
    """Plans of which one of each group is chosen: of a taker, or of one of its steps."""

    devices_of: IntArray  #: (O + 1,) of each option; the last one is of NO_OPTION
    group: IntArray  #: (P,) ascending
    row: IntArray  #: (P,) taker
    option: NDArray[np.int32]  #: (P, T) NO_OPTION in steps that are no part of the plan, too
    value: FloatArray  #: (P,)

    @property
    def num_groups(self) -> int:
        return int(self.group[-1]) + 1

    @cached_property
    def starts(self) -> IntArray:
        """(G,) first plan of each group."""
        return np.flatnonzero(np.diff(self.group, prepend=-1))

    @cached_property
    def smallest(self) -> IntArray:
        """(G,) a plan of each group; there are devices enough for all of them together."""
        return self.first_of_groups(-np.maximum.reduce(self.devices))

    @cached_property
    def devices(self) -> list[IntArray]:
        """(P,) that each plan has, step by step."""
        return [self.devices_of[option] for option in self.option.T]

    def first_of_groups(self, key: IntArray | FloatArray) -> IntArray:
        """(G,) the first plan of each group for which the key (P,) is the largest."""
        is_most = np.flatnonzero(key == np.maximum.reduceat(key, self.starts)[self.group])
        first: IntArray = is_most[np.flatnonzero(np.diff(self.group[is_most], prepend=-1))]
        return first

    def at(self, places: IntArray) -> _Plans:
        group, row = self.group[places], self.row[places]
        return _Plans(self.devices_of, group, row, self.option[places], self.value[places])


def _list_plans(problem: HorizonProblem) -> _Plans:
    """All that can be in a best answer.

    Steps of a taker whose demand no plan ends do not concern each other, so each is a group of its own.
    """
    rows: list[int] = []
    options: list[NDArray[np.int32]] = []
    values: list[FloatArray] = []
    num_steps = problem.num_steps
    for row in range(problem.num_takers):
        worth = 1.0 if problem.worth is None else float(problem.worth[row])
        own, gain = _sizes(problem, row, worth)
        if num_steps * gain.max() > worth:
            while len(own) ** num_steps > MOST_PLANS_OF_ONE:
                own, gain = own[::2], gain[::2]
            option, value = _plans_of(own, gain, worth, problem.weights)
            rows.append(row)
            options.append(option)
            values.append(value)
            continue
        for step in range(num_steps):
            option = np.full((len(own), num_steps), NO_OPTION, dtype=np.int32)
            option[:, step] = own
            rows.append(row)
            options.append(option)
            values.append(problem.weights[step:].sum() * gain)
    sizes = [len(value) for value in values]
    return _Plans(
        devices_of=np.append(problem.devices, 0),
        group=np.repeat(np.arange(len(sizes)), sizes),
        row=np.repeat(rows, sizes),
        option=np.asfortranarray(np.concatenate(options)),  # it is read step by step
        value=np.concatenate(values),
    )


def _sizes(problem: HorizonProblem, row: int, worth: float) -> tuple[IntArray, FloatArray]:
    """Options of a taker, and what a step does of its demand with each, times its worth.

    Without those that do no more than a smaller one does. A step ends what is left at most, so of the options
    that end a demand in one step the smallest is enough.
    """
    own = np.arange(problem.starts[row], problem.starts[row + 1])
    own = own[problem.devices[own] <= problem.num_devices]
    gain = np.minimum(problem.gain[own] * worth, worth)
    if not problem.is_bound[row]:
        own, gain = np.append(NO_OPTION, own), np.append(0.0, gain)
    is_needed = np.diff(np.maximum.accumulate(gain), prepend=-1.0) > 0.0
    return own[is_needed], gain[is_needed]


def _plans_of(
    own: IntArray, gain: FloatArray, worth: float, weights: FloatArray
) -> tuple[NDArray[np.int32], FloatArray]:
    """(P, T) plans of a taker, and (P,) what they are worth.

    Those with devices after the demand is done, or with more than it takes to end it, are left out.
    """
    option = np.empty((1, 0), dtype=np.int32)
    done = value = np.zeros(1)
    options, values = [], []
    for step in range(len(weights)):
        after = done[:, None] + gain
        is_end = after >= DONE * worth
        before, one = np.nonzero(np.cumsum(is_end, axis=1) - is_end == 0)
        is_over, done = is_end[before, one], after[before, one]
        option = np.column_stack([option[before], own[one].astype(np.int32)])
        value = value[before] + weights[step] * np.minimum(done, worth)
        rest = np.full((int(is_over.sum()), len(weights) - step - 1), NO_OPTION, dtype=np.int32)
        options.append(np.column_stack([option[is_over], rest]))
        values.append(value[is_over] + weights[step + 1 :].sum() * worth)
        option, done, value = option[~is_over], done[~is_over], value[~is_over]
    return np.concatenate([*options, option]), np.concatenate([*values, value])


def _losses(plans: _Plans, num_devices: int) -> tuple[FloatArray, float]:
    """(P,) what each plan loses beside the best one of its group at the best prices, and the bound.

    The relaxation begins with two plans of each group; others join as they are better at its prices.
    """
    is_in = np.zeros(len(plans.value), dtype=bool)
    is_in[plans.smallest] = is_in[plans.first_of_groups(plans.value)] = True
    solver, starts, in_group = _solver(), plans.starts, plans.group
    solver.passModel(_programme(plans.at(np.flatnonzero(is_in)), num_devices, is_whole=False))
    while True:
        solver.run()
        worth, prices = np.split(-np.array(solver.getSolution().row_dual), [plans.num_groups])
        prices = np.maximum(prices, 0.0)
        net = plans.value.copy()
        for price, devices in zip(prices, plans.devices, strict=True):
            net -= price * devices
        best = np.maximum.reduceat(net, starts)
        is_new = (net == best[in_group]) & (net > worth[in_group] + ROUNDING) & ~is_in
        if not is_new.any():
            return best[in_group] - net, float(best.sum() + num_devices * prices.sum())
        is_in |= is_new
        more = plans.at(np.flatnonzero(is_new))
        num, matrix = len(more.value), _matrix(more, plans.num_groups)
        solver.addCols(num, -more.value, np.zeros(num), np.ones(num), len(matrix.row), *matrix)


def _best_of(plans: _Plans, num_devices: int) -> tuple[IntArray, bool]:
    """(G,) the plans with which the sum of values is the highest, and whether that is proven.

    Empty if there is no answer, or none within the limit.
    """
    from highspy import HighsModelStatus

    solver = _solver()
    solver.passModel(_programme(plans, num_devices, is_whole=True))
    solver.run()
    found, is_optimal = solver.getSolution(), solver.getModelStatus() == HighsModelStatus.kOptimal
    chosen = np.flatnonzero(np.round(np.array(found.col_value)) == 1)
    return chosen[: len(chosen) * found.value_valid], is_optimal


def _solver() -> Highs:
    """One thread and no limit of time: the same question has the same answer, on a slow machine too."""
    # Imported when it is first asked: most platforms never ask. The public class prints a banner.
    from highspy._core import _Highs as Highs

    solver = Highs()
    for option, setting in (
        ("output_flag", False),
        ("threads", 1),
        ("mip_rel_gap", PROVEN_GAP),
        ("mip_max_nodes", MAX_NODES),
    ):
        solver.setOptionValue(option, setting)
    return solver


def _programme(plans: _Plans, num_devices: int, *, is_whole: bool) -> HighsLp:
    """One plan of each group, with devices enough in each step."""
    from highspy import HighsLp, HighsVarType, MatrixFormat

    num_plans, num_steps = plans.option.shape
    programme = HighsLp()
    programme.num_col_, programme.num_row_ = num_plans, plans.num_groups + num_steps
    programme.col_cost_ = -plans.value
    programme.col_lower_, programme.col_upper_ = np.zeros(num_plans), np.ones(num_plans)
    if is_whole:
        programme.integrality_ = [HighsVarType.kInteger] * num_plans
    ones = np.ones(plans.num_groups)
    programme.row_lower_ = np.concatenate([ones, np.full(num_steps, -np.inf)])
    programme.row_upper_ = np.concatenate([ones, np.full(num_steps, float(num_devices))])
    starts, rows, numbers = _matrix(plans, plans.num_groups)
    programme.a_matrix_.format_ = MatrixFormat.kColwise
    programme.a_matrix_.start_ = np.append(starts, len(rows)).astype(np.int32)
    programme.a_matrix_.index_, programme.a_matrix_.value_ = rows, numbers
    return programme


class _Matrix(NamedTuple):
    """Columns of a programme: a row for each group, then one for each step."""

    start: NDArray[np.int32]  #: (P,)
    row: NDArray[np.int32]  #: (M,)
    number: FloatArray  #: (M,)


def _matrix(plans: _Plans, num_groups: int) -> _Matrix:
    num_plans, num_steps = plans.option.shape
    rows = np.column_stack([plans.group, np.tile(num_groups + np.arange(num_steps), (num_plans, 1))])
    numbers = np.column_stack([np.ones(num_plans), *plans.devices])
    is_there = numbers != 0
    starts = np.concatenate([[0], np.cumsum(is_there.sum(axis=1))])[:-1]
    return _Matrix(starts.astype(np.int32), rows[is_there].astype(np.int32), numbers[is_there])
