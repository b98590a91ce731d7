"""Hu's rolling horizon, beside HiGHS on the paper's own model and on the one-hot formulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from tests.solvers.highs import Answer
from tests.solvers.horizons import SIZES, STEP_MIN, PaperModel, hu_problem, solve_one_hot, speed

from benchmarks.solvers.measured import Rival, Row, cpu_ms, rival_of
from swell.solvers.horizon.problem import BestPlans, HorizonProblem
from swell.solvers.horizon.solve import best_plans

#: Jobs, nodes; demands are lognormal, so that some jobs end within the horizon: the hard case.
SIZES_OF_PROBLEMS = ((20, 70), (40, 150), (60, 190), (100, 190))
#: Of HiGHS's search in the exact path.
MAX_PLANS = 10_000
#: To which HiGHS solves both models.
RIVAL_GAP_SHARE = 1e-4


def hu_rows(num_instances: int, num_rival: int, limit_s: float) -> Iterator[Row]:
    for num_jobs, num_nodes in SIZES_OF_PROBLEMS:
        some = [hu_problem(num_jobs, num_nodes, seed) for seed in range(num_instances)]
        size = f"{num_jobs} jobs, {num_nodes} nodes"
        printed, one_hot = (
            rival_of(
                f"HiGHS, {model}, gap {RIVAL_GAP_SHARE:g}",
                (partial(solve, problem, RIVAL_GAP_SHARE, limit_s) for problem in some[:num_rival]),
            )
            for model, solve in (("paper's model", _solve_printed), ("one-hot", solve_one_hot))
        )
        yield from _both_paths("Hu, T=5", size, some, printed, one_hot)
        bound = [problem._replace(is_bound=np.ones(num_jobs, dtype=bool)) for problem in some]
        yield from _both_paths("Hu, T=5, minimums", size, bound, Rival(), Rival())


def _both_paths(
    problem: str, size: str, some: Sequence[HorizonProblem], printed: Rival, one_hot: Rival
) -> Iterator[Row]:
    fast = [_timed(partial(best_plans, one)) for one in some]
    exact = [_timed(partial(best_plans, one, max_plans=MAX_PLANS)) for one in some]
    gaps = [best.value / found.value - 1.0 for (best, _), (found, _) in zip(exact, fast, strict=True)]
    largest = max(found.gap_share for found, _ in fast)
    yield Row(
        problem=problem,
        size=size,
        ours="kernel, fast path",
        ours_ms=tuple(spent_ms for _, spent_ms in fast),
        values=tuple(found.value for found, _ in fast),
        rival=printed,
        proof=f"certified gap <= {largest:.2%}, true gap <= {max(gaps):.2%}",
    )
    yield Row(
        problem=problem,
        size=size,
        ours="kernel, exact path",
        ours_ms=tuple(spent_ms for _, spent_ms in exact),
        values=tuple(best.value for best, _ in exact),
        rival=one_hot,
        proof=f"{sum(best.is_proven for best, _ in exact)} of {len(exact)} proven",
    )


def _timed(solve: Callable[[], BestPlans]) -> tuple[BestPlans, float]:
    """Once warm."""
    solve()
    return cpu_ms(solve)


def _solve_printed(problem: HorizonProblem, gap_share: float, limit_s: float) -> Answer:
    """As printed, but with a size of 0: jobs may wait."""
    demand = STEP_MIN * speed(SIZES[:1]) / problem.gain[problem.starts[:-1]]
    sizes = (0, *SIZES.tolist())
    model = PaperModel(demand, sizes, problem.num_devices, problem.num_steps, STEP_MIN, least=0)
    return model.solve(gap_share, limit_s)
