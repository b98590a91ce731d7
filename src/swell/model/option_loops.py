"""Loops over the options of each job, which are compiled; see `options.Options`."""

from __future__ import annotations

from swell.arrays import FloatArray, IntArray

#: A rate that is not faster by this share is no faster: beliefs are not exact.
NO_FASTER_SHARE = 1e-9


def list_useful(
    starts: IntArray,
    ends: IntArray,
    sizes: IntArray,
    size_devices: IntArray,
    rate_per_s: FloatArray,
    table: IntArray,
    rates: FloatArray,
    num: IntArray,
) -> None:
    """Write the columns of `SizeOptions`; `table` holds the first three."""
    least_times = 1.0 + NO_FASTER_SHARE
    for row in range(len(num)):
        best_below = 0.0
        for at in range(starts[row], ends[row]):
            rate = rate_per_s[at]
            if rate <= best_below:
                continue
            is_useful = rate > best_below * least_times
            best_below = rate
            if not is_useful:
                continue
            level = num[row]
            table[0, row, level], table[1, row, level], table[2, row, level] = at, sizes[at], size_devices[at]
            rates[row, level] = rate
            num[row] += 1


def find(starts: IntArray, sizes: IntArray, workers: IntArray, chosen: IntArray) -> None:
    """Write the last option of each run that is no larger than `workers`."""
    for row in range(len(workers)):
        for option in range(starts[row], starts[row + 1]):
            if sizes[option] > workers[row]:
                break
            chosen[row] = option
