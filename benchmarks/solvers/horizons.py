"""Hu's rolling horizon, beside HiGHS on the paper's own model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from tests.solvers.highs import Answer
from tests.solvers.horizons import SIZES, STEP_MIN, PaperModel, hu_problem, speed

from benchmarks.solvers.measured import Rival, Row, cpu_ms, rival_of
from swell.solvers.horizon import HorizonProblem, best_plans

#: Jobs, nodes; demands are lognormal, so that some jobs end within the horizon: the hard case.
SIZES_OF_PROBLEMS = ((20, 70), (40, 150), (60, 190), (100, 190))
#: To which HiGHS solves that model.
RIVAL_GAP_SHARE = 1e-4


def hu_rows(num_instances: int, num_rival: int, limit_s: float) -> Iterator[Row]:
    for num_jobs, num_nodes in SIZES_OF_PROBLEMS:
        some = [hu_problem(num_jobs, num_nodes, seed) for seed in range(num_instances)]
        size = f"{num_jobs} jobs, {num_nodes} nodes"
        calls = (partial(_solve_printed, problem, limit_s) for problem in some[:num_rival])
        rival = rival_of(f"HiGHS, paper's model, gap {RIVAL_GAP_SHARE:g}", calls)
        yield _row("Hu, T=5", size, some, rival)
        bound = [problem._replace(is_bound=np.ones(num_jobs, dtype=bool)) for problem in some]
        yield _row("Hu, T=5, minimums", size, bound, Rival())


def _row(problem: str, size: str, some: Sequence[HorizonProblem], rival: Rival) -> Row:
    answers = [cpu_ms(partial(best_plans, one)) for one in some]
    return Row(
        problem=problem,
        size=size,
        ours="kernel",
        ours_ms=tuple(spent_ms for _, spent_ms in answers),
        values=tuple(best.value for best, _ in answers),
        rival=rival,
        proof=f"{sum(best.is_proven for best, _ in answers)} proven",
    )


def _solve_printed(problem: HorizonProblem, limit_s: float) -> Answer:
    """As printed, but with a size of 0: jobs may wait."""
    demand = STEP_MIN * speed(SIZES[:1]) / problem.gain[problem.starts[:-1]]
    sizes = (0, *SIZES.tolist())
    model = PaperModel(demand, sizes, problem.num_devices, problem.num_steps, STEP_MIN, least=0)
    return model.solve(RIVAL_GAP_SHARE, limit_s)
