"""Commands of the head that wait until hosts are ready for them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from swell.executors.hosts.messages import RunOpened, RunRefused
from swell.model.command import GangCommand, LaunchGang, Reconfigure
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

    def hear(self, host: str, answer: RunOpened | RunRefused) -> None:
        """No effect if the host was not asked, or has answered."""
        if host in self.opening:
            self.opening.discard(host)
            if isinstance(answer, RunOpened):
                self.opened[host] = answer
            else:
                self.refusal = self.refusal or (answer.outcome, answer.why)

    def lose_host(self, host: str, why: str) -> None:
        """It answers nothing more, and what it has opened is gone with it."""
        if host in self.opening or host in self.opened:
            self.opening.discard(host)
            self.opened.pop(host, None)
            self.refusal = self.refusal or (Outcome.LOST, why)
