"""The optimum, among the plans that can be in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.solvers.horizon.pricing import PricingProblems, plans_within
from swell.solvers.horizon.problem import LevelPlans, values_of

#: With more plans than this HiGHS is not asked.
MAX_PLANS = 20_000
#: To this, relative and absolute, HiGHS proves optima.
PROVEN_GAP = 1e-6
#: First the plans are tried that lose at most this share of the gap: a better answer makes the gap smaller.
FIRST_SHARE_OF_GAP = 0.25
#: More than rounding takes from a difference of values.
ROUNDING = 1e-9
#: Of `milp`: the best answer was found and proven; there is none.
IS_OPTIMAL, IS_INFEASIBLE = 0, 2


def prove(
    answer: LevelPlans, of: PricingProblems, prices: FloatArray, num_devices: int, max_nodes: int
) -> LevelPlans:
    """The best answer, proven if HiGHS needs no more than `max_nodes`.

    An answer that is worth more than the known one loses at `prices` less than the gap between that and its
    bound, and so does each plan in it (reduced-cost fixing). What remains is a small integer programme over
    plans: one for each taker, with devices enough in each step. Its relaxation is as tight as the Lagrangian
    bound; that of the one-hot formulation, over sizes, is not.

    References: Nemhauser and Wolsey, "Integer and Combinatorial Optimization", 1988, II.5.2 (reduced costs);
        Huangfu and Hall, "Parallelizing the dual revised simplex method", 2018 (HiGHS).
    """
    for share in (FIRST_SHARE_OF_GAP, 1.0):
        loss = share * (answer.bound - answer.value)
        among = _best_among(of, prices, num_devices, loss + ROUNDING, max_nodes)
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
    of: PricingProblems, prices: FloatArray, num_devices: int, loss: float, max_nodes: int
) -> _Among:
    """Find the best answer among plans that each lose at most `loss` at `prices`."""
    # Imported when it is first asked: it takes a third of a second, and most platforms never ask.
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    best = np.zeros((len(of.num), len(of.weights)), dtype=np.int64)
    plans = plans_within(of, prices, loss, MAX_PLANS)
    if plans is None:
        return _Among(best, -np.inf, is_complete=False)
    row, level = plans
    num_takers, num_plans, num_steps = len(of.num), len(row), len(of.weights)
    value = values_of(of.first_gain, of.gain, row, level, of.weights)
    is_of = sparse.csr_matrix((np.ones(num_plans), (row, np.arange(num_plans))), (num_takers, num_plans))
    devices = sparse.csr_matrix(of.devices[row[:, None], level].T.astype(float))
    least = np.concatenate([np.ones(num_takers), np.full(num_steps, -np.inf)])
    most = np.concatenate([np.ones(num_takers), np.full(num_steps, float(num_devices))])
    solved = milp(
        -value,
        constraints=LinearConstraint(sparse.vstack([is_of, devices]).tocsr(), least, most),
        integrality=np.ones(num_plans),
        bounds=Bounds(0.0, 1.0),
        options={"mip_rel_gap": PROVEN_GAP, "node_limit": max_nodes, "disp": False},
    )
    if solved.x is None:
        return _Among(best, -np.inf, solved.status == IS_INFEASIBLE)
    chosen = np.flatnonzero(np.round(solved.x) == 1)
    best[row[chosen]] = level[chosen]
    return _Among(best, float(value[chosen].sum()), solved.status == IS_OPTIMAL)
