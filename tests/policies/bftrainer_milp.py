"""BFTrainer's integer program at the level of nodes, as printed but for what cannot be solved: an oracle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds
from tests.solvers.highs import Answer, Rows, solve

from swell.arrays import BoolArray, FloatArray


@dataclass(frozen=True, kw_only=True)
class NodeProblem:
    """J trainers, N nodes that are still there. A departed node is in no row of `held`."""

    held: BoolArray  #: (J, N) the present map (c_jn)
    least: tuple[int, ...]  #: (J,) Nmin
    most: tuple[int, ...]  #: (J,) Nmax
    metric: tuple[FloatArray, ...]  #: (J,) of (N + 1,): O_j(n), 0 where n is no size
    up_s: tuple[float, ...]
    down_s: tuple[float, ...]
    forward_s: float


def solve_nodes(
    problem: NodeProblem, big_m: float, gap_share: float = 1e-9, limit_s: float = np.inf
) -> Answer:
    """The objective of Eq. 16. O_j by a weight for each size, of which one is 1: no interpolation."""
    num_jobs, num_nodes = problem.held.shape
    x = np.arange(num_jobs * num_nodes).reshape(num_jobs, num_nodes)
    u = x + x.size
    w = 2 * x.size + np.arange(num_jobs * (num_nodes + 1)).reshape(num_jobs, num_nodes + 1)
    y, z, up, down = (2 * x.size + w.size + num_jobs * kind + np.arange(num_jobs) for kind in range(4))
    rows = Rows(num_columns=2 * x.size + w.size + 4 * num_jobs)
    for node in range(num_nodes):
        rows.add([(x[job, node], 1.0) for job in range(num_jobs)], 0, 1)  # (5)
    for job in range(num_jobs):
        size = [(column, 1.0) for column in x[job]]  # (2)
        present = int(problem.held[job].sum())  # (1)
        rows.add([*size, (y[job], big_m)], problem.least[job], np.inf)  # (4)
        rows.add([*size, (y[job], big_m)], -np.inf, big_m)
        rows.add(size, 0, problem.most[job])
        for node in range(num_nodes):  # (9)
            has = int(problem.held[job, node])
            rows.add([(u[job, node], 1.0), (x[job, node], -1.0)], -has, has)
            rows.add([(u[job, node], 1.0), (x[job, node], 1.0)], has, 2 - has)
        moved = [(column, -1.0) for column in u[job]]
        rows.add([*size, *moved, (z[job], big_m)], present, np.inf)  # (10)
        rows.add([*size, *((column, 1.0) for column in u[job]), (z[job], big_m)], -np.inf, present + big_m)
        rows.add([(column, 1.0) for column in w[job]], 1, 1)  # (11)
        sizes = [(column, float(number)) for number, column in enumerate(w[job])]
        rows.add([*sizes, *((column, -1.0) for column in x[job])], 0, 0)
        rows.add([*size, (up[job], -(big_m - present))], -np.inf, present)  # (15)
        rows.add([*size, (up[job], -(present + 1.0))], 0, np.inf)
        rows.add([*size, (down[job], big_m - present + 1.0)], -np.inf, big_m)
        rows.add([*size, (down[job], float(present))], present, np.inf)
    cost, most = np.zeros(rows.num_columns), np.ones(rows.num_columns)
    for job in range(num_jobs):
        now = problem.metric[job][int(problem.held[job].sum())]
        most[w[job, problem.most[job] + 1 :]] = 0
        cost[w[job]] = -problem.forward_s * problem.metric[job]  # (12), (16)
        cost[up[job]], cost[down[job]] = now * problem.up_s[job], now * problem.down_s[job]  # (13), (14)
    is_whole = np.ones(rows.num_columns)
    return solve(cost, [rows.constraint()], Bounds(0, most), is_whole, gap_share, limit_s)
