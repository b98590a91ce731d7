"""Workers that go: what a worker says before it goes, and what its exit means for the gang."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from swell.executors.exit_status import OVER_MEMORY
from swell.executors.gang.ending import early_end, failed_in_step
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.member import Member, Roster, State
from swell.executors.gang.membership import Membership
from swell.executors.gang.recovery import Recovery
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.shutdown import Shutdown
from swell.executors.gang.suspension import Suspension
from swell.executors.gang.timeouts import describe_exit, ended_early, is_fault_of_script
from swell.executors.gang.training_progress import TrainingProgress
from swell.executors.gang.transition import Transition
from swell.model.event import Outcome
from swell.wire import messages


@dataclass(slots=True)
class Departures:
    stage: JobContext
    dialogue: CommandReplies
    roster: Roster
    membership: Membership
    suspension: Suspension
    progress: TrainingProgress
    transition: Transition
    recovery: Recovery
    shutdown: Shutdown
    #: Who has come to its end, and what it said of that, where another host speaks for the gang.
    waiting: dict[int, tuple[Member, messages.Finished | None]] = field(default_factory=dict)

    # ------------------------------------------------------------ what a worker says before
    def note_left(self, message: messages.Left, member: Member) -> None:
        member.left_s = self.dialogue.now_s
        if self.suspension.note_leave(message.generation) or member.state is State.LEAVING:
            member.state = State.LEFT
        else:
            member.failure = f"worker {member.number} left, on an order that had been taken back"

    def note_failed(self, message: messages.Failed, member: Member) -> None:
        member.failure = failed_in_step(member, self.roster.group, message)
        member.is_at_fault, member.left_s = True, self.dialogue.now_s
        if not self.shutdown.is_under_way and self.membership.knows(member):
            self.shutdown.end(Outcome.FAILED, member.failure, spared=member)

    def note_finished(self, member: Member, message: messages.Finished | None) -> None:
        """The end condition is met, or the script came to its end without a word (None)."""
        if not self.recovery.formation.speaks_for_gang(member):
            self.waiting.setdefault(member.number, (member, message))
            return
        is_leader = self.roster.group[:1] == [member.number]
        if not self.shutdown.is_under_way:
            self.transition.settle_launch()
            self.shutdown.succeed(member, early_end(self.stage, self.progress.steps, message))
        if message is not None:
            self.progress.note_finished(message, is_leader)

    def _hear_waiting(self) -> None:
        """Where those that spoke for the gang are gone, the next ones do."""
        for number, (member, message) in list(self.waiting.items()):
            if self.recovery.formation.speaks_for_gang(member):
                del self.waiting[number]
                self.note_finished(member, message)

    def note_break(self) -> None:
        """The gang goes on: who has come to its end already is lost to it."""
        gone = [member for number, (member, _) in self.waiting.items() if number not in self.roster.members]
        for member in gone:
            del self.waiting[member.number]
            if not self.shutdown.is_under_way:
                self.recovery.note_death(member, f"worker {member.number} had ended before the others")

    # ------------------------------------------------------------ its exit
    def note_exit(self, member: Member, status: int, log_tail: str) -> None:
        """The member is out of the roster already."""
        member.is_at_fault |= is_fault_of_script(status) and status != 0
        if self.shutdown.is_under_way:
            self.shutdown.note_exit(member, status, log_tail)
        elif member.state in (State.STARTING, State.READY):
            self._lose_joiner(member, status, log_tail)
        elif member.state is not State.LEFT:
            self._lose_member(member, status, log_tail)
        if status == OVER_MEMORY:
            self.recovery.setback.is_over_memory = True
        self._hear_waiting()

    def _lose_joiner(self, member: Member, status: int, log_tail: str) -> None:
        if member.slot not in self.transition.target or (member.is_killed and not member.failure):
            return  # it was no longer wanted
        message = describe_exit(member, status, log_tail)
        if status == 0:
            message = ended_early(self.stage.spec.entry, status)
        is_at_fault = member.is_at_fault or status == 0
        self.transition.fail(message, Outcome.FAILED if is_at_fault else Outcome.LOST)

    def _lose_member(self, member: Member, status: int, log_tail: str) -> None:
        is_sent_away = status == -signal.SIGKILL and member.is_killed and not member.failure
        why = "" if is_sent_away else describe_exit(member, status, log_tail)
        if status == 0:
            self.note_finished(member, None)
        elif member.is_at_fault and self.membership.knows(member):
            self.shutdown.end(Outcome.FAILED, why)
        else:
            self.recovery.note_death(member, why)
