"""What a gang does about workers that say nothing: they are killed.

A worker may be silent because it was stopped, or because it waits in a step of a group that has broken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swell.executors.gang.member import Roster
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.setback import Setback
from swell.executors.gang.timeouts import Timeouts, overdue
from swell.executors.gang.workers import Workers


@dataclass(slots=True)
class Watchdog:
    """`is_stopped` tells whether the process of a worker, by its number, was stopped."""

    script: str
    patience: Timeouts
    is_stopped: Callable[[int], bool]
    dialogue: CommandReplies
    roster: Roster
    setback: Setback
    workers: Workers

    def check(self) -> None:
        """Kill silent workers, and those unaware of a broken group. To be called several times a second."""
        self._kill_silent()
        self._kill_unaware()

    def _kill_silent(self) -> None:
        for member in self.roster.members.values():
            verdict = overdue(member, self.script, self.dialogue.now_s, self.patience, self.is_stopped)
            if verdict is not None and not member.is_killed:
                member.is_at_fault |= verdict.is_fault_of_script
                self.workers.kill([member], verdict.why)

    def _kill_unaware(self) -> None:
        """A member that waits in a step of a broken group should know by now; one in its script will."""
        since_s, limit_s = self.setback.since_s, self.patience.notice_s
        if since_s is None or self.dialogue.now_s - since_s <= limit_s:
            return
        unaware = self.setback.unaware(self.roster)
        deaf = [member for member in unaware if member.waits_s >= limit_s or member.heartbeat is None]
        self.workers.kill(deaf, "a worker did not notice that its group had broken, and was killed")
