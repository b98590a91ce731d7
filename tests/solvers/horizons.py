"""Rolling-horizon problems for tests and benchmarks, and general solvers of models of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.optimize import Bounds
from tests.solvers.highs import Answer, Rows, solve

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.solvers.horizon import DONE, HorizonProblem
from swell.solvers.knapsack import NO_OPTION

#: Nodes a job may have in the paper's example (section 4.3), and minutes of a time step (section 5.1).
SIZES = 2 ** np.arange(5)
STEP_MIN = 5.0


def speed(nodes: IntArray) -> FloatArray:
    """k 0.8^log2(k) (Figure 6)."""
    return nodes * 0.8 ** np.log2(nodes)


def hu_problem(
    num_jobs: int,
    num_nodes: int,
    seed: int,
    median_min: float = 60.0,
    spread: float = 1.3,
    num_steps: int = 5,
) -> HorizonProblem:
    """Jobs whose remaining times on one node are lognormal: some end within the horizon, most do not."""
    demand = np.exp(np.random.default_rng(seed).normal(np.log(median_min), spread, num_jobs))
    gain = (STEP_MIN * speed(SIZES)[None, :] / demand[:, None]).ravel()
    starts = len(SIZES) * np.arange(num_jobs + 1)
    return HorizonProblem(
        starts, np.tile(SIZES, num_jobs), gain, free(num_jobs), np.ones(num_steps), num_nodes
    )


def free(num_takers: int) -> BoolArray:
    """Every taker may wait."""
    return np.zeros(num_takers, dtype=bool)


def random_problem(seed: int, most_takers: int = 4, most_steps: int = 3) -> HorizonProblem:
    """Any curves: with holes, falling ones, none at all; odd weights."""
    draw = np.random.default_rng(seed)
    num = int(draw.integers(0, most_takers + 1))
    sizes, gain = [], []
    for _ in range(num):
        some = np.sort(draw.choice(np.arange(1, 9), int(draw.integers(0, 4)), replace=False))
        done = draw.exponential(size=len(some)) * draw.choice([0.05, 0.3, 1.0])
        if draw.random() < 0.7:
            done = np.sort(done)
        if draw.random() < 0.2:
            done = np.round(done, 1)
        sizes.append(some)
        gain.append(done)
    weights = np.ones(int(draw.integers(1, most_steps + 1)))
    kind = draw.random()
    if kind < 0.3:
        weights[:-1] = 0.0
    elif kind < 0.5:
        weights = draw.exponential(size=len(weights))
    num_devices, left = int(draw.integers(0, 13)), 13 * int(draw.integers(0, 2))
    is_bound = np.zeros(num, dtype=bool)
    left = min(left, num_devices)
    for row, some in enumerate(sizes):
        if len(some) and some[0] <= left and draw.random() < 0.7:
            is_bound[row], left = True, left - int(some[0])
    return HorizonProblem(
        starts=np.cumsum([0, *map(len, sizes)]),
        devices=np.concatenate([*sizes, np.empty(0)]).astype(np.int64),
        gain=np.concatenate([*gain, np.empty(0)]),
        is_bound=is_bound,
        weights=weights,
        num_devices=num_devices,
    )


def checked_value(problem: HorizonProblem, option: IntArray) -> float:
    """What (J, T) options are worth, by the definition. Raises AssertionError if they may not be."""
    total, used = 0.0, np.zeros(problem.num_steps, dtype=np.int64)
    for row, plan in enumerate(option.tolist()):
        done = 0.0
        for step, one in enumerate(plan):
            if one == NO_OPTION:
                assert not problem.is_bound[row] or done >= DONE
            else:
                assert problem.starts[row] <= one < problem.starts[row + 1]
                used[step] += problem.devices[one]
                done += float(problem.gain[one])
            total += float(problem.weights[step]) * min(done, 1.0) * _worth(problem, row)
    assert (used <= problem.num_devices).all()
    return total


def _worth(problem: HorizonProblem, row: int) -> float:
    return 1.0 if problem.worth is None else float(problem.worth[row])


def brute_value(problem: HorizonProblem) -> float:
    """The best of all answers."""

    def plans(row: int) -> Iterator[tuple[int, ...]]:
        options = [NO_OPTION, *range(int(problem.starts[row]), int(problem.starts[row + 1]))]
        return product(options, repeat=problem.num_steps)

    def takes(plan: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(0 if one == NO_OPTION else int(problem.devices[one]) for one in plan)

    best = {(problem.num_devices,) * problem.num_steps: 0.0}
    for row in range(problem.num_takers):
        alone: dict[tuple[int, ...], float] = {}
        for plan in plans(row):
            value = _value_alone(problem, row, plan)
            alone[takes(plan)] = max(value, alone.get(takes(plan), -np.inf))
        later: dict[tuple[int, ...], float] = {}
        for left, so_far in best.items():
            for taken, value in alone.items():
                rest = tuple(had - one for had, one in zip(left, taken, strict=True))
                if min(rest) >= 0:
                    later[rest] = max(later.get(rest, -np.inf), so_far + value)
        best = later
    return max(best.values())


def _value_alone(problem: HorizonProblem, row: int, plan: tuple[int, ...]) -> float:
    total, done = 0.0, 0.0
    for step, one in enumerate(plan):
        if one == NO_OPTION:
            if problem.is_bound[row] and done < DONE:
                return -np.inf
        else:
            done += float(problem.gain[one])
        total += float(problem.weights[step]) * min(done, 1.0)
    return total


@dataclass(frozen=True)
class PaperModel:
    """Section 4.4 of Hu et al. as printed: n, delta-, delta+, constraints (5), (6) and (15)-(20).

    Args:
        demand: (I,) d_i.
        sizes: K, the legal numbers of nodes; with 0, jobs may wait, as they may not in print.
        least: n_min of each job.
        big: M; None: the smallest that suffices.
        unit: the 1/M of constraints (16) and (17): how far n and k differ if they do. They are whole
            numbers, so 1 is right, too, and tight. None: 1/M as printed.
    """

    demand: FloatArray
    sizes: tuple[int, ...]
    num_nodes: int
    num_steps: int
    step: float
    least: int = 1
    big: float | None = None
    unit: float | None = 1.0

    def solve(self, gap_share: float = 1e-7, limit_s: float = np.inf) -> Answer:
        """By HiGHS."""
        num_sizes = len(self.sizes)
        block = 2 + 2 * num_sizes  # n, s, delta-, delta+ of a job and step
        rows = Rows(len(self.demand) * self.num_steps * block)
        big = float(max(self.sizes)) + 1.0 if self.big is None else self.big
        unit = 1.0 / big if self.unit is None else self.unit
        cost, is_whole, most = np.zeros((3, rows.num_columns))
        for step in range(self.num_steps):
            nodes = [(step * len(self.demand) + job) * block for job in range(len(self.demand))]
            rows.add([(n, 1.0) for n in nodes], -np.inf, self.num_nodes)  # (6)
            for n, demand in zip(nodes, self.demand.tolist(), strict=True):
                served, minus = n + 1, n + 2
                plus = minus + num_sizes
                cost[served], most[served] = -1.0 / demand, demand  # (1), (2)
                most[n] = max(self.sizes)  # (5)
                most[minus : plus + num_sizes] = 1.0
                is_whole[n] = is_whole[minus : plus + num_sizes] = 1.0
                rows.add([(n, 1.0)], self.least, np.inf)  # (15)
                for index, size in enumerate(self.sizes):  # (16), (17)
                    for column, sign in ((minus + index, 1.0), (plus + index, -1.0)):
                        rows.add([(n, sign), (column, big)], -np.inf, big + sign * size)
                        rows.add([(n, sign), (column, unit + big)], unit + sign * size, np.inf)
                pairs = [(column, 1.0) for column in range(minus, plus + num_sizes)]
                rows.add(pairs, num_sizes + 1, num_sizes + 1)  # (18)
                speeds = [self.step * float(speed(np.array([k]))[0]) if k else 0.0 for k in self.sizes]
                served_more = [(minus + at, -one) for at, one in enumerate(speeds)]
                served_more += [(plus + at, -one) for at, one in enumerate(speeds)]
                before = [(served - len(self.demand) * block, -1.0)] if step else []
                rows.add([(served, 1.0), *before, *served_more], -np.inf, -sum(speeds))  # (19), (20)
        return solve(cost, [rows.constraint()], Bounds(0.0, most), is_whole, gap_share, limit_s)
