"""The one size of each job that a scheduler without elasticity knows: what was asked for."""

from __future__ import annotations

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import suited
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels, costs_of_options


def requested_levels(snapshot: Snapshot) -> Levels:
    """Levels of which each job has one at most, as (J, 1) columns.

    It is the largest size the job may have that is not above what was requested; if there is none, the
    smallest it may have. A size is given as asked for, even where a smaller one would be faster.
    """
    options, num_jobs = snapshot.options, snapshot.num_jobs
    option, workers, devices = np.zeros((3, num_jobs, 1), dtype=np.int64)
    num, held = np.zeros((2, num_jobs), dtype=np.int64)
    levels = Levels(
        option,
        workers,
        devices,
        np.zeros((num_jobs, 1)),
        num,
        held,
        *costs_of_options(snapshot),
    )
    suited(_list_requested, num_jobs)(
        options.starts,
        options.workers,
        options.devices,
        options.rate_per_s,
        snapshot.requested_workers,
        snapshot.held_workers,
        (levels.option, levels.workers, levels.devices, levels.rates, levels.num, levels.held),
    )
    return levels


def _list_requested(
    starts: IntArray,
    sizes: IntArray,
    size_devices: IntArray,
    rate_per_s: FloatArray,
    requested_workers: IntArray,
    held_workers: IntArray,
    columns: tuple[IntArray, IntArray, IntArray, FloatArray, IntArray, IntArray],
) -> None:
    """Write the columns of `Levels`."""
    option, workers, devices, rates, num, held = columns
    for row in range(len(num)):
        for at in range(starts[row], starts[row + 1]):
            if num[row] == 1 and sizes[at] > requested_workers[row]:
                break
            option[row, 0], workers[row, 0], devices[row, 0] = at, sizes[at], size_devices[at]
            rates[row, 0], num[row] = rate_per_s[at], 1
        if num[row] == 1 and held_workers[row] >= workers[row, 0]:
            held[row] = 1
