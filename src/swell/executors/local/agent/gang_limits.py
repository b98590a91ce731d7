"""What gangs may have of this machine, and what they have used: shares, memory, usage.

What the kernel refuses never ends a job: its owner is warned once, and it is tried again.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from swell.executors.exit_status import OUT_OF_MEMORY, OVER_MEMORY
from swell.executors.local.limits.allocation import KillsForMemory
from swell.executors.local.limits.limiter import GangGroup, Limiter
from swell.model.share_mode import FULL_SHARE
from swell.model.sizes import format_bytes
from swell.model.usage import GangUsage

#: Gangs of which no usage is asked are looked after so often.
KEEP_EVERY_S = 2.0

NO_MEMORY = "just when the kernel of its machine killed a process for lack of memory"

log = logging.getLogger("swell.agent")


class Doing(Enum):
    """What may fail, and work again."""

    SHARE = auto()  #: give the gang a share
    KEEP = auto()  #: have its processes in its group, and read what they use
    MEMORY = auto()  #: limit its memory
    QUOTA = auto()  #: hold it to its share also where others leave cores idle


#: Topics of warnings.
_TOPICS = {Doing.SHARE: "share", Doing.KEEP: "share", Doing.MEMORY: "memory", Doing.QUOTA: "quota"}


@dataclass(slots=True)
class LimitedGang:
    """One gang and its group."""

    job_id: str
    group: GangGroup
    memory_bytes: int | None
    owed: float | None = None  #: the share that it should have, and that could not be set so far
    pids: dict[int, int] = field(default_factory=dict)  #: by worker
    kept_s: float = float("-inf")
    num_killed: int = 0  #: by the kernel, for their memory, and told of
    troubles: dict[Doing, str] = field(default_factory=dict)  #: what does not work, and why

    def standing(self, about: str) -> str:
        """What is wrong in the matter of a warning; empty if nothing is."""
        found = [why for doing, why in self.troubles.items() if _TOPICS[doing] == about]
        return found[0] if found else ""


class GangLimits:
    """CPU shares, memory limits and usage of the gangs on one host. A gang is named by its job's id."""

    def __init__(
        self,
        limiter: Limiter,
        warn: Callable[[str, str, str], None],
        kills: KillsForMemory | None = None,
    ) -> None:
        """`warn`: takes a job, what the warning is about, and the message."""
        self._limiter = limiter
        self._kills, self._forgot_s = kills or KillsForMemory(), float("-inf")
        self._warn = warn
        self._gangs: dict[str, LimitedGang] = {}

    # ------------------------------------------------------------ orders
    def launch(self, job_id: str, share: float | None, memory_bytes: int | None) -> None:
        """Before its first worker is started.

        Args:
            share: None: none was chosen.
        """
        gang = LimitedGang(job_id, self._limiter.group(job_id), memory_bytes)
        self._gangs[job_id] = gang
        if gang.memory_bytes is not None:
            self._limit_memory(gang, gang.memory_bytes)
        self._set_share(gang, FULL_SHARE if share is None else share)
        if share is not None:
            self._tell_lack(gang)

    def set_share(self, job_id: str, share: float) -> None:
        """What cannot be had is tried again, and the job's owner is warned."""
        if (gang := self._gangs.get(job_id)) is not None:
            self._tell_lack(gang)
            self._set_share(gang, share)

    def _tell_lack(self, gang: LimitedGang) -> None:
        """A share was chosen for it."""
        if self._limiter.lack and Doing.QUOTA not in gang.troubles:
            gang.troubles[Doing.QUOTA] = self._limiter.lack
            self._warn(gang.job_id, _TOPICS[Doing.QUOTA], self._limiter.lack)

    # ------------------------------------------------------------ processes
    def entries(self, job_id: str) -> tuple[str, ...]:
        """What a new worker writes itself into; see `limiter.GangGroup`."""
        gang = self._gangs.get(job_id)
        return () if gang is None else gang.group.entries

    def forked(self, job_id: str, worker: int, pid: int) -> None:
        if (gang := self._gangs.get(job_id)) is not None:
            gang.pids[worker] = pid

    def exited(self, job_id: str, worker: int, status: int) -> tuple[int, str]:
        """How it ended, and why, if the kernel has killed it for lack of memory."""
        gang = self._gangs.get(job_id)  # a trial run is none, and has no limit
        if gang is not None:
            gang.pids.pop(worker, None)
        if status != -signal.SIGKILL:
            return status, ""
        is_lack = self._kills.take()
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
        for about in {_TOPICS[doing] for doing in gang.troubles}:
            self._warn(job_id, about, "")  # the next gang has its own
        try:
            gang.group.close()
        except OSError as error:  # it goes with the agent, or with the next one
            log.warning("the group of %s is left behind: %s", job_id, error)

    def close(self) -> None:
        """Every process is gone."""
        self._limiter.close()

    # ------------------------------------------------------------ usage
    def read(self, job_id: str, now_s: float) -> GangUsage | None:
        """What the gang has used; None if that cannot be told."""
        gang = self._gangs.get(job_id)
        return None if gang is None else self._read(gang, now_s)

    def tick(self, now_s: float) -> None:
        """Time has passed."""
        if now_s - self._forgot_s >= KEEP_EVERY_S:
            self._forgot_s = now_s
            self._kills.forget()
        for gang in self._gangs.values():
            if now_s - gang.kept_s >= KEEP_EVERY_S:
                self._read(gang, now_s)

    def _read(self, gang: LimitedGang, now_s: float) -> GangUsage | None:
        gang.kept_s = now_s
        self._catch_up(gang)
        found: list[GangUsage] = []

        def read() -> None:
            gang.group.keep(gang.pids.values())
            found.append(gang.group.usage())

        self._try(gang, Doing.KEEP, read)
        return found[0] if found else None

    def _catch_up(self, gang: LimitedGang) -> None:
        """Set again the limits that the kernel has refused."""
        if gang.memory_bytes is not None and Doing.MEMORY in gang.troubles:
            self._limit_memory(gang, gang.memory_bytes)
        if gang.owed is not None:
            self._set_share(gang, gang.owed)

    def _limit_memory(self, gang: LimitedGang, num_bytes: int) -> None:
        self._try(gang, Doing.MEMORY, lambda: gang.group.limit_memory(num_bytes))

    def _set_share(self, gang: LimitedGang, share: float) -> None:
        is_done = self._try(gang, Doing.SHARE, lambda: gang.group.set_share(share))
        gang.owed = None if is_done else share

    def _try(self, gang: LimitedGang, doing: Doing, work: Callable[[], None]) -> bool:
        """Whether it worked; if not, the job's owner is told, and once it does again, of that."""
        about = _TOPICS[doing]
        before = gang.standing(about)
        try:
            work()
        except OSError as error:
            gang.troubles[doing] = _told(doing, error)
        else:
            gang.troubles.pop(doing, None)
        now = gang.standing(about)
        if bool(now) != bool(before):
            log.warning("%s: %s", gang.job_id, now or f"{before}: no longer")
            self._warn(gang.job_id, about, now)
        return doing not in gang.troubles


def _told(doing: Doing, error: OSError) -> str:
    text = error.strerror or str(error)
    where = f" ({error.filename})" if error.filename else ""
    what = "its CPU share is not what it should be"
    what = "its memory is not limited" if doing is Doing.MEMORY else what
    return f"{what}: {text}{where}"
