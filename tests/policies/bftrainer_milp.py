"""BFTrainer's integer program at the level of nodes, as printed but for what cannot be solved: an oracle."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from swell.arrays import BoolArray, FloatArray

#: Status of SciPy's `milp`: the time was over.
AT_LIMIT = 1


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


@dataclass
class _Rows:
    """Constraints that are being collected: low <= row @ x <= high."""

    num_columns: int
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def add(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        row = len(self.low)
        self.entries += [(row, column, factor) for column, factor in terms]
        self.low.append(low)
        self.high.append(high)

    def constraint(self) -> LinearConstraint:
        rows, columns, factors = zip(*self.entries, strict=True)
        shape = (len(self.low), self.num_columns)
        return LinearConstraint(csr_array((factors, (rows, columns)), shape=shape), self.low, self.high)


def solve_nodes(
    problem: NodeProblem, big_m: float, gap_share: float = 1e-9, limit_s: float = np.inf
) -> tuple[float, BoolArray]:
    """(objective of Eq. 16, map). O_j by a weight for each size, of which one is 1: no interpolation.

    Args:
        limit_s: after which the best map so far will do.

    Raises:
        RuntimeError: the solver came to no optimum, or to no map within the limit.
    """
    num_jobs, num_nodes = problem.held.shape
    x = np.arange(num_jobs * num_nodes).reshape(num_jobs, num_nodes)
    u = x + x.size
    w = 2 * x.size + np.arange(num_jobs * (num_nodes + 1)).reshape(num_jobs, num_nodes + 1)
    y, z, up, down = (2 * x.size + w.size + num_jobs * kind + np.arange(num_jobs) for kind in range(4))
    rows = _Rows(num_columns=2 * x.size + w.size + 4 * num_jobs)
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
    found = milp(
        cost,
        constraints=rows.constraint(),
        bounds=Bounds(0, most),
        integrality=np.ones(rows.num_columns),
        options={"mip_rel_gap": gap_share, "time_limit": limit_s},
    )
    if found.status != 0 and (found.status != AT_LIMIT or found.x is None):
        raise RuntimeError(found.message)
    given: BoolArray = np.round(found.x[x]).astype(bool)
    return -float(found.fun), given
