"""How the gangs of a machine share it. They are measured here; control groups limit them, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from swell.executors.local.limits.process_usage import ProcessUsage, started_by
from swell.model.target import ShareMode
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


#: Why a gang's memory is not limited.
NO_MEMORY_LIMIT = (
    "only control groups of version 2 limit the memory of a gang, where the controller memory is delegated"
)


class LimitError(ValueError):
    """What was asked for cannot be had on this machine; the text names the rule and the remedy."""


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

    def keep(self, pids: Iterable[int]) -> None:
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
