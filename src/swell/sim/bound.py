"""How many deadlines could be met at most by somebody who knew all jobs beforehand."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from swell.arrays import FloatArray
from swell.sim.job import SimJob
from swell.sim.several import Several

#: The program has a variable for each job and stretch between two submissions or deadlines of its window.
MOST_JOBS = 1_000


def offline_bound(jobs: Several[SimJob], num_devices: int) -> float | None:
    """`most_deadlines` as a share of those there are; None if there are none."""
    num_facing = sum(job.spec.deadline_s is not None for job in jobs)
    return most_deadlines(jobs, num_devices) / num_facing if num_facing else None


def most_deadlines(jobs: Iterable[SimJob], num_devices: int) -> int:
    """An upper bound on the deadlines that any schedule meets, over jobs that have one.

    A linear program: devices can be divided at will, jobs be stopped and started for nothing, and each job
    needs the fewest device-seconds that do its work within its window (by the concave hull of its speeds,
    so no mixture of sizes needs fewer). What it leaves out makes it too high, never too low.

    Args:
        jobs: at most MOST_JOBS with a deadline.

    Raises:
        ValueError: more than that.
    """
    facing = [job for job in jobs if job.spec.deadline_s is not None]
    if len(facing) > MOST_JOBS:
        raise ValueError(
            f"a bound is worked out for at most {MOST_JOBS:,} deadlines; here are {len(facing):,}"
        )
    needs = [least_device_s(job, num_devices) for job in facing]
    able = [(job, need) for job, need in zip(facing, needs, strict=True) if math.isfinite(need)]
    if not able:
        return 0
    begins_s = np.array([job.submit_s for job, _ in able])
    ends_s = np.array([job.spec.deadline_s for job, _ in able], dtype=float)
    return _solve(begins_s, ends_s, np.array([need for _, need in able]), num_devices)


def least_device_s(job: SimJob, num_devices: int) -> float:
    """The fewest in which the job ends by its deadline, alone on the cluster; inf if it cannot."""
    spec = job.spec
    window_s = (spec.deadline_s or math.inf) - job.submit_s
    most = min(spec.max_workers or num_devices, num_devices // spec.devices_per_worker)
    workers = np.arange(spec.min_workers, most + 1)
    if not len(workers) or window_s <= 0:
        return math.inf
    rates: FloatArray = np.array([job.speed.rate_per_s(size) for size in workers.tolist()])
    devices, rates = _hull((workers * spec.devices_per_worker).astype(np.float64), rates)
    wanted_per_s = job.num_steps / window_s
    if wanted_per_s > rates[-1] * (1.0 + 1e-9):
        return math.inf
    return float(np.interp(wanted_per_s, rates, devices)) * window_s


def _hull(devices: FloatArray, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The concave hull of speed over devices, from nothing up to the peak."""
    kept = [(0.0, 0.0)]
    for point in zip(devices.tolist(), rates.tolist(), strict=True):
        if point[1] <= kept[-1][1]:
            continue
        while len(kept) > 1 and _is_below(kept[-2], kept[-1], point):
            kept.pop()
        kept.append(point)
    hull = np.array(kept)
    return hull[:, 0], hull[:, 1]


def _is_below(left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]) -> bool:
    rise = (middle[1] - left[1]) * (right[0] - left[0])
    return rise <= (right[1] - left[1]) * (middle[0] - left[0])


def _solve(begins_s: FloatArray, ends_s: FloatArray, needs: FloatArray, num_devices: int) -> int:
    """The most jobs that can be done: x_ik is the share of job i that is done in stretch k of its window.

    Maximise the sum of all x_ik, where sum_k x_ik <= 1 and sum_i need_i x_ik <= devices x length of k.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    edges_s = np.unique(np.concatenate([begins_s, ends_s]))
    capacity = num_devices * np.diff(edges_s)
    first, last = np.searchsorted(edges_s, begins_s), np.searchsorted(edges_s, ends_s)
    job = np.repeat(np.arange(len(needs)), last - first)
    stretch = np.concatenate([np.arange(*window) for window in zip(first, last, strict=True)])
    column = np.arange(len(job))
    limits = coo_array(
        (
            np.concatenate([np.ones(len(job)), needs[job] / capacity[stretch]]),
            (np.concatenate([job, len(needs) + stretch]), np.concatenate([column, column])),
        ),
        shape=(len(needs) + len(capacity), len(job)),
    )
    answer = linprog(-np.ones(len(job)), A_ub=limits.tocsr(), b_ub=np.ones(limits.shape[0]), method="highs")
    return int(-answer.fun + 1e-6)
