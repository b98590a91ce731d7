"""The limits of a job's containers: told to the engine, which knows them best; measured by the kernel."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable

from swell.executors.local.containers.engine import ContainerEngine
from swell.executors.local.containers.meter import ContainerMeter
from swell.executors.local.limits.allocation import cpu_limit
from swell.executors.local.limits.cgroup_v1 import weight
from swell.executors.local.limits.cores import LEAST_CORES
from swell.executors.local.limits.limiter import CoreSharing
from swell.model.share_mode import FULL_SHARE, ShareMode
from swell.model.usage import NO_USAGE, GangUsage, total_usage

#: Runs something beside the agent's loop.
Spawner = Callable[[Coroutine[None, None, None]], object]


def share_words(share: float, sharing: CoreSharing) -> tuple[str, ...]:
    """Options of `run` and of `update` for a share in (0, 1]; empty: there are none."""
    if sharing.mode is ShareMode.OFF:
        return ()
    if sharing.mode is ShareMode.WEIGHT:
        return "--cpu-shares", str(weight(share))
    cores = share * (sharing.cores or cpu_limit())
    return "--cpus", f"{max(LEAST_CORES, cores):.3f}"


def _core_words() -> tuple[str, ...]:
    """The cores that the agent keeps to, where these are not all: containers are none of its children."""
    own = os.sched_getaffinity(0)
    return () if len(own) == os.cpu_count() else ("--cpuset-cpus", ",".join(map(str, sorted(own))))


class ContainerGroup:
    """See `limiter.GangGroup`. One that is told of a container after another goes on with that one.

    The engine is asked in the background, some 50 ms a change: `keep` raises what came of it, and asks again.
    """

    entries: tuple[str, ...] = ()  # a worker is in it from its first moment

    def __init__(self, sharing: CoreSharing, spawn: Spawner) -> None:
        self._sharing = sharing
        self._spawn = spawn
        self._share = self._told = FULL_SHARE
        self._memory_bytes: int | None = None
        self._place: tuple[ContainerEngine, str] | None = None
        self._is_telling = False
        self._trouble = ""
        self._meters: list[ContainerMeter] = []  #: of all its containers, the last of which may run

    # ------------------------------------------------------------ containers
    def begin(self) -> tuple[str, ...]:
        """Options of `run` for the next container, in which they are in force from the beginning."""
        shares, self._trouble = share_words(self._share, self._sharing), ""
        self._told = self._share if shares else FULL_SHARE
        memory = () if self._memory_bytes is None else (str(self._memory_bytes),) * 2
        limits = ("--memory", memory[0], "--memory-swap", memory[1]) if memory else ()
        return (*_core_words(), *shares, *limits)

    def started(self, engine: ContainerEngine, name: str, pid: int) -> None:
        """A container of the gang runs; `pid`: its first process."""
        self._place = (engine, name)
        self._meters.append(ContainerMeter(pid, self._sharing))
        self._tell()

    # ------------------------------------------------------------ limits
    def set_share(self, share: float) -> None:
        self._share = share
        if self._share == self._told:
            self._trouble = ""
        self._tell()

    def limit_memory(self, num_bytes: int) -> None:
        self._memory_bytes = num_bytes

    def add(self, pid: int) -> None:
        """It is in its container already."""

    def keep(self, pids: Iterable[int]) -> None:
        self._tell()
        if self._trouble:
            raise OSError(self._trouble)

    def _tell(self) -> None:
        if self._place is not None and self._told != self._share and not self._is_telling:
            self._is_telling = True
            self._spawn(self._update(*self._place))

    async def _update(self, engine: ContainerEngine, name: str) -> None:
        try:
            while self._place == (engine, name) and self._told != self._share:
                wanted = self._share
                self._trouble = await asyncio.to_thread(self._set, engine, name, wanted)
                if self._trouble:
                    return
                self._told = wanted
        finally:
            self._is_telling = False

    def _set(self, engine: ContainerEngine, name: str, share: float) -> str:
        """Why that share cannot be had; empty: it is in force. Waits: it is for threads."""
        words = share_words(share, self._sharing)
        if not words:
            return ""
        answer = engine.update(name, words)
        return "" if answer.is_good else f"{engine.name} update: {answer.error}"

    # ------------------------------------------------------------ usage
    def usage(self) -> GangUsage:
        *former, latest = [meter.usage() for meter in self._meters] or [NO_USAGE]
        return total_usage([*(usage.without_memory for usage in former), latest])

    def num_killed(self) -> int:
        return sum(meter.num_killed() for meter in self._meters)

    def close(self) -> None:
        self._place = None
