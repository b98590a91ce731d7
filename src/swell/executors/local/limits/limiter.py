"""The port: limits and measures the processes of each gang. Control groups stand behind it, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from swell.model.share_mode import ShareMode
from swell.model.usage import GangUsage


@dataclass(frozen=True, slots=True)
class CoreSharing:
    """How the gangs of this machine share its cores."""

    cores: float | None = None  #: that all of them have together; None: all that the agent may use
    mode: ShareMode = ShareMode.WEIGHT

    @property
    def words(self) -> tuple[str, ...]:
        """Options of `swell up` that ask for this sharing."""
        cores = repr(self.cores or 0.0).removesuffix(".0")
        return "--cores", cores, "--cpu-shares", self.mode.value

    def unlike(self, other: CoreSharing) -> tuple[str, ...]:
        """Those of these options that the other ones differ in."""
        pairs = zip(self.words[::2], self.words[1::2], other.words[1::2], strict=True)
        return tuple(word for option, ours, theirs in pairs if ours != theirs for word in (option, ours))


class LimitError(ValueError):
    """What was asked for cannot be had on this machine; the text names the rule and the remedy."""


class GangGroup(Protocol):
    """The processes of one gang. Methods are idempotent, and raise OSError for what the kernel refuses."""

    @property
    def entries(self) -> tuple[str, ...]:
        """Files to which a process writes `0` to enter by itself; none: it has to be added."""

    def set_share(self, share: float) -> None:
        """Set the gang's CPU share, in (0, 1], at once for all its processes.

        If that fails, the former share stays.
        """

    def limit_memory(self, num_bytes: int) -> None:
        """Limit the memory of all processes together. The kernel kills one if they use more."""

    def add(self, pid: int) -> None:
        """A process of the gang; one that is gone is no error. What it starts later belongs to it."""

    def keep(self, pids: Iterable[int]) -> None:
        """See that the group is there and holds these processes; one that has vanished is made again."""

    def usage(self) -> GangUsage:
        """Return what the gang has used since the group was made."""

    def num_killed(self) -> int:
        """Processes that the kernel has ended because of the memory limit."""

    def close(self) -> None:
        """The processes are gone."""


class Limiter(Protocol):
    """Groups of one agent."""

    @property
    def name(self) -> str:
        """Name of the limiter, for people: `cgroup v2`."""

    @property
    def lack(self) -> str:
        """What it cannot do of what was asked for, why, and the remedy; empty: nothing."""

    def group(self, name: str) -> GangGroup:
        """A new one. Touches nothing until it is used."""

    def close(self) -> None:
        """All processes are gone; never raises."""
