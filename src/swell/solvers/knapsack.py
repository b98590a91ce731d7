"""Exactly the best sizes of many takers at once, where what each gains depends on its own size only."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, IntArray


def least_cost(devices: IntArray, cost: FloatArray, num_levels: IntArray, num_devices: int) -> IntArray:
    """(J,) the level of each taker with which the sum of costs is the least that the devices allow.

    The multiple-choice knapsack problem, by dynamic programming over takers and devices: exact, whatever the
    costs. Where two answers cost the same, earlier takers get the lower levels.

    Args:
        devices: (J, L) of levels 1, 2, ..., whole numbers > 0; the first `num_levels` of a row count.
        cost: (J, L + 1) of levels 0, 1, 2, ...; finite.

    Complexity: O(J N L) for N devices; memory O(J N).

    References: Kellerer, Pferschy, Pisinger, "Knapsack Problems", 2004, section 11.5.
    """
    total = np.zeros(
        num_devices + 1
    )  # (N + 1,) least cost of the takers so far with so many devices or fewer
    offers = np.arange(num_devices + 1)
    # Levels are few, takers and devices may be many.
    chosen = np.zeros((len(devices), num_devices + 1), dtype=np.min_scalar_type(devices.shape[1]))
    for row in range(len(devices)):
        takes = np.concatenate([[0], devices[row, : num_levels[row]]])
        fitting = np.flatnonzero(takes <= num_devices)
        padded = np.concatenate([np.full(num_devices, np.inf), total])
        left = num_devices + offers[None, :] - takes[fitting, None]
        sums = padded[left] + cost[row, fitting, None]
        best = np.argmin(sums, axis=0)
        chosen[row], total = fitting[best], sums[best, offers]
    return _followed_back(devices, chosen, num_devices)


def _followed_back(devices: IntArray, chosen: IntArray, num_devices: int) -> IntArray:
    """The levels that led to the last taker's best."""
    level = np.zeros(len(devices), dtype=np.int64)
    left = num_devices
    for row in range(len(devices) - 1, -1, -1):
        level[row] = chosen[row, left]
        if level[row] > 0:
            left -= int(devices[row, level[row] - 1])
    return level
