"""What a gang does about its broken group, until the next one may form."""

from __future__ import annotations

from dataclasses import dataclass

from swell.executors.gang.formation import IN_STEP, Formation
from swell.executors.gang.member import Member, Roster, State
from swell.executors.gang.membership import Membership
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.setback import Move, Setback
from swell.executors.gang.shutdown import Shutdown
from swell.executors.gang.suspension import Suspension
from swell.executors.gang.transition import Transition
from swell.executors.gang.workers import Workers
from swell.model.event import Outcome
from swell.wire import messages


@dataclass(slots=True)
class Recovery:
    dialogue: CommandReplies
    roster: Roster
    membership: Membership
    setback: Setback
    suspension: Suspension
    formation: Formation
    workers: Workers
    transition: Transition
    shutdown: Shutdown

    # ------------------------------------------------------------ what broke
    def note_failed(self, message: messages.JoinFailed | messages.Broken, member: Member) -> None:
        """A collective of this member failed."""
        is_newest = message.generation == self.formation.round
        if message.generation == member.whole_round:
            member.whole_round = None
        elif not is_newest:
            return  # about a group that was given up before: a later order is on its way
        if member.state not in (State.FORMING, *IN_STEP):
            return
        member.steps = message.steps
        if not is_newest:  # it was told to be in the next one, and goes there at once
            self.formation.abort({message.generation})
            return
        member.state = State.BROKEN
        member.heartbeat = None
        if self.shutdown.is_under_way:
            self.shutdown.note_break()
        else:
            self.note_break(message.generation, message.message)

    def note_break(self, generation: int, why: str) -> None:
        """A collective of this generation failed; members that have not noticed are told."""
        self.suspension.is_void = True
        self.setback.note(why, self.dialogue.now_s)
        self.formation.abort({generation})

    def break_off(self, why: str) -> None:
        """The group is whole, but will make no step: all its members are told."""
        self.note_break(self.formation.round, why)
        self.formation.abort({member.whole_round for member in self.roster.in_group()})

    def note_death(self, member: Member, why: str) -> None:
        """A member of the group is gone, and with it every group that it was in.

        Args:
            why: empty where it had to go because of what had broken before.
        """
        self.suspension.is_void = True
        self.setback.note_death(why, self.dialogue.now_s)
        self.formation.abort({self.formation.round, member.whole_round})

    def is_at_rest(self, since_s: float) -> bool:
        """The group is whole, and has been left alone for so long."""
        return not self.setback.is_open and self.dialogue.now_s - self.formation.ordered_s >= since_s

    # ------------------------------------------------------------ towards the next group
    def is_done(self) -> bool:
        """Whether groups may form; clears away, step by step, what stands in the way of the next one."""
        while self.setback.is_open:
            match self.setback.next_move(self.roster, self.membership.is_settled, self.transition.is_safe):
                case Move.LOSE:
                    self.shutdown.end(Outcome.LOST, self.setback.why)
                    return False
                case Move.PART:
                    self.workers.kill(self.roster.members.values())
                    return False
                case Move.CUT_BACK:
                    if not self._cut_back():
                        return False
                case Move.WAIT:
                    return False
                case Move.FORM:
                    return True
        return True

    def _cut_back(self) -> bool:
        """Back to what the head believes the gang to be. False until all strangers are gone."""
        strangers = self.membership.strangers(self.roster)
        leaving = [m for m in self.roster.members.values() if m.state is State.LEFT]
        self.workers.kill(strangers)
        if strangers or leaving:
            return False
        self.setback.is_cut_back = True
        self.transition.cut_back(self.setback.why)
        return True
