"""Cores that this process may use: the machine's, or what its control groups leave of them.

Batch systems and containers set such limits. The group of a process and each one around it may have some, and
the smallest holds. Here, too: whether the kernel has just killed a process for lack of memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from swell.wire.group_places import MACHINE, UNIFIED, GroupFiles, group_places

#: The kernel's default. A gang that has used up its quota stands still until the next one begins.
PERIOD_US = 100_000
#: The kernel takes no less.
LEAST_QUOTA_US = 1_000
#: Files with a limit, by controller.
CPU_FILES = {UNIFIED: ("cpu.max",), "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us")}


def cpu_limit(files: GroupFiles = MACHINE) -> float:
    """Cores by affinity and by limits of CPU time, which may be parts of one."""
    return min([float(len(os.sched_getaffinity(0))), *_quotas(files)])


def available_cores(files: GroupFiles = MACHINE) -> int:
    """Whole cores; at least 1."""
    return max(1, math.floor(cpu_limit(files)))


def confine(cores: float | None) -> None:
    """Keep this process, and all that it starts, to the first `cores` of the cores that it may use.

    None: no change. Call it before there are other threads.
    """
    if cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])


def quota_us(share: float, cores: float | None) -> int:
    """CPU time of each period for a share of these cores; None: all that this process may use.

    Rounded down: version 1 takes no quota of a group above that of the one it lies in.
    """
    return max(LEAST_QUOTA_US, math.floor(share * (cores or cpu_limit()) * PERIOD_US))


def num_kills_for_memory(counters: Path = Path("/proc/vmstat")) -> int:
    """Processes that this machine's kernel has killed for lack of memory; 0 if it does not count them."""
    try:
        lines = counters.read_text().splitlines()
    except OSError:  # a sandbox hides them
        return 0
    return sum(int(number) for name, number in map(str.split, lines) if name == "oom_kill")


class MemoryKills:
    """Tells whether the kernel has just killed a process for lack of memory. It does not say which one."""

    def __init__(self, num_kills: Callable[[], int] = num_kills_for_memory) -> None:
        self._num_kills = num_kills
        self._num_taken = self._num_latest = num_kills()

    def forget(self) -> None:
        """Time has passed: kills before the last call of this one are no longer of now."""
        self._num_taken, self._num_latest = max(self._num_taken, self._num_latest), self._num_kills()

    def take_kill(self) -> bool:
        """Whether there was one that has not been taken."""
        is_any = self._num_kills() > self._num_taken
        self._num_taken += is_any
        return is_any


def _quotas(files: GroupFiles) -> Iterator[float]:
    """Cores of each group that has a limit: not `max`, nor a negative one, nor what cannot be read."""
    try:
        places = group_places(files)
    except OSError:  # a sandbox hides them
        return
    for controller, place in places.items():
        for folder in place.folders if controller in CPU_FILES else ():
            try:
                words = " ".join(files.read(folder / name) for name in CPU_FILES[controller]).split()
            except OSError:  # the topmost group has no such file, or the controller is not handed down
                continue
            if words and words[0] != "max" and int(words[0]) >= 0:
                yield int(words[0]) / int(words[1])
