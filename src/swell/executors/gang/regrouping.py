"""Moves the workers of a gang towards the target of its change, one group after another."""

from __future__ import annotations

from dataclasses import dataclass

from swell.executors.gang.formation import Formation
from swell.executors.gang.member import Member, Roster, State
from swell.executors.gang.membership import Membership
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.setback import MAX_FAILED_ROUNDS, Setback
from swell.executors.gang.shutdown import Shutdown
from swell.executors.gang.suspension import Suspension
from swell.executors.gang.transition import Transition
from swell.executors.gang.workers import Workers
from swell.model.event import Outcome


@dataclass(slots=True)
class Regrouping:
    dialogue: CommandReplies
    roster: Roster
    membership: Membership
    setback: Setback
    suspension: Suspension
    formation: Formation
    workers: Workers
    transition: Transition
    shutdown: Shutdown

    def go_on(self) -> None:
        """Take the next step towards the target, if there is one to take."""
        self._drop_unwanted()
        self._spawn_missing()
        if self.setback.is_open or not self._is_in_motion():
            self._form_next_group()

    def _drop_unwanted(self) -> None:
        joiners = self.roster.joiners()
        self.workers.kill(member for member in joiners if member.slot not in self.transition.target)

    def _spawn_missing(self) -> None:
        if not self.membership.is_growing:
            return
        occupied = {member.slot for member in self.roster.members.values()}
        for slot in self.transition.target:
            if slot not in occupied:
                self.workers.start(slot, self.dialogue.now_s)

    def _is_in_motion(self) -> bool:
        """Whether an order is still being carried out."""
        moving = (State.FORMING, State.LEAVING, State.LEFT)
        return any(member.state in moving for member in self.roster.members.values())

    def _form_next_group(self) -> None:
        group, is_broken = self.roster.next_group(self.transition.target), self.setback.is_open
        slots, wanted = {member.slot for member in group}, set(self.transition.target)
        is_formed = not is_broken and [member.number for member in group] == self.roster.group
        batch = self.transition.batch_of_group(len(group))
        is_formed &= self.formation.batch == batch or self.membership.is_suspending
        if is_formed and slots == wanted:
            if self.membership.is_suspending:
                self._suspend()
            elif len(group) == len(self.roster.members):
                self.transition.settle()
        elif group and (is_broken or slots.issuperset(wanted)):
            self._regroup(group)

    def _regroup(self, group: list[Member]) -> None:
        """The next group is this."""
        if self.setback.is_hopeless():
            why = f"the group did not form {MAX_FAILED_ROUNDS} times in a row: {self.setback.why}"
            self.shutdown.end(Outcome.FAILED, why)
            return
        batch = self.transition.batch_of_group(len(group))
        self.formation.regroup(group, batch, self.dialogue.now_s)
        self.suspension.clear()
        self.setback.close()

    def _suspend(self) -> None:
        if not self.suspension.is_out:
            self.suspension.begin(self.formation.round)
            self.formation.suspend(self.dialogue.now_s)
