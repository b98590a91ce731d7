"""Without control groups: the processes of gangs are measured, and nothing is limited."""

from __future__ import annotations

from collections.abc import Iterable

from swell.executors.local.limits.process_usage import ProcessUsage, started_by
from swell.model.usage import GangUsage


class MeasuredProcesses:
    """See `limiter.Limiter`. Limits nothing."""

    name = "off"

    def __init__(self, lack: str = "") -> None:
        self.lack = lack

    def group(self, name: str) -> MeasuredGroup:
        return MeasuredGroup()

    def close(self) -> None:
        """There is nothing to end."""


class MeasuredGroup:
    """See `limiter.GangGroup`."""

    entries: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._pids: set[int] = set()
        self._usage = ProcessUsage()

    def set_share(self, share: float) -> None:
        """Shares are not enforced: see `Limiter.lack`."""

    def limit_memory(self, num_bytes: int) -> None:
        raise OSError("without control groups a gang's memory cannot be limited")

    def add(self, pid: int) -> None:
        self._pids.add(pid)

    def keep(self, pids: Iterable[int]) -> None:
        self._pids = set(pids)

    def usage(self) -> GangUsage:
        return self._usage.read(self._pids, started_by(self._pids))

    def num_killed(self) -> int:
        return 0

    def close(self) -> None:
        self._pids.clear()
