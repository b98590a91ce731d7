"""What one more step a second is worth to a job without a deadline, and what a change of its size costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray, each
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels

#: Exponents of speed-up over devices are taken to be between these.
LEAST_EXPONENT, MOST_EXPONENT = 0.05, 0.95

#: (n,) >= 0 for rows (n,) in order of service, which can run: factors of the device-seconds that a step at
#: the smallest size takes. The largest is 1, so no job comes before one that has a promise by its factor.
Factors = Callable[[Snapshot, Levels, IntArray], FloatArray]


class Gain(NamedTuple):
    factors: Factors
    told: str  #: which jobs come first, as a part of a sentence
    starts_first: bool = False  #: each job gets its smallest size before any grows
    brief_s: float = 0.0  #: jobs that end sooner get it before soft ones, which wait no longer for each


def completion(snapshot: Snapshot, levels: Levels, rows: IntArray) -> FloatArray:
    """Low mean completion time: the shorter the job that is left, the more devices it has.

    Of n jobs whose speed-up on k devices is k ** p, the i-th from the longest has the share
    `(i / n) ** (1 / (1 - p)) - ((i - 1) / n) ** (1 / (1 - p))` of all devices in the optimum. Factors to the
    power 1 - p of that lead to these shares. Here p is the mean of the exponents of the jobs' own curves.

    References: Berg, Vesilo and Harchol-Balter, "heSRPT: Parallel Scheduling to Minimize Mean Slowdown",
        Performance Evaluation 144, 2020 (of mean completion time).
    """
    flatness = 1.0 - _exponent(levels, rows)
    ends = each(lambda end: math.pow(end, 1.0 / flatness), np.arange(len(rows) + 1) / len(rows))
    share = np.diff(ends)[::-1]
    return each(lambda part: math.pow(part, flatness), share / share[0])


def throughput(snapshot: Snapshot, levels: Levels, rows: IntArray) -> FloatArray:
    """A high sum of speed-ups over the smallest size: Saxena et al., equation (1)."""
    return np.ones(len(rows))


def queueing(snapshot: Snapshot, levels: Levels, rows: IntArray) -> FloatArray:
    """Short waits, as Hu et al. measure them: all jobs start first, then the sum of speed-ups counts."""
    return throughput(snapshot, levels, rows)


def samples(snapshot: Snapshot, levels: Levels, rows: IntArray) -> FloatArray:
    """Many samples a second of all jobs: BFTrainer, section 5.2.1."""
    per_device = levels.rates[rows, 0] * snapshot.samples_per_step[rows] / levels.devices[rows, 0]
    factor: FloatArray = per_device / per_device.max()
    return factor


GAINS: Mapping[str, Gain] = {
    "completion": Gain(completion, "jobs that end sooner", brief_s=60.0),
    "throughput": Gain(throughput, "jobs that gain more speed for each device"),
    "queueing": Gain(queueing, "jobs that end sooner", starts_first=True),
    "samples": Gain(samples, "jobs with more samples a second for each device"),
}


def charge_changes(
    worth: FloatArray, price: FloatArray, snapshot: Snapshot, levels: Levels, rows: IntArray
) -> None:
    """Take what a change costs from all levels but the held one of running jobs.

    A change to n takes R(n) seconds from training at the held speed, O(C), and lasts for T_fwd seconds: a
    second at n is worth O(n) - O(C) R(n) / T_fwd. T_fwd is the time for which workers have stayed with the
    job so far, which the head measures; where nodes are reclaimed often it is short.

    Args:
        worth: (J, L + 1) of levels 0, 1, 2, ...; changed.
        price: (J,) what a step is worth.
        rows: (n,) jobs that are charged.

    References: Liu et al., BFTrainer, 2021, section 3.4, equations 13 to 16.
    Deviates: T_fwd is each job's own and measured, where BFTrainer has one for all that is given.
    """
    rows = rows[levels.held[rows] > 0]
    if not len(rows):
        return
    held = levels.held[rows]
    now = levels.rates[rows, held - 1] * price[rows] / snapshot.expected_hold_s[rows]  # O_j(C_j) / T_fwd
    to = np.arange(worth.shape[1])[None, :]
    shrink, growth = now * snapshot.shrink_cost_s[rows], now * snapshot.growth_cost_s[rows]  # Eq. 13
    worth[rows] -= np.where(to < held[:, None], shrink[:, None], 0.0)
    worth[rows] -= np.where(to > held[:, None], growth[:, None], 0.0)


def _exponent(levels: Levels, rows: IntArray) -> float:
    """p where speed-up on k devices is k ** p, from the smallest to the largest size of each job."""
    has_several = rows[levels.num[rows] > 1]
    if not len(has_several):
        return LEAST_EXPONENT
    top = levels.num[has_several] - 1
    faster = levels.rates[has_several, top] / levels.rates[has_several, 0]
    larger = levels.devices[has_several, top] / levels.devices[has_several, 0]
    mean = float(np.mean(each(math.log, faster) / each(math.log, larger)))
    return min(max(mean, LEAST_EXPONENT), MOST_EXPONENT)
