"""The optimum, among the plans that can be in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.solvers.horizon.pricing import PricingProblems, plans_within
from swell.solvers.horizon.problem import LevelPlans, values_of

if TYPE_CHECKING:
    from highspy import HighsLp

#: Nodes of HiGHS's tree: a guard only, for few searches among `max_plans` plans leave the root.
MAX_NODES = 1000
#: To this, relative and absolute, HiGHS proves optima.
PROVEN_GAP = 1e-6
#: First the plans are tried that lose at most this share of the gap: a better answer makes the gap smaller.
FIRST_SHARE_OF_GAP = 0.25
#: More than rounding takes from a difference of values.
ROUNDING = 1e-9


def prove(
    answer: LevelPlans, of: PricingProblems, prices: FloatArray, num_devices: int, max_plans: int
) -> LevelPlans:
    """The best answer, proven if no more than `max_plans` plans can be in a better one.

    An answer that is worth more than the known one loses at `prices` less than the gap between that and its
    bound, and so does each plan in it (reduced-cost fixing). What remains is a small integer programme over
    plans: one for each taker, with devices enough in each step. Its relaxation is as tight as the Lagrangian
    bound; that of the one-hot formulation, over sizes, is not.

    References: Nemhauser and Wolsey, "Integer and Combinatorial Optimization", 1988, II.5.2 (reduced costs);
        Huangfu and Hall, "Parallelizing the dual revised simplex method", 2018 (HiGHS).
    """
    for share in (FIRST_SHARE_OF_GAP, 1.0):
        loss = share * (answer.bound - answer.value)
        among = _best_among(of, prices, num_devices, loss + ROUNDING, max_plans)
        if among.value > answer.value:
            answer = answer._replace(level=among.level, value=among.value)
        best_elsewhere = answer.bound - loss  # of answers that lose more
        if among.is_complete and best_elsewhere <= answer.value + ROUNDING:
            return answer._replace(bound=min(answer.bound, answer.value), is_proven=True)
    return answer


class _Among(NamedTuple):
    """The best answer of some plans."""

    level: IntArray  #: (J, T)
    value: float  #: -inf: there is no answer
    is_complete: bool  #: there is none better of these plans


def _best_among(
    of: PricingProblems, prices: FloatArray, num_devices: int, loss: float, max_plans: int
) -> _Among:
    """Find the best answer among plans that each lose at most `loss` at `prices`."""
    # Imported when it is first asked: most platforms never ask.
    from highspy import HighsModelStatus, SolutionStatus
    from highspy._core import _Highs as Highs  # the public class prints a banner to standard output

    best = np.zeros((len(of.num), len(of.weights)), dtype=np.int64)
    plans = plans_within(of, prices, loss, max_plans)
    if plans is None:
        return _Among(best, -np.inf, is_complete=False)
    row, level = plans
    value = values_of(of.first_gain, of.gain, of.most, row, level, of.weights)
    solver = Highs()
    # One thread and no limit of time: the same question has the same answer, on a slow machine too.
    for option, setting in (
        ("output_flag", False),
        ("threads", 1),
        ("mip_rel_gap", PROVEN_GAP),
        ("mip_max_nodes", MAX_NODES),
    ):
        solver.setOptionValue(option, setting)
    solver.passModel(_programme(value, row, of.devices[row[:, None], level], len(of.num), num_devices))
    solver.run()
    status = solver.getModelStatus()
    if solver.getInfo().primal_solution_status != SolutionStatus.kSolutionStatusFeasible:
        return _Among(best, -np.inf, status == HighsModelStatus.kInfeasible)
    chosen = np.flatnonzero(np.round(solver.getSolution().col_value) == 1)
    best[row[chosen]] = level[chosen]
    return _Among(best, float(value[chosen].sum()), status == HighsModelStatus.kOptimal)


def _programme(
    value: FloatArray, row: IntArray, devices: IntArray, num_takers: int, num_devices: int
) -> HighsLp:
    """One plan for each taker, with devices enough in each step.

    Args:
        value, row: (P,) what a plan is worth, and whose it is.
        devices: (P, T) what it takes in each step.
    """
    from highspy import HighsLp, HighsVarType, MatrixFormat

    num_plans, num_steps = devices.shape
    programme = HighsLp()
    programme.num_col_, programme.num_row_ = num_plans, num_takers + num_steps
    programme.col_cost_ = -value
    programme.col_lower_, programme.col_upper_ = np.zeros(num_plans), np.ones(num_plans)
    programme.integrality_ = [HighsVarType.kInteger] * num_plans
    programme.row_lower_ = np.concatenate([np.ones(num_takers), np.full(num_steps, -np.inf)])
    programme.row_upper_ = np.concatenate([np.ones(num_takers), np.full(num_steps, float(num_devices))])
    rows = np.column_stack([row, np.tile(num_takers + np.arange(num_steps), (num_plans, 1))])
    numbers = np.column_stack([np.ones(num_plans), devices])
    is_there = numbers != 0
    programme.a_matrix_.format_ = MatrixFormat.kColwise
    programme.a_matrix_.start_ = np.concatenate([[0], np.cumsum(is_there.sum(axis=1))]).astype(np.int32)
    programme.a_matrix_.index_ = rows[is_there].astype(np.int32)
    programme.a_matrix_.value_ = numbers[is_there]
    return programme
