"""What a gang does about an order that is not carried out in time.

Its owner is told. As far as it can be it is done without the members that do not come to a step boundary:
newcomers are sent away, and members that were to leave are killed. A suspend has to wait for the step.
"""

from __future__ import annotations

from dataclasses import dataclass

from swell.executors.gang.formation import Formation
from swell.executors.gang.hang_detection import HangDetector, busy, describe, not_come
from swell.executors.gang.member import Member, Roster, State
from swell.executors.gang.membership import Membership
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.setback import Setback
from swell.executors.gang.suspension import Suspension
from swell.executors.gang.timeouts import Timeouts
from swell.executors.gang.workers import Workers


@dataclass(slots=True)
class LateOrders:
    patience: Timeouts
    dialogue: CommandReplies
    roster: Roster
    membership: Membership
    setback: Setback
    suspension: Suspension
    hang_detector: HangDetector
    formation: Formation
    workers: Workers

    def check(self) -> None:
        """Handle an order that is late: warn, and go on without the members that delay it.

        To be called several times a second.
        """
        limit_s = self.hang_detector.limit_s(self.patience.boundary_s)
        if not self._is_due(limit_s):
            return
        late = self._late(limit_s)
        if not late:
            return
        who = describe(late, self.roster.group)
        if self.suspension.is_out:
            outcome = "it is saved when the step has ended"
        else:
            outcome = self._do_without(f"{who}, and came to no step boundary within {limit_s:g} s")
        if not self.formation.is_warned:
            self.formation.is_warned = True
            self.dialogue.warn(f"a change of the gang has waited for {limit_s:g} s: {who}; {outcome}")

    def _is_due(self, limit_s: float) -> bool:
        is_changing = self.membership.is_settled and self.membership.change is not None
        is_late = self.dialogue.now_s - self.formation.ordered_s >= limit_s
        return is_changing and not self.setback.is_open and is_late

    def _late(self, limit_s: float) -> list[Member]:
        if self.suspension.is_out:
            return busy(self.roster, limit_s)
        return not_come(self.roster, self.formation.round, limit_s)

    def _do_without(self, why: str) -> str:
        """Newcomers go, or else members that were to leave, if one with the state stays.

        Returns:
            What was done, for the job's owner.
        """
        members = [member for member in self.roster.members.values() if not member.is_killed]
        newcomers = [m for m in members if not m.has_state and m.state is not State.LEFT]
        leavers = [m for m in members if m.state is State.LEAVING]
        if newcomers:
            self.workers.kill(newcomers, why)
            return "it keeps its size"
        if leavers and any(m.has_state and m.state is not State.LEAVING for m in members):
            self.workers.kill(leavers, why)
            return "those who were to leave were killed, and the others go on"
        return "it waits"
