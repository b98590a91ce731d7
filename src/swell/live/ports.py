"""What a platform needs of its executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from swell.model.command import AnyCommand
from swell.model.event import AnyEvent
from swell.model.running import RunningWork


class Executor(Protocol):
    """What starts and stops processes, which outlive the daemon."""

    def start(self, deliver: Callable[[AnyEvent], None]) -> RunningWork:
        """Begin, or adopt what runs, and tell what that is.

        Events are delivered with CLOCK_BOOTTIME of this machine as `at_s`.
        """

    def perform(self, command: AnyCommand) -> None:
        """Begin it and return; what comes of it is an event."""

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
