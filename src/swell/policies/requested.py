"""The one size of each job that a scheduler without elasticity knows: what was asked for."""

from __future__ import annotations

import numpy as np

from swell.compiled import suited
from swell.model.snapshot import FloatArray, IntArray, Snapshot
from swell.policies.levels import Levels


def requested_levels(snapshot: Snapshot) -> Levels:
    """Levels of which each job has one at most, as (J, 1) columns.

    It is the largest size the job may have that is not above what was requested; if there is none, the
    smallest it may have. Sizes that do not fit on the devices that are there do not count. A size is
    given as asked for, even where a smaller one would be faster.
    """
    num_jobs = snapshot.num_jobs
    workers, devices = np.zeros((2, num_jobs, 1), dtype=np.int64)
    num, held = np.zeros((2, num_jobs), dtype=np.int64)
    levels = Levels(workers=workers, devices=devices, rates=np.zeros((num_jobs, 1)), num=num, held=held)
    suited(_list_requested, num_jobs)(
        snapshot.sizes,
        snapshot.rate_per_s,
        snapshot.devices_per_worker,
        snapshot.requested_workers,
        snapshot.held_workers,
        snapshot.num_devices,
        (levels.workers, levels.devices, levels.rates, levels.num, levels.held),
    )
    return levels


def _list_requested(
    sizes: IntArray,
    rate_per_s: FloatArray,
    devices_per_worker: IntArray,
    requested_workers: IntArray,
    held_workers: IntArray,
    num_devices: int,
    columns: tuple[IntArray, IntArray, FloatArray, IntArray, IntArray],
) -> None:
    """Write the columns of `Levels`."""
    workers, devices, rates, num, held = columns
    for row in range(len(rate_per_s)):
        for column in range(len(sizes)):
            size, rate = sizes[column], rate_per_s[row, column]
            if size * devices_per_worker[row] > num_devices:
                break
            if rate <= 0.0 or (num[row] == 1 and size > requested_workers[row]):
                continue
            workers[row, 0], rates[row, 0], num[row] = size, rate, 1
            devices[row, 0] = size * devices_per_worker[row]
        if num[row] == 1 and held_workers[row] >= workers[row, 0]:
            held[row] = 1
