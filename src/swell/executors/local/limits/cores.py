"""Cores: how many there are, keeping to some of them, and hard limits of CPU time."""

from __future__ import annotations

import math
import os

from swell.executors.local.limits.allocation import cpu_limit

#: The kernel's default. A gang that has used up its quota stands still until the next one begins.
PERIOD_US = 100_000
#: The kernel takes no less.
LEAST_QUOTA_US = 1_000
#: No smaller part of a core can be a limit.
LEAST_CORES = LEAST_QUOTA_US / PERIOD_US


def confine(cores: float | None) -> None:
    """Keep this process, and all that it starts, to the first `cores` of the cores that it may use.

    A part of a core counts as a whole one. None: no change. Call it before there are other threads.
    """
    if cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: math.ceil(cores)])


def is_part(cores: float | None) -> bool:
    """Whether some core is to be used in part, which needs a hard limit."""
    return cores is not None and cores != int(cores)


def quota_us(share: float, cores: float | None) -> int:
    """CPU time of each period for a share of these cores; None: all that this process may use.

    Rounded down: version 1 takes no quota of a group above that of the one it lies in.
    """
    return max(LEAST_QUOTA_US, math.floor(share * (cores or cpu_limit()) * PERIOD_US))
