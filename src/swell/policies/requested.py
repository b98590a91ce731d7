"""The one size of each job that a scheduler without elasticity knows: what was asked for."""

from __future__ import annotations

import numpy as np

from swell.model.options import NO_OPTION, UsefulOptions
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels, levels_of


def requested_levels(snapshot: Snapshot) -> Levels:
    """Levels of which each job has one at most, as (J, 1) columns.

    It is the largest size the job may have that is not above what was requested; if there is none, the
    smallest it may have. A size is given as asked for, even where a smaller one would be faster.
    """
    options = snapshot.options
    asked = options.at(snapshot.requested_workers)
    has_any = options.num > 0
    chosen = np.where(asked == NO_OPTION, options.starts[:-1], asked)[has_any]
    option, workers, devices = np.zeros((3, snapshot.num_jobs, 1), dtype=np.int64)
    rates = np.zeros((snapshot.num_jobs, 1))
    option[has_any, 0], rates[has_any, 0] = chosen, options.rate_per_s[chosen]
    workers[has_any, 0], devices[has_any, 0] = options.workers[chosen], options.devices[chosen]
    return levels_of(snapshot, UsefulOptions(option, workers, devices, rates, has_any.astype(np.int64)))
