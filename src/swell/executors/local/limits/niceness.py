"""Without control groups: shares as niceness, which each process has by itself; and measuring alone."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable

import msgspec

from swell.executors.local.limits.network_usage import ConnectionTable, NetworkUsage
from swell.executors.local.limits.process_usage import ProcessUsage, started_by
from swell.model.share_mode import FULL_SHARE
from swell.model.usage import GangUsage

#: A process gets so much more time than one that is nicer by 1, see sched(7).
STEP = 1.25
NICEST = 19


def niceness(share: float) -> int:
    """0 to 19, of a share in (0, 1]. The nicest has about 1/69 of the time of one at 0."""
    return min(NICEST, round(math.log(1 / share) / math.log(STEP)))


class NiceProcesses:
    """See `limiter.Limiter`. What several processes of a gang have is not divided among them."""

    name = "nice"

    def __init__(self, lack: str = "") -> None:
        self.lack = lack
        self._connections = ConnectionTable()

    def group(self, name: str) -> NiceGroup:
        return NiceGroup(_set_niceness, NetworkUsage(self._connections))

    def close(self) -> None:
        """Niceness ends with its process."""


class MeasuredProcesses:
    """See `limiter.Limiter`: limits nothing."""

    name, lack = "off", ""

    def __init__(self) -> None:
        self._connections = ConnectionTable()

    def group(self, name: str) -> NiceGroup:
        return NiceGroup(lambda pid, share: None, NetworkUsage(self._connections))

    def close(self) -> None:
        """There is nothing to end."""


class NiceGroup:
    """See `limiter.GangGroup`. `apply`: gives a process, and all of its process group, a share."""

    entries: tuple[str, ...] = ()

    def __init__(self, apply: Callable[[int, float], None], network: NetworkUsage) -> None:
        self._apply = apply
        self._network = network
        self._share = FULL_SHARE
        self._pids: set[int] = set()
        self._usage = ProcessUsage()

    def set_share(self, share: float) -> None:
        """Raises OSError: the share would rise, which this user may not let it. Nothing has changed then."""
        for pid in self._pids:
            self._apply(pid, share)
        self._share = share

    def limit_memory(self, num_bytes: int) -> None:
        raise OSError("without control groups a gang's memory cannot be limited")

    def add(self, pid: int) -> None:
        self._pids.add(pid)
        self._apply(pid, self._share)

    def keep(self, pids: Iterable[int]) -> None:
        wanted = set(pids)
        strangers = wanted - self._pids
        self._pids = wanted
        for pid in strangers:
            self._apply(pid, self._share)

    def usage(self) -> GangUsage:
        used = self._usage.read(self._pids)
        received, sent = self._network.read([*self._pids, *started_by(self._pids)])
        return msgspec.structs.replace(used, received_bytes=received, sent_bytes=sent)

    def num_killed(self) -> int:
        return 0

    def close(self) -> None:
        self._pids.clear()


def _set_niceness(pid: int, share: float) -> None:
    """Set the niceness of a worker by its CPU share. A worker that is gone is no error.

    The worker leads a process group, and all threads of that group get it.
    """
    try:
        os.setpriority(os.PRIO_PGRP, pid, min(NICEST, OWN_NICENESS + niceness(share)))
    except ProcessLookupError:
        pass
    except PermissionError as error:
        raise PermissionError(
            f"a CPU share cannot rise again: lowering the niceness of a process needs CAP_SYS_NICE ({error})"
        ) from error


#: What a share of 1 has.
OWN_NICENESS = os.getpriority(os.PRIO_PROCESS, 0)
