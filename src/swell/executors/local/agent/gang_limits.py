"""What gangs may have of this machine, and what they have used: shares, memory, usage.

What the kernel refuses never ends a job: its owner is warned once.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from swell.executors.exit_status import OUT_OF_MEMORY, OVER_MEMORY
from swell.executors.local.limits.allocation import MemoryKills
from swell.executors.local.limits.limiter import GangGroup, Limiter
from swell.model.quantities import format_bytes
from swell.model.target import FULL_SHARE
from swell.model.usage import GangUsage

#: What a gang uses is read so often, and its processes are kept in its group.
READ_EVERY_S = 1.0
#: A kill for lack of memory is of a worker whose exit is told no later.
FORGET_EVERY_S = 2.0

NO_MEMORY = "just when the kernel of its machine killed a process for lack of memory"

log = logging.getLogger("swell.agent")


#: Topics of warnings, on what may fail and work again: to give a gang its share, to have its processes in its
#: group and read what they use, to limit its memory, to hold it to its share also where cores are idle.
SHARE, USE, MEMORY, QUOTA = "share", "use", "memory", "quota"
_REFUSED = {
    SHARE: "its CPU share is not what it should be",
    USE: "its processes cannot be kept in their group, or what they use cannot be read",
    MEMORY: "its memory is not limited",
}


@dataclass(slots=True)
class LimitedGang:
    """One gang and its group."""

    job_id: str
    group: GangGroup
    memory_bytes: int | None
    pids: dict[str, int] = field(default_factory=dict)  #: by what the zygote calls a process
    read_s: float = float("-inf")
    num_killed: int = 0  #: by the kernel, for their memory, and told of
    refused: set[str] = field(default_factory=set)  #: topics of what does not work


class GangLimits:
    """CPU shares, memory limits and usage of the gangs on one host. A gang is named by its job's id."""

    def __init__(
        self,
        limiter: Limiter,
        warn: Callable[[str, str, str], None],
        kills: MemoryKills | None = None,
    ) -> None:
        """`warn`: takes a job, what the warning is about, and the message."""
        self._limiter = limiter
        self._kills, self._forgot_s = kills or MemoryKills(), float("-inf")
        self._warn = warn
        self._gangs: dict[str, LimitedGang] = {}

    def limits_memory(self) -> bool:
        """Whether the kernel can be told here how much memory a gang may have."""
        group = self._limiter.group("probe")
        try:
            group.limit_memory(1 << 40)
        except OSError:
            return False
        finally:
            with suppress(OSError):
                group.close()
        return True

    # ------------------------------------------------------------ orders
    def launch(self, job_id: str, share: float | None, memory_bytes: int | None) -> None:
        """Before its first worker is started.

        Args:
            share: None: none was chosen.
        """
        gang = LimitedGang(job_id, self._limiter.group(job_id), memory_bytes)
        self._gangs[job_id] = gang
        if memory_bytes is not None:
            self._try(gang, MEMORY, partial(gang.group.limit_memory, memory_bytes))
        self._try(gang, SHARE, partial(gang.group.set_share, FULL_SHARE if share is None else share))
        if share is not None:
            self._tell_lack(gang)

    def set_share(self, job_id: str, share: float) -> None:
        """If it cannot be had, the job's owner is warned, and it has the one of before."""
        if (gang := self._gangs.get(job_id)) is not None:
            self._tell_lack(gang)
            self._try(gang, SHARE, partial(gang.group.set_share, share))

    def _tell_lack(self, gang: LimitedGang) -> None:
        """A share was chosen for it."""
        if self._limiter.lack and QUOTA not in gang.refused:
            gang.refused.add(QUOTA)
            self._warn(gang.job_id, QUOTA, self._limiter.lack)

    # ------------------------------------------------------------ processes
    def forked(self, job_id: str, key: str, pid: int) -> None:
        """A process was started: it belongs to its gang's group from now on, with what it starts."""
        if (gang := self._gangs.get(job_id)) is not None:
            gang.pids[key] = pid
            self._try(gang, USE, lambda: gang.group.keep_processes(gang.pids.values()))

    def exited(self, job_id: str, key: str, status: int) -> tuple[int, str]:
        """How it ended, and why, if the kernel has killed it for lack of memory."""
        gang = self._gangs.get(job_id)  # a trial run is none, and has no limit
        if gang is not None:
            gang.pids.pop(key, None)
        if status not in (-signal.SIGKILL, 128 + signal.SIGKILL):  # as a shell tells the end of its child
            return status, ""
        is_lack = self._kills.take_kill()
        if gang is not None and gang.memory_bytes is not None and self._is_over_limit(gang):
            return OVER_MEMORY, f"memory limit of {format_bytes(gang.memory_bytes)}"
        return (OUT_OF_MEMORY, NO_MEMORY) if is_lack else (status, "")

    def _is_over_limit(self, gang: LimitedGang) -> bool:
        """Whether the kernel has killed one more of its processes for the limit of the gang."""
        try:
            num_killed = gang.group.num_killed()
        except OSError as error:
            log.warning("cannot read whether memory ended a worker of %s: %s", gang.job_id, error)
            return False
        is_killed = num_killed > gang.num_killed
        gang.num_killed += is_killed
        return is_killed

    def ended(self, job_id: str) -> None:
        """Every process of the gang is gone."""
        gang = self._gangs.pop(job_id, None)
        if gang is None:
            return
        for about in gang.refused:
            self._warn(job_id, about, "")  # the next gang has its own
        try:
            gang.group.close()
        except OSError as error:  # it goes with the agent, or with the next one
            log.warning("the group of %s is left behind: %s", job_id, error)

    def close(self) -> None:
        """Every process is gone."""
        self._limiter.close()

    # ------------------------------------------------------------ usage
    def tick(self, now_s: float) -> dict[str, GangUsage]:
        """Time has passed. Return what the gangs have used whose usage was read now, by job."""
        if now_s - self._forgot_s >= FORGET_EVERY_S:
            self._forgot_s = now_s
            self._kills.forget()
        due = [gang for gang in self._gangs.values() if now_s - gang.read_s >= READ_EVERY_S]
        read = {gang.job_id: self._read(gang, now_s) for gang in due}
        return {job_id: usage for job_id, usage in read.items() if usage is not None}

    def _read(self, gang: LimitedGang, now_s: float) -> GangUsage | None:
        gang.read_s = now_s
        found: list[GangUsage] = []

        def read() -> None:
            gang.group.keep_processes(gang.pids.values())
            found.append(gang.group.usage())

        self._try(gang, USE, read)
        return found[0] if found else None

    def _try(self, gang: LimitedGang, about: str, work: Callable[[], None]) -> None:
        """The job's owner is told if it does not work, and once it does again, of that."""
        was_refused, why = about in gang.refused, ""
        try:
            work()
            gang.refused.discard(about)
        except OSError as error:
            gang.refused.add(about)
            where = f" ({error.filename})" if error.filename else ""
            why = f"{_REFUSED[about]}: {error.strerror or error}{where}"
        if was_refused != bool(why):
            log.warning("%s: %s", gang.job_id, why or f"{_REFUSED[about]}: no longer")
            self._warn(gang.job_id, about, why)
