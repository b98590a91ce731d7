"""The rolling-horizon solver, against all answers, against HiGHS on two models, and its certificate."""

from __future__ import annotations

from collections.abc import Iterator
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
    solve_one_hot,
    speed,
)

from swell.compiled import from_rows
from swell.solvers.horizon.lattice import lattice
from swell.solvers.horizon.pricing import DONE, choose, pricing
from swell.solvers.horizon.problem import HorizonProblem, LevelTable, level_table, values_of
from swell.solvers.horizon.solve import best_plans
from swell.solvers.knapsack import NO_OPTION

#: HiGHS's own tolerances.
CLOSE = 1e-5
MANY_PLANS = 20_000


@pytest.mark.slow
@given(seed=st.integers(0, 10**6))
@settings(deadline=None)
def test_no_answer_is_better_than_the_proven_one_nor_above_the_bound(seed: int) -> None:
    """The certificate is true, and the exact path finds the best of all answers."""
    problem = random_problem(seed)
    fast, exact, truth = best_plans(problem), best_plans(problem, max_plans=MANY_PLANS), brute_value(problem)
    for answer in (fast, exact):
        assert answer.value == pytest.approx(checked_value(problem, answer.option), abs=1e-9)
        assert answer.value <= truth + 1e-9 and answer.bound >= truth - CLOSE
        assert not answer.is_proven or answer.value == pytest.approx(truth, abs=CLOSE)
    assert exact.is_proven


def test_a_demand_that_is_worth_more_counts_so_much_more() -> None:
    """Every answer of small problems is tried."""
    for seed in range(60):
        problem = random_problem(seed, most_takers=2, most_steps=2)
        worth = np.random.default_rng([3, seed]).choice([0.01, 0.5, 1.0], problem.num_takers)
        problem = problem._replace(worth=worth)
        exact = best_plans(problem, max_plans=MANY_PLANS)
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


@pytest.mark.slow
def test_a_hundred_problems_have_the_optimum_that_highs_finds_for_the_one_hot_model() -> None:
    for seed in range(100):
        problem = random_problem(seed, most_takers=7, most_steps=4)
        exact = best_plans(problem, max_plans=MANY_PLANS)
        assert exact.is_proven
        assert exact.value == pytest.approx(solve_one_hot(problem).value, abs=CLOSE)


def paper_model(problem: HorizonProblem, sizes: tuple[int, ...], least: int) -> PaperModel:
    """Of a problem of `hu_problem`."""
    demand = STEP_MIN * speed(SIZES[:1]) / problem.gain[problem.starts[:-1]]
    return PaperModel(demand, sizes, problem.num_devices, problem.num_steps, STEP_MIN, least)


def small(seed: int) -> HorizonProblem:
    """Of 2 to 5 jobs on 3 to 60 nodes."""
    return hu_problem(2 + seed % 4, 3 + (7 * seed) % 58, seed, median_min=20.0, num_steps=2)


@pytest.mark.slow
def test_the_papers_own_model_has_the_same_optimum_where_jobs_may_wait() -> None:
    for seed in range(100):
        problem = small(seed)
        exact = best_plans(problem, max_plans=MANY_PLANS)
        waiting = paper_model(problem, (0, *SIZES.tolist()), least=0).solve().value
        assert exact.is_proven and exact.value == pytest.approx(waiting, abs=CLOSE)


def test_minimums_until_the_end_cost_no_more_than_the_printed_ones_for_good() -> None:
    """Section 4.3 lets jobs keep their minimum after the end, to have fewer variables."""
    is_same = []
    for seed in range(0, 40, 2):
        problem = small(seed)
        problem = problem._replace(is_bound=np.ones(problem.num_takers, dtype=bool))
        exact = best_plans(problem, max_plans=MANY_PLANS)
        printed = paper_model(problem, tuple(SIZES.tolist()), least=1).solve().value
        assert exact.is_proven and checked_value(problem, exact.option) >= printed - CLOSE
        is_same.append(exact.value <= printed + CLOSE)
    assert any(is_same) and not all(is_same)


