"""What an all-reduce takes longer because its workers are on several hosts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from swell.arrays import FloatArray, IntArray, each

#: Hosts -> workers -> seconds more than on one host.
Crossing = Mapping[int, Mapping[int, float]]
NO_CROSSING: Crossing = MappingProxyType({})


def crossing_s(workers: IntArray, hosts: IntArray, measured: Crossing) -> FloatArray:
    """Seconds more than on one host, for workers and hosts of one shape; 0 on one host, or if not measured.

    Hosts between two measured numbers are taken for the smaller one, so that what is not known makes a gang
    too fast and not too slow: a report corrects it as soon as there is such a gang. Workers between measured
    ones are on a line in log2(workers); beyond them it takes as long as at the nearest one.
    """
    extra_s = np.zeros(workers.shape)
    for num_hosts in np.unique(hosts[hosts > 1]).tolist():
        if points := _nearest(measured, num_hosts):
            levels = each(math.log2, np.array(sorted(points)))
            times_s = np.array([points[size] for size in sorted(points)])
            is_here = hosts == num_hosts
            extra_s[is_here] = np.interp(each(math.log2, workers[is_here]), levels, times_s)
    return extra_s


def _nearest(measured: Crossing, num_hosts: int) -> Mapping[int, float]:
    """Measured times for the largest number of hosts up to `num_hosts`, else for the smallest number."""
    known = sorted(num for num in measured if measured[num])
    if not known:
        return {}
    below = [num for num in known if num <= num_hosts]
    return measured[below[-1] if below else known[0]]
