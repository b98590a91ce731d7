"""Saxena's division of devices and filed knapsacks, beside the plain dynamic program and HiGHS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.solvers.plain_knapsack import Knapsack, highs_value, plain_value

from benchmarks.solvers.instances import Instance, concave, read_instances, saxena
from benchmarks.solvers.measured import Row, cpu_ms
from swell.solvers.knapsack import Best, best_options

Rival = Callable[[Knapsack], float]

#: Jobs, devices, the most of a job.
SIZES = ((40, 400, 10), (200, 400, 10), (350, 400, 10), (2000, 10_000, 64))
#: Beyond so many options HiGHS takes minutes; the plain dynamic program stands in.
MOST_OPTIONS_OF_HIGHS = 10_000


def saxena_rows(num_instances: int, num_rival: int) -> Iterator[Row]:
    for num_jobs, num_devices, most in SIZES:
        for name, draw in (("Saxena", saxena), ("Saxena, concave", concave)):
            some = [draw(num_jobs, num_devices, most, seed) for seed in range(num_instances)]
            size = f"J={num_jobs:,} K={num_devices:,} kmax={most}"
            yield row_of(name, size, some, "plain DP (numpy)", plain_value, num_rival)
            if num_jobs * most <= MOST_OPTIONS_OF_HIGHS:
                yield row_of(name, size, some, "HiGHS, counts", highs_value, num_rival)


def filed_rows(file: Path, num_rival: int) -> Iterator[Row]:
    some = list(read_instances(file))
    yield row_of(file.name, "as filed", some, "HiGHS, counts", highs_value, num_rival)


def row_of(
    problem: str, size: str, some: Sequence[Instance], rival: str, solve: Rival, num_rival: int
) -> Row:
    """Measure ours on all instances, the rival on the first."""
    answers = [timed(instance) for instance in some]
    solved = [Knapsack(*instance.arguments) for instance in some[:num_rival]]
    rivals = [cpu_ms(partial(solve, knapsack)) for knapsack in solved]
    pairs = zip(answers, rivals, strict=False)
    gaps = [abs(best.value - value) / max(abs(value), 1e-12) for (best, _), (value, _) in pairs]
    proven = sum(best.is_proven for best, _ in answers)
    return Row(
        problem=problem,
        size=size,
        ours="kernel",
        ours_ms=tuple(spent_ms for _, spent_ms in answers),
        rival=rival,
        rival_ms=tuple(spent_ms for _, spent_ms in rivals),
        agree=f"{proven} proven; within {max(gaps, default=0.0):.0e}",
    )


def timed(instance: Instance) -> tuple[Best, float]:
    """The kernel, once warm."""
    best_options(*instance.arguments)
    return cpu_ms(lambda: best_options(*instance.arguments))