def test_a_job_that_is_bound_has_its_minimum_even_where_others_make_more_of_it() -> None:
    problem = hu_problem(9, 12, seed=1, num_steps=2)
    assert (best_plans(problem).option[:, 0] == NO_OPTION).any()
    bound = best_plans(problem._replace(is_bound=np.ones(9, dtype=bool)))
    assert (bound.option[:, 0] != NO_OPTION).all()


def test_a_big_m_that_is_too_small_cuts_off_the_optimum_and_a_large_one_does_not() -> None:
    """M must reach from the least number of nodes to the largest size; the printed 1/M may be 1."""
    problem = hu_problem(3, 40, seed=2, num_steps=2)
    model = paper_model(problem, tuple(SIZES.tolist()), least=1)
    truth = solve_one_hot(problem).value
    assert model.solve().value == pytest.approx(truth, abs=CLOSE)
    assert replace(model, big=17.0, unit=None).solve().value == pytest.approx(truth, abs=CLOSE)
    assert replace(model, big=8.0).solve().value < truth - 0.01


def test_with_more_minimums_than_nodes_the_printed_model_has_no_answer_and_some_jobs_wait() -> None:
    problem = hu_problem(9, 7, seed=1, num_steps=2)
    assert paper_model(problem, tuple(SIZES.tolist()), least=1).solve().value == -np.inf
    answer = best_plans(problem)
    assert checked_value(problem, answer.option) > 0.0
    assert (answer.option[:, 0] == NO_OPTION).sum() >= 2


@pytest.mark.parametrize(("num_jobs", "num_nodes", "num_seeds"), [(20, 70, 3), (40, 150, 2), (100, 190, 1)])
def test_the_fast_path_certifies_a_small_gap(num_jobs: int, num_nodes: int, num_seeds: int) -> None:
    """The hard case: some jobs end within the horizon, most do not."""
    for seed in range(num_seeds):
        problem = hu_problem(num_jobs, num_nodes, seed)
        fast, exact = best_plans(problem), best_plans(problem, max_plans=MANY_PLANS)
        assert fast.gap_share <= 0.002
        assert exact.is_proven and fast.value - 1e-9 <= exact.value <= fast.bound + 1e-9


def test_jobs_that_cannot_end_are_divided_exactly_without_prices() -> None:
    """The steps do not concern each other, so one knapsack a step is the optimum."""
    problem = hu_problem(30, 70, seed=0, median_min=1000.0, spread=0.1)
    answer = best_plans(problem, max_prices=1)
    assert answer.is_proven and answer.value == pytest.approx(solve_one_hot(problem).value, abs=CLOSE)


def test_what_is_done_early_counts_in_every_step_after_it() -> None:
    """Formula (1) sums what is served so far: the order matters to it, and not to the end of the horizon."""
    first, second = [0.5], [0.25]
    gain = np.array(first + second)
    starts, devices = np.array([0, 1, 2]), np.array([1, 1])
    problem = HorizonProblem(starts, devices, gain, gain, *free(2), np.ones(3), 1)
    summed = best_plans(problem, max_plans=MANY_PLANS)
    assert summed.option.tolist() == [[0, 0, NO_OPTION], [NO_OPTION, NO_OPTION, 1]]
    assert summed.value == pytest.approx(0.5 + 1.0 + 1.0 + 0.25)
    ended = best_plans(problem._replace(weights=np.array([0.0, 0.0, 1.0])), max_plans=MANY_PLANS)
    assert ended.value == pytest.approx(1.25)


def test_a_step_that_begins_with_a_pause_makes_a_job_keep_what_it_has() -> None:
    starts, devices = np.array([0, 2]), np.array([1, 2])
    gain, paused = np.array([0.1, 0.15]), np.array([0.1, 0.05])
    costly = HorizonProblem(starts, devices, paused, gain, *free(1), np.ones(2), 2)
    assert best_plans(costly).option.tolist() == [[0, 1]]
    assert best_plans(costly._replace(first_gain=gain)).option.tolist() == [[1, 1]]


