"""Who gains most from what is left."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import numpy as np

from swell.solvers.arrays import FloatArray, IntArray

#: Returns closer than this are a tie, which `rank` and `held` break: rounding must not move devices.
NUM_DIGITS = 9


def boost(
    level: IntArray,
    devices: IntArray,
    rates: FloatArray,
    num_levels: IntArray,
    price: FloatArray,
    held: IntArray,
    rank: IntArray,
    left: int,
) -> tuple[IntArray, int]:
    """Raise takers one level at a time, the largest return per device first, while `left` lasts.

    Args:
        level: (J,) to start from; 0 is nothing.
        devices, rates: (J, L) of levels 1, 2, ...; the first `num_levels` of a row count.
        price: (J,) device-seconds that one unit of work costs later, at the taker's filling level.
        held: (J,) the level a taker has now: among equals those come first that only return to it.
        rank: (J,) breaks the remaining ties, lowest first.

    Returns: the levels, and the devices that nobody could use.

    A return depends on the taker's own level only, so none goes stale in the heap; and `left` only
    falls, so a step that does not fit never will.

    References: ElasticFlow, section 4.2, Algorithm 2.
    Deviates: one size a step, not one device; the saving in later slots (lines 7-9 and 20-22, which
        fill again) in closed form: the extra work done now times its price.
    """
    level = level.copy()

    def entry(row: int) -> tuple[float, bool, int, int, int]:
        step = int(devices[row, level[row]]) - _devices_of(row, level, devices)
        faster = rates[row, level[row]] - (rates[row, level[row] - 1] if level[row] else 0.0)
        gain = (faster * price[row] - step) / step  # line 9: sum a_i - sum x_i, per device
        return -round(float(gain), NUM_DIGITS), level[row] >= held[row], int(rank[row]), row, step

    queue = [entry(row) for row in range(len(level)) if level[row] < num_levels[row]]
    heapq.heapify(queue)
    while left > 0 and queue:  # line 12
        *_, row, step = heapq.heappop(queue)  # line 14
        if step > left:
            continue
        level[row] += 1  # lines 16-17
        left -= step  # line 18
        if level[row] < num_levels[row]:  # line 23: a higher level always ends sooner
            heapq.heappush(queue, entry(row))  # lines 19-24
    return level, left


def raise_in_order(
    level: IntArray, devices: IntArray, num_levels: IntArray, rows: Iterable[int], most: int, left: int
) -> int:
    """Raise `rows`, in this order, as far as `left` allows and to level `most` at the highest.

    Changes `level` (J,) in place; returns what is left.
    """
    for row in rows:
        current = _devices_of(row, level, devices)
        fits = np.flatnonzero(devices[row, : min(most, int(num_levels[row]))] <= left + current)
        if len(fits) and fits[-1] + 1 > level[row]:
            level[row] = fits[-1] + 1
            left -= int(devices[row, fits[-1]]) - current
    return left


def _devices_of(row: int, level: IntArray, devices: IntArray) -> int:
    return int(devices[row, level[row] - 1]) if level[row] else 0
