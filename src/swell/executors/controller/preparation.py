"""Commands of the head that wait until hosts are ready for them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from swell.executors.hosts.messages import RunOpened
from swell.model.command import GangCommand, LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.event import Outcome


@dataclass(slots=True)
class Preparation:
    """One command, what its hosts have answered so far, and the later commands of its job."""

    command: LaunchGang | Reconfigure
    opening: set[str] = field(default_factory=set)  #: hosts that have yet to open the run
    opened: dict[str, RunOpened] = field(default_factory=dict)
    refusal: tuple[Outcome, str] | None = None  #: the first one
    is_called_off: bool = False  #: nothing follows from it but that what was opened is closed
    behind: deque[GangCommand] = field(default_factory=deque)

    @property
    def is_complete(self) -> bool:
        """Every host has answered."""
        return not self.opening

    def note_opened(self, host: str, opened: RunOpened) -> None:
        """No effect if the host was not asked, or has answered."""
        if host in self.opening:
            self.opening.discard(host)
            self.opened[host] = opened

    def note_refused(self, host: str, outcome: Outcome, why: str) -> None:
        """Likewise."""
        if host in self.opening:
            self.opening.discard(host)
            self.refusal = self.refusal or (outcome, why)

    def is_before(self, command: GangCommand) -> bool:
        """Whether the command came later than what is prepared."""
        return command.generation >= self.command.generation

    def call_off(self, by: StopGang | SuspendGang) -> None:
        """Cancel the command, and those queued behind it that are older than `by`."""
        self.is_called_off = True
        self.behind = deque(command for command in self.behind if command.generation > by.generation)

    def lose_host(self, host: str, why: str) -> bool:
        """Whether an answer was to come from this host. What it has opened is gone with it."""
        was_awaited = host in self.opening or host in self.opened
        if was_awaited:
            self.opening.discard(host)
            self.opened.pop(host, None)
            self.refusal = self.refusal or (Outcome.LOST, why)
        return was_awaited
