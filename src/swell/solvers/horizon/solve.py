"""Good plans fast with a certificate, and the best ones if more work is allowed."""

from __future__ import annotations

import numpy as np

from swell.solvers.horizon.descent import PriceDescent
from swell.solvers.horizon.exact import prove
from swell.solvers.horizon.pricing import pricing
from swell.solvers.horizon.problem import BestPlans, HorizonProblem, LevelPlans, level_table
from swell.solvers.horizon.steps import StepSearch

#: A gap of this share between an answer and its bound is small enough.
GAP_SHARE = 1e-3
#: Where the best plans are asked for the gap is made smaller first: then fewer plans can be in them.
EXACT_GAP_SHARE = 1e-4
#: Sets of prices that are tried.
MAX_PRICES = 160
#: After so many of them the plans at the best ones are made an answer.
PRICES_AN_ANSWER = 8
#: A gap that has not become smaller by this share over so many answers is as small as it gets.
LEAST_SHRINKAGE, ANSWERS_TO_SHRINK = 0.1, 4
CYCLES_AT_FIRST, CYCLES_AN_ANSWER = 6, 3
#: Values closer than this are equal.
SAME_VALUE = 1e-9


def best_plans(
    problem: HorizonProblem,
    max_prices: int = MAX_PRICES,
    max_plans: int = 0,
    gap_share: float = GAP_SHARE,
) -> BestPlans:
    """Options of each taker in each step with which what all have done of their demands is worth most.

    Prices for the devices of each step make takers independent of each other (Lagrangian relaxation), which
    gives the bound. The plans that takers choose at the best prices, made to fit one step after the other,
    are the answer. HiGHS closes the gap between both, over the few plans that can be in a better answer.

    Args:
        max_prices: sets of prices that are tried.
        max_plans: HiGHS is asked if no more plans can be in a better answer; 0: never.
        gap_share: a smaller gap ends the search for prices.
    """
    table = level_table(problem)
    steps = StepSearch(table, problem.weights, problem.num_devices)
    level = np.zeros((problem.num_takers, problem.num_steps), dtype=np.int64)
    value = steps.improve(level, CYCLES_AT_FIRST, np.zeros(problem.num_steps))
    of = pricing(table, problem.weights)
    if steps.is_exact and not of.can_end.any():  # steps do not concern each other
        return LevelPlans(level, value, value, is_proven=True).told(table)
    descent = PriceDescent.begin(of, problem.num_devices, value)
    enough = 1.0 + (min(gap_share, EXACT_GAP_SHARE) if max_plans else gap_share)
    gaps: list[float] = []
    for tried in range(1, max_prices + 1):
        descent.step(value)
        is_last = descent.is_flat or tried == max_prices or _is_stuck(gaps)
        if tried % PRICES_AN_ANSWER == 0 or is_last:
            found = (descent.latest_level if len(gaps) % 2 else descent.level).copy()
            if (
                its_value := steps.improve(found, CYCLES_AN_ANSWER, descent.best_prices)
            ) > value + SAME_VALUE:
                level, value = found, its_value
            gaps.append(descent.bound - value)
        if is_last or descent.bound <= value * enough + SAME_VALUE:
            break
    answer = LevelPlans(level, value, max(descent.bound, value), descent.bound <= value + SAME_VALUE)
    if max_plans and not answer.is_proven:
        answer = prove(answer, of, descent.best_prices, problem.num_devices, max_plans)
    return answer.told(table)


def _is_stuck(gaps: list[float]) -> bool:
    """Whether the gap has hardly shrunk in the latest answers. `gaps`: after each answer so far."""
    if len(gaps) <= ANSWERS_TO_SHRINK:
        return False
    return gaps[-1] > (1.0 - LEAST_SHRINKAGE) * gaps[-1 - ANSWERS_TO_SHRINK]
