"""When does each of several tasks end, if the first ones in a fixed order always take what they can use?"""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import suited


def ends_in_order(
    devices: IntArray,
    rates: FloatArray,
    num_levels: IntArray,
    work: FloatArray,
    rows: IntArray,
    num_devices: int,
) -> FloatArray:
    """Ends in seconds from now of `rows`: in this order each has the highest of its sizes that fits.

    Sizes are dealt out anew whenever a task ends, so a later task never delays an earlier one. One that
    fits nowhere ends at infinity.

    Args:
        devices, rates: (J, L) of levels 1, 2, ...; the first `num_levels` (J,) of a row count.
        work: (J,) left to do.

    Complexity: O(n^2 L) for n rows.
    """
    ends_s = np.full(len(rows), np.inf)
    suited(_run, len(rows))(devices, rates, num_levels, work[rows], rows, num_devices, ends_s)
    return ends_s


def _run(
    devices: IntArray,
    rates: FloatArray,
    num_levels: IntArray,
    left: FloatArray,
    rows: IntArray,
    num_devices: int,
    ends_s: FloatArray,
) -> None:
    rate, clock_s = np.zeros(len(rows)), 0.0
    while True:
        free, step_s = num_devices, np.inf
        for place in range(len(rows)):
            if ends_s[place] < np.inf:
                continue
            rate[place] = 0.0
            for level in range(num_levels[rows[place]], 0, -1):
                if devices[rows[place], level - 1] <= free:
                    free -= devices[rows[place], level - 1]
                    rate[place] = rates[rows[place], level - 1]
                    step_s = min(step_s, left[place] / rate[place])
                    break
        if step_s == np.inf:
            return
        clock_s += step_s
        for place in range(len(rows)):
            if ends_s[place] == np.inf and rate[place] > 0.0:
                if left[place] / rate[place] <= step_s:
                    ends_s[place] = clock_s
                left[place] -= rate[place] * step_s
