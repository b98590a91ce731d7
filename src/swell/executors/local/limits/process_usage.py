"""What the processes of a gang use, as psutil reads it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psutil

from swell.model.usage import GangUsage

#: How /proc answers for a process that is gone, or about to be.
GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


class ProcessSums(NamedTuple):
    """Usage of a process, and of those of its children that have ended and that it has waited for."""

    cpu_s: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0

    def plus(self, other: ProcessSums) -> ProcessSums:
        """Return the sum of both."""
        return ProcessSums(
            self.cpu_s + other.cpu_s,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
        )


class ProcessUsage:
    """Sums over the processes of a gang. Of one that has ended counts what was read of it last."""

    def __init__(self) -> None:
        self._live: dict[int, ProcessSums] = {}
        self._ended = ProcessSums()
        self._cpu_s = 0.0

    def read(self, pids: Iterable[int], started: Iterable[int] = ()) -> GangUsage:
        """Read what has been used so far.

        Args:
            pids: processes that live.
            started: their children. A process that has waited for a child counts it once that has ended.
        """
        memory_bytes, live, total = 0, {}, self._ended
        for pid, is_own in [*((pid, True) for pid in pids), *((pid, False) for pid in started)]:
            try:
                sums, resident = _read(pid)
            except psutil.Error:
                continue
            memory_bytes += resident
            total = total.plus(sums)
            if is_own:
                live[pid] = sums
        for pid in self._live.keys() - live.keys():
            self._ended = self._ended.plus(self._live[pid])
            total = total.plus(self._live[pid])
        self._live = live
        self._cpu_s = max(self._cpu_s, total.cpu_s)  # a child that is not waited for is lost with its end
        return GangUsage(
            cpu_s=self._cpu_s,
            memory_bytes=memory_bytes,
            read_bytes=total.read_bytes,
            written_bytes=total.written_bytes,
        )


def _read(pid: int) -> tuple[ProcessSums, int]:
    """Return what a process has used, and the bytes that are resident. Raises psutil.Error: it is gone."""
    process = psutil.Process(pid)
    with process.oneshot():
        times, resident = process.cpu_times(), process.memory_info().rss
        try:
            moved = process.io_counters()
        except psutil.AccessDenied:  # of a process that this one may not look into
            return ProcessSums(sum(times[:4])), resident
    return ProcessSums(sum(times[:4]), moved.read_bytes, moved.write_bytes), resident


def started_by(pids: Iterable[int]) -> list[int]:
    """Live children of these processes, their children, and so on, as long as no other adopts them.

    psutil looks at every process of the machine for that.
    """
    found, unseen = [], list(pids)
    while unseen:
        children = _children(unseen.pop())
        found += children
        unseen += children
    return found


def _children(pid: int) -> list[int]:
    """The kernel lists them by the thread that has started them."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except GONE:
        return []
    found: list[int] = []
    for thread in threads:
        try:
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
        except GONE:
            continue
    return found
