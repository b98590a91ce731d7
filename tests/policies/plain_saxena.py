"""Algorithm 1 of Saxena et al. as its text means it: the plain dynamic program over jobs and devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

#: Devices -> scaling factor.
Factors = Mapping[int, float]


def optimize(
    jobs: Sequence[Factors], num_devices: int, k_max: int, impossible: float = -math.inf
) -> tuple[float, list[int]]:
    """The highest sum of factors with a device for each job, and devices of each; (-inf, []): infeasible.

    What is wrong in print: `RECALL(E(j), k)` is of g devices; `P(j-1, k-g+1)` is `P(j-1, k-g)`, of a table
    with a column 0; `SOL = k` is g; j is lowered before `SOL(j, k)` is read; "a large negative number" is
    -inf, and feasible is what is above it.
    """
    best = [[0.0] * (num_devices + 1)]  # P(0, :) = 0: at most so many devices
    chosen: list[list[int]] = []
    for factors in jobs:
        row, choice = [-math.inf] * (num_devices + 1), [0] * (num_devices + 1)
        for k in range(1, num_devices + 1):
            for g in range(1, min(k_max, k) + 1):
                p = factors.get(g, impossible) + best[-1][k - g]
                if p > row[k]:
                    row[k], choice[k] = p, g
        best.append(row)
        chosen.append(choice)
    if best[-1][num_devices] == -math.inf:
        return -math.inf, []
    k, sizes = num_devices, []
    for choice in reversed(chosen):
        sizes.append(choice[k])
        k -= choice[k]
    return best[-1][num_devices], sizes[::-1]


def optimize_as_printed(jobs: Sequence[Factors], num_devices: int, k_max: int) -> list[int]:
    """The same as printed, in a table that is large enough for its indices."""
    num_jobs, low = len(jobs), -1e9
    best = [[0.0] * (num_devices + 2)] + [[low] * (num_devices + 2) for _ in range(num_jobs)]
    chosen = [[0] * (num_devices + 1) for _ in range(num_jobs + 1)]
    for j in range(1, num_jobs + 1):
        for k in range(1, num_devices + 1):
            for g in range(1, k_max + 1):
                if k - g >= 0:
                    p = jobs[j - 1].get(k, low) + best[j - 1][k - g + 1]
                    if p > best[j][k]:
                        best[j][k], chosen[j][k] = p, k
    sizes, k = [0] * num_jobs, num_devices
    for j in range(num_jobs, 0, -1):
        sizes[j - 1] = chosen[j][max(k, 0)]
        k -= chosen[j - 1][max(k, 0)]
    return sizes
