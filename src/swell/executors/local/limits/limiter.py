"""How the gangs of a machine share it. They are measured here; control groups limit them, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import psutil

from swell.executors.local.processes.listing import started_by
from swell.model.target import ShareKind
from swell.model.usage import GangUsage


@dataclass(frozen=True, slots=True)
class CoreSharing:
    """How the gangs of this machine share its cores."""

    cores: float | None = None  #: that all of them have together; None: all that the agent may use
    mode: ShareKind = ShareKind.WEIGHT

    @property
    def words(self) -> tuple[str, ...]:
        """Options of `swell up` that ask for this sharing."""
        cores = repr(self.cores or 0.0).removesuffix(".0")
        return "--cores", cores, "--cpu-shares", self.mode.value


#: Why a gang's memory is not limited.
NO_MEMORY_LIMIT = (
    "only control groups of version 2 limit the memory of a gang, where the controller memory is delegated"
)


class GangGroup:
    """The processes of one gang. Methods are idempotent, and raise OSError for what the kernel refuses."""

    def __init__(self) -> None:
        self._workers: set[int] = set()
        self._usage = ProcessUsage()

    def set_share(self, share: float) -> None:
        """Set the gang's CPU share, in (0, 1], at once for all its processes. See `Limiter.lack`.

        If that fails, the former share stays.
        """

    def limit_memory(self, num_bytes: int) -> None:
        """Limit the memory of all processes together. The kernel kills one if they use more."""
        raise OSError(NO_MEMORY_LIMIT)

    def keep_processes(self, pids: Iterable[int]) -> None:
        """See that the group holds these workers, with what they have started."""
        self._workers = set(pids)

    def usage(self) -> GangUsage:
        """Return what the gang has used since the group was made."""
        return self._usage.read(self._workers, started_by(self._workers))

    def num_killed(self) -> int:
        """Processes that the kernel has ended because of the memory limit."""
        return 0

    def close(self) -> None:
        """The processes are gone."""


class Limiter:
    """Groups of one agent, which are measured and not limited."""

    name = "off"  #: for people: `cgroup v2`

    def __init__(self, lack: str = "") -> None:
        self.lack = lack  #: what it cannot do of what was asked for, why, and the remedy; empty: nothing

    def group(self, name: str) -> GangGroup:
        """A new one. Touches nothing until it is used."""
        return GangGroup()

    def close(self) -> None:
        """All processes are gone; never raises."""


# ---------------------------------------------------------------- measured, as psutil reads it
class ProcessSums(NamedTuple):
    """Usage of a process, and of those of its children that have ended and that it has waited for."""

    cpu_s: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0


def _total(sums: Iterable[ProcessSums]) -> ProcessSums:
    return ProcessSums(*map(sum, zip(*sums, strict=True)))


class ProcessUsage:
    """Sums over the processes of a gang. Of a worker that has ended counts what was read of it last."""

    def __init__(self) -> None:
        self._workers: dict[int, ProcessSums] = {}
        self._ended = ProcessSums()
        self._cpu_s = 0.0

    def read(self, workers: Iterable[int], started: Iterable[int]) -> GangUsage:
        """Read what has been used so far.

        Args:
            workers: those that live.
            started: what they have started. Who has waited for a child counts it once that has ended.
        """
        found = {pid: read for pid in (*workers, *started) if (read := _read(pid)) is not None}
        before = self._workers
        self._workers = {pid: found[pid][0] for pid in workers if pid in found}
        self._ended = _total(
            [self._ended, *(sums for pid, sums in before.items() if pid not in self._workers)]
        )
        total = _total([self._ended, *(sums for sums, _ in found.values())])
        self._cpu_s = max(self._cpu_s, total.cpu_s)  # a child that is not waited for is lost with its end
        return GangUsage(
            cpu_s=self._cpu_s,
            memory_bytes=sum(resident for _, resident in found.values()),
            read_bytes=total.read_bytes,
            written_bytes=total.written_bytes,
        )


def _read(pid: int) -> tuple[ProcessSums, int] | None:
    """Return what a process has used, and the bytes that are resident. None: it is gone."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            cpu_s, resident = sum(process.cpu_times()[:4]), process.memory_info().rss
            try:
                moved = process.io_counters()
            except psutil.AccessDenied:  # of a process that this one may not look into
                return ProcessSums(cpu_s), resident
    except psutil.Error:
        return None
    return ProcessSums(cpu_s, moved.read_bytes, moved.write_bytes), resident
