"""What a gang does about workers that keep the others waiting for too long.

They are killed if one that waits has the state: the others go on without them, and all that is lost is the
step under way.
"""

from __future__ import annotations

from dataclasses import dataclass

from swell.executors.gang.hang_detection import HangDetector, describe, is_deadlocked, waited_for
from swell.executors.gang.member import Member, Roster
from swell.executors.gang.membership import Membership
from swell.executors.gang.recovery import Recovery
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.shutdown import Shutdown
from swell.executors.gang.timeouts import Timeouts
from swell.executors.gang.training_progress import TrainingProgress
from swell.executors.gang.workers import Workers
from swell.model.event import Outcome


@dataclass(slots=True)
class StuckWorkers:
    patience: Timeouts
    dialogue: CommandReplies
    roster: Roster
    membership: Membership
    hang_detector: HangDetector
    workers: Workers
    progress: TrainingProgress
    recovery: Recovery
    shutdown: Shutdown

    def check(self) -> None:
        """Kill stuck workers, or break off a deadlocked group. To be called several times a second."""
        limit_s = self.hang_detector.limit_s(self.patience.stuck_s)
        stuck = waited_for(self.roster, limit_s, self._is_ordered(limit_s), self.membership.is_settled)
        if stuck:
            who = describe(stuck, self.roster.group)
            self._strike(stuck, f"{who}; others had waited for it for {limit_s:g} s, and it was killed")
        elif self.recovery.is_at_rest(limit_s) and is_deadlocked(self.roster, limit_s):
            why = f"all workers had waited for each other for {limit_s:g} s: their group was broken off"
            self._strike([], why)
            if not self.shutdown.is_under_way:
                self.recovery.break_off(why)

    def _is_ordered(self, limit_s: float) -> bool:
        """A suspend has waited for so long, as long as a worker's peers would."""
        change = self.membership.change if self.membership.is_suspending else None
        return change is not None and self.dialogue.now_s - change.since_s >= limit_s

    def _strike(self, stuck: list[Member], why: str) -> None:
        """Do without the stuck workers. The script is at fault if that comes repeatedly at the same step."""
        steps = self.progress.steps
        remedy = "if that is its ordinary work, raise stuck_s: `swell up --set stuck_s=...`"
        if self.hang_detector.strike(steps):
            text = f"after step {steps}, {self.hang_detector.num_strikes} times in a row: {why}"
            self.shutdown.end(Outcome.FAILED, f"{text}; {remedy}")
        else:
            self.dialogue.warn(f"{why}; {remedy}")
        self.workers.kill(stuck, why)
