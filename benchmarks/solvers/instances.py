"""Seeded instances of the multiple-choice knapsack as the papers have it."""

from __future__ import annotations

import numpy as np
from tests.solvers.plain_knapsack import Knapsack

from swell.arrays import FloatArray, IntArray


def saxena(num_jobs: int, num_devices: int, most: int, seed: int) -> Knapsack:
    """Throughput scaling factors (Saxena et al., eqs. 1-3): no all-reduce on one device, steps of ceil(b/k).

    Half of the jobs lose a part of each device to communication, half have a fixed batch in addition.
    """
    draw, sizes = np.random.default_rng(seed), np.arange(1, most + 1)
    values = []
    for _ in range(num_jobs):
        slowed = np.where(sizes > 1, draw.uniform(0.02, 0.6) * (1.0 + 0.1 * np.log2(sizes)), 0.0)
        batch = 256 if draw.random() < 0.5 else 256 * sizes
        values.append(batch / 256 / (np.ceil(batch / sizes) / 256 + slowed))
    return _even(values, sizes, np.full(num_jobs, -np.inf), num_devices)


def concave(num_jobs: int, num_devices: int, most: int, seed: int) -> Knapsack:
    """Powers of the size."""
    draw, sizes = np.random.default_rng(seed), np.arange(1, most + 1)
    values = [
        np.power(sizes, draw.uniform(0.3, 1.0)) * float(draw.uniform(0.5, 2.0)) for _ in range(num_jobs)
    ]
    return _even(values, sizes, np.full(num_jobs, -np.inf), num_devices)


def _even(values: list[FloatArray], sizes: IntArray, nothing: FloatArray, num_devices: int) -> Knapsack:
    """All have the same sizes."""
    return Knapsack(
        starts=np.arange(len(values) + 1) * len(sizes),
        devices=np.tile(sizes, len(values)),
        value=np.concatenate(values),
        nothing=nothing,
        num_devices=num_devices,
    )