def test_a_job_that_would_lose_by_a_stop_goes_on() -> None:
    starts, devices, gain = np.array([0, 1, 2]), np.array([1, 1]), np.array([0.1, 0.12])
    problem = HorizonProblem(starts, devices, gain, gain, *free(2), np.ones(1), 1)
    assert best_plans(problem).option.tolist() == [[NO_OPTION], [1]]
    costly = problem._replace(first_gain_of_none=np.array([-0.05, 0.0]))
    assert best_plans(costly).option.tolist() == [[0], [NO_OPTION]]


def test_without_takers_options_or_devices_all_wait() -> None:
    nothing = np.zeros(0)
    none = best_plans(
        HorizonProblem(np.array([0]), nothing.astype(int), nothing, nothing, *free(0), np.ones(5), 4)
    )
    assert none.option.shape == (0, 5) and none.is_proven
    bare = best_plans(
        HorizonProblem(np.zeros(3, dtype=int), nothing.astype(int), nothing, nothing, *free(2), np.ones(5), 4)
    )
    assert (bare.option == NO_OPTION).all() and bare.value == 0.0
    full = hu_problem(3, 0, seed=0)
    assert (best_plans(full).option == NO_OPTION).all()


def test_a_limit_of_work_leaves_an_answer_and_says_that_it_is_not_proven() -> None:
    problem = hu_problem(20, 70, seed=0)
    little = best_plans(problem, max_prices=1)
    assert not little.is_proven and little.bound > little.value
    assert checked_value(problem, little.option) == pytest.approx(little.value)
    exact = best_plans(problem, max_plans=MANY_PLANS)
    assert little.value <= exact.value <= little.bound


def test_the_exact_search_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert best_plans(hu_problem(20, 70, seed=0), max_plans=MANY_PLANS).is_proven
    assert capfd.readouterr() == ("", "")


def test_machine_code_finds_the_same() -> None:
    for seed in range(20):
        problem = random_problem(seed, most_takers=6, most_steps=4)
        plain = best_plans(problem, max_prices=20)
        with from_rows(0):
            fast = best_plans(problem, max_prices=20)
        assert plain.option.tolist() == fast.option.tolist()
        assert (plain.value, plain.bound) == (fast.value, fast.bound)


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.0, 0.01, 0.1, 1.0]))
@settings(deadline=None)
def test_at_any_prices_each_taker_has_the_plan_that_is_worth_most(seed: int, scale: float) -> None:
    """With high prices, where most have nothing, too."""
    problem = random_problem(seed)
    problem = problem._replace(first_gain_of_none=np.zeros(problem.num_takers))
    table, weights = level_table(problem), problem.weights
    prices = scale * np.random.default_rng(seed).exponential(size=problem.num_steps)
    level = np.full((problem.num_takers, problem.num_steps), -1)
    worth = choose(pricing(table, weights), prices, level)
    rows = np.arange(problem.num_takers)
    paid = np.take_along_axis(table.devices, level, axis=1) @ prices
    values = values_of(table.first_gain, table.gain, table.most, rows, level, weights) - paid
    assert worth == pytest.approx(values.sum(), abs=1e-9)
    for row in rows:
        every = np.array(list(plans_of(table, int(row), problem.num_steps)))
        many = np.full(len(every), row)
        theirs = values_of(table.first_gain, table.gain, table.most, many, every, weights)
        assert values[row] == pytest.approx((theirs - table.devices[row][every] @ prices).max(), abs=1e-9)


def plans_of(table: LevelTable, row: int, num_steps: int) -> Iterator[tuple[int, ...]]:
    """All levels that a taker may have: at least the least until its demand is done."""
    for plan in product(range(table.num[row]), repeat=num_steps):
        done = table.gain[row, list(plan)]
        done[0] = table.first_gain[row, plan[0]]
        before = np.cumsum(done) - done
        if (np.array(plan) >= np.where(before < DONE, table.least[row], 0)).all():
            yield plan


def test_states_are_multisets() -> None:
    states = lattice(6, 5)
    counts = np.diff(states.begins, axis=1)
    assert counts[6].tolist() == [1, 6, 21, 56, 126] and counts[1].tolist() == [1] * 5
    root = states.begins[3, 0]
    one, other = states.following[root, 1], states.following[root, 2]
    assert states.following[one, 2] == states.following[other, 1]
