"""What processes use, read from /proc: for gangs that have no control group."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from swell.model.usage import GangUsage

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: How /proc answers for a process that is gone, or about to be.
GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True, slots=True)
class ProcessSums:
    """Usage of a process, and of those of its children that have ended and that it has waited for."""

    cpu_s: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0

    def plus(self, other: ProcessSums) -> ProcessSums:
        return ProcessSums(
            self.cpu_s + other.cpu_s,
            self.read_bytes + other.read_bytes,
            self.written_bytes + other.written_bytes,
        )


class ProcessUsage:
    """Sums over workers and what they have started. Of one that has ended counts what was read of it last."""

    def __init__(self) -> None:
        self._workers: dict[int, ProcessSums] = {}
        self._ended = ProcessSums()
        self._cpu_s = 0.0

    def read(self, pids: Iterable[int]) -> GangUsage:
        """`pids`: the workers that live."""
        workers = {pid: sums for pid in pids if (sums := process_sums(pid)) is not None}
        for pid in self._workers.keys() - workers.keys():
            self._ended = self._ended.plus(self._workers[pid])
        self._workers = workers
        started = started_by(workers)
        found = [*workers.values(), *(sums for pid in started if (sums := process_sums(pid)) is not None)]
        total = self._ended
        for sums in found:
            total = total.plus(sums)
        self._cpu_s = max(self._cpu_s, total.cpu_s)  # a child that is not waited for is lost with its end
        return GangUsage(
            cpu_s=self._cpu_s,
            memory_bytes=resident_bytes([*workers, *started]),
            read_bytes=total.read_bytes,
            written_bytes=total.written_bytes,
        )


def process_sums(pid: int) -> ProcessSums | None:
    """None of one that is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except GONE:
        return None
    fields = stat.rpartition(")")[2].split()
    cpu_s = sum(int(ticks) for ticks in fields[11:15]) / TICKS_PER_S  # utime to cstime, see proc(5)
    return ProcessSums(cpu_s, *_disk_bytes(pid))


def _disk_bytes(pid: int) -> tuple[int, int]:
    """Read and written; 0 of a process that this one may not look into."""
    try:
        text = Path(f"/proc/{pid}/io").read_text()
    except GONE:
        return 0, 0
    told = dict(line.split(": ") for line in text.splitlines())
    return int(told["read_bytes"]), int(told["write_bytes"])


def started_by(pids: Iterable[int]) -> list[int]:
    """Live children of these processes, their children, and so on, as long as no other adopts them."""
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


def resident_bytes(pids: Iterable[int]) -> int:
    """Pages that several of them share count for each."""
    total = 0
    for pid in pids:
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
        except GONE:
            continue
    return total
