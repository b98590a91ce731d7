"""The fewest device-seconds in which a job can be done by its deadline, were the cluster its own."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.sim.job import SimJob
from swell.sim.profiles.batch_truth import BatchTruth

#: Halvings of what a second of the window is worth in device-seconds: 1e-9 of it is left in the end.
NUM_HALVINGS = 60


def least_device_s(job: SimJob, num_devices: int) -> float:
    """The fewest in which the job ends by its deadline, alone on the cluster; inf if it cannot.

    By the concave hull of its speeds, so no mixture of sizes needs fewer. A job whose batch is open has at
    each size and in each epoch the best batch that it allows, and changes it for nothing.
    """
    spec = job.spec
    window_s = (spec.deadline_s or math.inf) - job.submit_s
    most = min(spec.max_workers or num_devices, num_devices // spec.devices_per_worker)
    workers = np.arange(spec.min_workers, most + 1)
    if not len(workers) or window_s <= 0:
        return math.inf
    devices = (workers * spec.devices_per_worker).astype(np.float64)
    rates: FloatArray = np.array([job.speed.rate_per_s(size) for size in workers.tolist()])
    if isinstance(job.batches, BatchTruth):
        rates = np.maximum(_best(job, job.batches, workers), rates)
        return _of_epochs(job.batches.epoch_steps(job.num_steps), devices, rates, window_s)
    return _of_one_speed(job.num_steps, devices, rates, window_s)


def _of_one_speed(num_steps: int, devices: FloatArray, rates: FloatArray, window_s: float) -> float:
    devices, rates = _hull(devices, rates)
    wanted_per_s = num_steps / window_s
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


def _best(job: SimJob, truth: BatchTruth, workers: IntArray) -> FloatArray:
    """(E, W) steps/s of the own batch, at the best batch that the job may have."""
    factors = np.array([job.speed.factor(size) for size in workers.tolist()])
    rates: FloatArray = _best_rates(truth, tuple(workers.tolist())) * factors
    return rates


@lru_cache(maxsize=256)
def _best_rates(truth: BatchTruth, workers: tuple[int, ...]) -> FloatArray:
    return truth.best_rates(workers)


def _of_epochs(steps: FloatArray, devices: FloatArray, rates: FloatArray, window_s: float) -> float:
    """Time is bought at a price: of devices held for so long, the cheapest size of each epoch is taken.

    What a price says the job needs is never too much, whatever the price (weak duality); at the best one, it
    is what the job needs. The lower the price, the longer it takes.

    Args:
        steps: (E,) of each epoch.
        devices: (W,) of each size.
        rates: (E, W) steps/s; 0 where a size is not possible.
    """
    time_s = steps[:, None] / np.where(rates > 0.0, rates, 1e-300)
    if float(time_s.min(axis=1).sum()) > window_s * (1.0 + 1e-9):
        return math.inf
    epochs, least = np.arange(len(steps)), 0.0

    def taken_s(price: float) -> float:
        """How long it takes; notes what the price says."""
        nonlocal least
        costs = time_s * (devices + price)
        chosen = costs.argmin(axis=1)
        least = max(least, float(costs[epochs, chosen].sum()) - price * window_s)
        return float(time_s[epochs, chosen].sum())

    low, high = 0.0, 1.0
    if taken_s(low) <= window_s:
        return least
    while taken_s(high) > window_s and high < 1e12:
        low, high = high, 4.0 * high
    for _ in range(NUM_HALVINGS):
        price = 0.5 * (low + high)
        low, high = (price, high) if taken_s(price) > window_s else (low, price)
    return least
