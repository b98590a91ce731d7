"""What a platform needs of its executor, and of the history that it begins with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from swell.live.recovery import Entry
from swell.live.world import GangExecutor
from swell.model.event import AnyEvent
from swell.model.running import RunningWork


class History(Protocol):
    """A state, and the batches after it."""

    @property
    def state(self) -> bytes | None:
        """The state of the last fold, as JSON; None before the first fold."""

    @property
    def seq(self) -> int:
        """Number of the last batch in the folded state; 0 before the first fold."""

    @property
    def entries(self) -> Iterable[Entry]:
        """The batches since the last fold, oldest first."""


class Executor(GangExecutor, Protocol):
    """Hands that outlive the daemon."""

    def start(self, deliver: Callable[[AnyEvent], None]) -> RunningWork:
        """Begin, or adopt what runs, and tell what that is.

        Events are delivered with CLOCK_BOOTTIME of this machine as `at_s`.
        """

    def acknowledge(self) -> None:
        """All that was delivered and handled so far is in the journal."""

    def remove_host(self, name: str) -> None:
        """Have a host that has joined end its workers and leave; `NodeLost` follows."""

    def want_devices(self, num: int) -> None:
        """Say how many devices open jobs could use together. Called when that number changes."""

    @property
    def lack(self) -> str:
        """What it cannot do of what was asked for, for people; empty: nothing."""

    def shut_down(self) -> None:
        """End every process and wait until all are gone."""
