"""How many deadlines could be met at most by somebody who knew all jobs beforehand."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from swell.arrays import FloatArray
from swell.model.errors import InvalidInput
from swell.sim.job import SimJob

#: Elementary operations that a bound may take: so many moments of a log are told apart.
MOST_OPERATIONS = 1.2e10
#: Of a log of any length so many moments are told apart at least.
LEAST_MOMENTS = 256


def offline_bound(jobs: Collection[SimJob], num_devices: int) -> float | None:
    """`most_deadlines` as a share of those there are; None if there are none.

    Raises InvalidInput: the batch of a job is open, and so it is not known how fast the job could be.
    """
    if any(job.batches is not None for job in jobs):
        raise InvalidInput(
            "--bound is for jobs of one batch, and profiles leave that of some open; leave --bound out"
        )
    num_facing = sum(job.spec.deadline_s is not None for job in jobs)
    return most_deadlines(jobs, num_devices) / num_facing if num_facing else None


def most_deadlines(jobs: Iterable[SimJob], num_devices: int) -> int:
    """An upper bound on the deadlines that any schedule meets, over jobs that have one.

    Devices can be divided at will, jobs be stopped and started for nothing, parts of jobs count as parts, and
    each job needs the fewest device-seconds that do its work within its window. What this leaves out makes
    the bound too high, never too low. Where a log has more submissions and deadlines than are told apart
    (`num_moments`), windows are widened to moments that are, which makes it higher.
    """
    facing = [job for job in jobs if job.spec.deadline_s is not None]
    needs: FloatArray = np.array([least_device_s(job, num_devices) for job in facing], dtype=float)
    able = np.isfinite(needs)
    begins_s = np.array([job.submit_s for job in facing], dtype=float)[able]
    ends_s = np.array([job.spec.deadline_s for job in facing], dtype=float)[able]
    num_most = num_moments(int(able.sum()))
    return sum(
        most_done(begins_s[part], ends_s[part], needs[able][part], num_devices, num_most)
        for part in _apart(begins_s, ends_s)
    )


def num_moments(num_jobs: int) -> int:
    """Moments that are told apart of a stretch of a log of so many jobs."""
    return max(LEAST_MOMENTS, int(math.sqrt(3.0 * MOST_OPERATIONS / max(num_jobs, 1))))


def _apart(begins_s: FloatArray, ends_s: FloatArray) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Jobs of each stretch of time whose windows no other's overlap."""
    order = np.argsort(begins_s, kind="stable")
    latest_s = np.maximum.accumulate(ends_s[order])
    cuts = np.flatnonzero(begins_s[order][1:] >= latest_s[:-1]) + 1
    return (part for part in np.split(order, cuts) if len(part))


def most_done(
    begins_s: FloatArray, ends_s: FloatArray, needs: FloatArray, num_devices: int, num_moments: int
) -> int:
    """The most jobs, parts counted as parts, that can be done within their windows.

    What can be given to jobs is a polymatroid: all windows within an interval together get no more than it
    has. So the cheapest job first, as much of it as fits beside those before, is the optimum of the linear
    program (Edmonds 1970).

    Args:
        num_moments: beginnings and ends of intervals at most; windows are widened to them.
    """
    moments_s = np.unique(np.concatenate([begins_s, ends_s]))
    if len(moments_s) > num_moments:
        moments_s = moments_s[np.linspace(0, len(moments_s) - 1, num_moments).round().astype(np.int64)]
    first = np.searchsorted(moments_s, begins_s, side="right") - 1
    last = np.searchsorted(moments_s, ends_s, side="left")
    #: (M, M) what the interval from one moment to the other has left.
    free = num_devices * (moments_s[None, :] - moments_s[:, None])
    num_done = 0.0
    for at in np.argsort(needs, kind="stable").tolist():
        around = free[: first[at] + 1, last[at] :]
        given = min(float(needs[at]), float(around.min()))
        if given > 0.0:
            around -= given
            num_done += given / float(needs[at])
    return int(num_done + 1e-6)


def least_device_s(job: SimJob, num_devices: int) -> float:
    """The fewest device-seconds in which the job ends by its deadline, were the cluster its own.

    By the concave hull of its speeds, so no mixture of sizes needs fewer. Returns inf if it cannot.
    """
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
