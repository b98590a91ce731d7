"""The rolling-horizon solver, against all answers, against HiGHS on two models, and its certificate."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.solvers.horizons import (
    SIZES,
    STEP_MIN,
    PaperModel,
    brute_value,
    checked_value,
    free,
    hu_problem,
    random_problem,
    speed,
)

from swell.solvers.horizon import MAX_PLANS, HorizonProblem, best_plans
from swell.solvers.knapsack import NO_OPTION

#: HiGHS's own tolerances.
CLOSE = 1e-5


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), max_plans=st.sampled_from([0, 2, 5, MAX_PLANS]))
@settings(deadline=None)
def test_no_answer_is_better_than_the_proven_one_nor_above_the_bound(seed: int, max_plans: int) -> None:
    """The certificate is true, and without a low limit the answer is the best of all."""
    problem = random_problem(seed)
    answer, truth = best_plans(problem, max_plans, max_plans), brute_value(problem)
    assert answer.value == pytest.approx(checked_value(problem, answer.option), abs=1e-9)
    assert answer.value <= truth + 1e-9 and answer.bound >= truth - CLOSE
    assert not answer.is_proven or answer.value == pytest.approx(truth, abs=CLOSE)
    assert answer.is_proven or max_plans < MAX_PLANS


def test_a_demand_that_is_worth_more_counts_so_much_more() -> None:
    """Every answer of small problems is tried."""
    for seed in range(60):
        problem = random_problem(seed, most_takers=2, most_steps=2)
        worth = np.random.default_rng([3, seed]).choice([0.01, 0.5, 1.0], problem.num_takers)
        problem = problem._replace(worth=worth)
        exact = best_plans(problem)
        assert exact.value == pytest.approx(checked_value(problem, exact.option), abs=1e-9)
        assert exact.is_proven and exact.value == pytest.approx(best_of_all(problem), abs=CLOSE)


def best_of_all(problem: HorizonProblem) -> float:
    """The highest value by the definition."""
    options = [
        [NO_OPTION, *range(problem.starts[row], problem.starts[row + 1])] for row in range(problem.num_takers)
    ]
    plans = [product(own, repeat=problem.num_steps) for own in options]
    best = -np.inf
    for answer in product(*plans):
        option = np.array(answer, dtype=np.int64).reshape(problem.num_takers, problem.num_steps)
        try:
            best = max(best, checked_value(problem, option))
        except AssertionError:
            continue
    return best


def paper_model(problem: HorizonProblem, sizes: tuple[int, ...], least: int) -> PaperModel:
    """Of a problem of `hu_problem`."""
    demand = STEP_MIN * speed(SIZES[:1]) / problem.gain[problem.starts[:-1]]
    return PaperModel(demand, sizes, problem.num_devices, problem.num_steps, STEP_MIN, least)


def small(seed: int) -> HorizonProblem:
    """Of 2 to 5 jobs on 3 to 60 nodes."""
    return hu_problem(2 + seed % 4, 3 + (7 * seed) % 58, seed, median_min=20.0, num_steps=2)


@pytest.mark.slow
def test_the_papers_own_model_has_the_same_optimum_where_jobs_may_wait() -> None:
    for seed in range(40):
        problem = small(seed)
        exact = best_plans(problem)
        waiting = paper_model(problem, (0, *SIZES.tolist()), least=0).solve().value
        assert exact.is_proven and exact.value == pytest.approx(waiting, abs=CLOSE)


def test_minimums_until_the_end_cost_no_more_than_the_printed_ones_for_good() -> None:
    """Section 4.3 lets jobs keep their minimum after the end, to have fewer variables."""
    is_same = []
    for seed in range(0, 40, 2):
        problem = small(seed)
        problem = problem._replace(is_bound=np.ones(problem.num_takers, dtype=bool))
        exact = best_plans(problem)
        printed = paper_model(problem, tuple(SIZES.tolist()), least=1).solve().value
        assert exact.is_proven and checked_value(problem, exact.option) >= printed - CLOSE
        is_same.append(exact.value <= printed + CLOSE)
    assert any(is_same) and not all(is_same)


def test_a_big_m_that_is_too_small_cuts_off_the_optimum_and_a_large_one_does_not() -> None:
    """M must reach from the least number of nodes to the largest size; the printed 1/M may be 1."""
    problem = hu_problem(3, 40, seed=2, num_steps=2)
    model = paper_model(problem, tuple(SIZES.tolist()), least=1)
    truth = best_plans(problem).value
    assert model.solve().value == pytest.approx(truth, abs=CLOSE)
    assert replace(model, big=17.0, unit=None).solve().value == pytest.approx(truth, abs=CLOSE)
    assert replace(model, big=8.0).solve().value < truth - 0.01


def test_with_more_minimums_than_nodes_the_printed_model_has_no_answer_and_some_jobs_wait() -> None:
    problem = hu_problem(9, 7, seed=1, num_steps=2)
    assert paper_model(problem, tuple(SIZES.tolist()), least=1).solve().value == -np.inf
    answer = best_plans(problem)
    assert checked_value(problem, answer.option) > 0.0
    assert (answer.option[:, 0] == NO_OPTION).sum() >= 2


@pytest.mark.parametrize(
    ("num_jobs", "num_nodes", "median_min"),
    [(20, 70, 60.0), (40, 150, 60.0), (100, 190, 60.0), (800, 1000, 3000.0), (1000, 3864, 1200.0)],
)
def test_plans_of_a_thousand_jobs_are_proven_to_be_the_best(
    num_jobs: int, num_nodes: int, median_min: float
) -> None:
    """The hard case: some jobs end within the horizon, most do not."""
    problem = hu_problem(num_jobs, num_nodes, seed=0, median_min=median_min)
    answer = best_plans(problem)
    assert answer.is_proven and answer.value == pytest.approx(checked_value(problem, answer.option))


def test_what_is_done_early_counts_in_every_step_after_it() -> None:
    """Formula (1) sums what is served so far: the order matters to it, and not to the end of the horizon."""
    first, second = [0.5], [0.25]
    gain = np.array(first + second)
    starts, devices = np.array([0, 1, 2]), np.array([1, 1])
    problem = HorizonProblem(starts, devices, gain, free(2), np.ones(3), 1)
    summed = best_plans(problem)
    assert summed.option.tolist() == [[0, 0, NO_OPTION], [NO_OPTION, NO_OPTION, 1]]
    assert summed.value == pytest.approx(0.5 + 1.0 + 1.0 + 0.25)
    ended = best_plans(problem._replace(weights=np.array([0.0, 0.0, 1.0])))
    assert ended.value == pytest.approx(1.25)
