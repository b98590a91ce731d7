"""The one size of each job that a scheduler without elasticity knows: what was asked for."""

from __future__ import annotations

import numpy as np

from swell.model.snapshot import IntArray, Snapshot
from swell.policies.levels import Levels


def requested_levels(snapshot: Snapshot) -> Levels:
    """Levels of which each job has one at most, as (J, 1) columns.

    It is the largest size the job may have that is not above what was requested; if there is none, the
    smallest it may have. Sizes that do not fit on the devices that are there do not count. A size is
    given as asked for, even where a smaller one would be faster.
    """
    devices = snapshot.sizes[None, :] * snapshot.devices_per_worker[:, None]
    is_allowed = (snapshot.rate_per_s > 0) & (devices <= snapshot.num_devices)
    is_within = is_allowed & (snapshot.sizes[None, :] <= snapshot.requested_workers[:, None])
    last_within = len(snapshot.sizes) - 1 - np.argmax(is_within[:, ::-1], axis=1)
    column = np.where(is_within.any(axis=1), last_within, np.argmax(is_allowed, axis=1))
    num: IntArray = np.where(is_allowed.any(axis=1), 1, 0)
    workers = snapshot.sizes[column] * num
    rows = np.arange(snapshot.num_jobs)
    return Levels(
        workers=workers[:, None],
        devices=(workers * snapshot.devices_per_worker)[:, None],
        rates=(snapshot.rate_per_s[rows, column] * num)[:, None],
        num=num,
        held=np.where(snapshot.held_workers >= workers, num, 0),
    )
