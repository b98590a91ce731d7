"""Whether jobs can all be done in time where changes cost nothing, told exactly by a linear program."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog
from tests.policies.snapshots import Job

#: More than a job that is done this many times over is of no interest.
MOST = 10.0


def most_work(jobs: Sequence[Job], num_devices: int) -> float:
    """The largest factor by which the steps of all jobs can be multiplied, and still be done in time.

    Between two deadlines it does not matter when a size is had, only for how long. So the variables are the
    times for which each combination of sizes that fits on the devices is had between two deadlines. There are
    exponentially many.

    Args:
        jobs: of which nothing runs, whose starts and resizes take no time.
    """
    ends_s = sorted({job.deadline for job in jobs})
    speeds, spans = list[tuple[float, ...]](), list[int]()
    for span, end_s in enumerate(ends_s):
        found = {_speeds(jobs, sizes, end_s) for sizes in _combinations(jobs, num_devices)}
        speeds += sorted(found)
        spans += [span] * len(found)
    lengths_s, is_in = np.diff([0.0, *ends_s]), np.arange(len(ends_s))[:, None] == np.array(spans)
    steps = np.array([job.steps for job in jobs])
    done = np.hstack([-np.array(speeds).T, steps[:, None]])  # factor * steps <= sum of speed * time
    times = np.hstack([is_in, np.zeros((len(ends_s), 1))])  # sum of times <= length
    best = linprog(
        np.append(np.zeros(len(spans)), -1.0),
        A_ub=np.vstack([done, times]),
        b_ub=np.concatenate([np.zeros(len(jobs)), lengths_s]),
        bounds=[(0.0, None)] * len(spans) + [(0.0, MOST)],
    )
    return -float(best.fun)


def _combinations(jobs: Sequence[Job], num_devices: int) -> list[tuple[int, ...]]:
    sizes = [[0, *job.rates] for job in jobs]
    return [chosen for chosen in itertools.product(*sizes) if _devices(jobs, chosen) <= num_devices]


def _devices(jobs: Sequence[Job], sizes: Sequence[int]) -> int:
    return sum(job.devices_per_worker * size for job, size in zip(jobs, sizes, strict=True))


def _speeds(jobs: Sequence[Job], sizes: Sequence[int], end_s: float) -> tuple[float, ...]:
    """Of each job until `end_s`; none of one whose deadline is over by then."""
    return tuple(
        job.rates[size] if size and job.deadline >= end_s else 0.0
        for job, size in zip(jobs, sizes, strict=True)
    )
