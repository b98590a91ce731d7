"""Upper concave hulls of value curves, of which the linear relaxation of a knapsack is made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import suited


class Hulls(NamedTuple):
    """The corners of each taker's hull by ascending size, from its least to its most valuable one."""

    starts: IntArray  #: (J,) a taker's corners are those from starts[row] to ends[row]
    ends: IntArray  #: (J,)
    option: IntArray  #: (C,) of each corner; -1: no option
    devices: IntArray  #: (C,)
    slope: FloatArray  #: (C,) value a device from the corner before, > 0, descending; inf at the first one


def upper_hulls(starts: IntArray, devices: IntArray, value: FloatArray, nothing: FloatArray) -> Hulls | None:
    """None if a taker that must have an option has none. Arguments are those of `best_options`."""
    num = len(nothing)
    first, ends = starts[:-1] + np.arange(num), np.zeros(num, dtype=np.int64)
    corners = np.zeros((2, len(devices) + num), dtype=np.int64)
    slope, height = np.zeros(corners.shape[1]), np.zeros(corners.shape[1])
    run = suited(_list_corners, len(devices))
    if not run(starts, devices, value, nothing, first, ends, corners, slope, height):
        return None
    return Hulls(first, ends, corners[0], corners[1], slope)


def _list_corners(
    starts: IntArray,
    devices: IntArray,
    value: FloatArray,
    nothing: FloatArray,
    first: IntArray,
    ends: IntArray,
    corners: IntArray,
    slope: FloatArray,
    height: FloatArray,
) -> bool:
    """Write the corners from `first[row]` on, and where they end; False if a taker has none.

    Andrew's monotone chain, 1979, which needs points in order of their size.
    """
    for row in range(len(nothing)):
        begin = end = first[row]
        if nothing[row] > -np.inf:
            corners[0, end], corners[1, end], slope[end], height[end] = -1, 0, np.inf, nothing[row]
            end += 1
        for option in range(starts[row], starts[row + 1]):
            if value[option] == -np.inf:
                continue
            rise = np.inf
            while end > begin:
                rise = (value[option] - height[end - 1]) / (devices[option] - corners[1, end - 1])
                if rise <= slope[end - 1]:  # on one line: steps of one device fill better
                    break
                end -= 1
            if end > begin and rise <= 0.0:
                continue
            corners[0, end], corners[1, end] = option, devices[option]
            slope[end], height[end] = rise, value[option]
            end += 1
        if end == begin:
            return False
        ends[row] = end
    return True
