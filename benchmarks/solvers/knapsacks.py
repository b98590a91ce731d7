"""Saxena's division of devices, beside the plain dynamic program and HiGHS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tests.solvers.highs import Answer
from tests.solvers.plain_knapsack import Knapsack, plain_value, solve_by_highs

from benchmarks.solvers.instances import concave, saxena
from benchmarks.solvers.measured import Row, cpu_ms, rival_of
from swell.solvers.knapsack import Best, best_options

GeneralSolver = Callable[[Knapsack], Answer]

#: Jobs, devices, the most of a job.
SIZES = ((40, 400, 10), (200, 400, 10), (350, 400, 10), (2000, 10_000, 64))
#: Beyond so many options HiGHS takes minutes; the plain dynamic program stands in.
MOST_OPTIONS_OF_HIGHS = 10_000


def saxena_rows(num_instances: int, num_rival: int, limit_s: float) -> Iterator[Row]:
    for num_jobs, num_devices, most in SIZES:
        for name, draw in (("Saxena", saxena), ("Saxena, concave", concave)):
            some = [draw(num_jobs, num_devices, most, seed) for seed in range(num_instances)]
            size = f"J={num_jobs:,} K={num_devices:,} kmax={most}"
            yield row_of(name, size, some, "plain DP (numpy)", _plainly, num_rival)
            if num_jobs * most <= MOST_OPTIONS_OF_HIGHS:
                yield row_of(name, size, some, "HiGHS, counts", _by_highs(limit_s), num_rival)


def _plainly(knapsack: Knapsack) -> Answer:
    return Answer(plain_value(knapsack))


def _by_highs(limit_s: float) -> GeneralSolver:
    return partial(solve_by_highs, limit_s=limit_s)


def row_of(
    problem: str, size: str, some: Sequence[Knapsack], rival: str, solve: GeneralSolver, num_rival: int
) -> Row:
    """Measure ours on all instances, the rival on the first."""
    answers = [timed(instance) for instance in some]
    return Row(
        problem=problem,
        size=size,
        ours="kernel",
        ours_ms=tuple(spent_ms for _, spent_ms in answers),
        values=tuple(best.value for best, _ in answers),
        rival=rival_of(rival, (partial(solve, knapsack) for knapsack in some[:num_rival])),
    )


def timed(instance: Knapsack) -> tuple[Best, float]:
    """The kernel, once warm."""
    best_options(*instance.arguments)
    return cpu_ms(lambda: best_options(*instance.arguments))
