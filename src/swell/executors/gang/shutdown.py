"""The end of a gang: from the decision that it is to end, to what is told when its last process is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swell.executors.gang.ending import Ending, left_behind, waiting
from swell.executors.gang.formation import Formation
from swell.executors.gang.member import Member, Roster
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.setback import Setback
from swell.executors.gang.timeouts import Timeouts
from swell.executors.gang.training_progress import TrainingProgress
from swell.executors.gang.workers import Workers
from swell.model.event import GangEnded, GangSuspended, Outcome


@dataclass(slots=True)
class Shutdown:
    patience: Timeouts
    dialogue: CommandReplies
    roster: Roster
    formation: Formation
    workers: Workers
    progress: TrainingProgress
    ending: Ending | None = None

    @property
    def is_under_way(self) -> bool:
        return self.ending is not None

    # ------------------------------------------------------------ it begins
    def end(self, outcome: Outcome, message: str, spared: Member | None = None) -> None:
        """All workers are to go, but the spared one, which goes by itself."""
        self._begin(outcome, message, self.patience.stop_s)
        self.workers.terminate(member for member in self.roster.members.values() if member is not spared)

    def succeed(self, member: Member, message: str) -> None:
        """The script of this member has come to its end. The last lines of the others may take a while."""
        self._begin(Outcome.SUCCEEDED, message, self.patience.finish_s)
        is_whole = member.whole_round == self.formation.round
        self.workers.kill(left_behind(self.roster, is_whole))

    def stop(self) -> None:
        """The head wants it. A script that has succeeded need not come to its last lines."""
        if self.ending is None:
            self.end(Outcome.STOPPED, "")
        else:
            self.workers.terminate(self.roster.members.values())
            self.ending.hurry(self.dialogue.now_s + self.patience.stop_s)

    def _begin(self, outcome: Outcome, message: str, limit_s: float) -> None:
        now_s = self.dialogue.now_s
        self.ending = Ending(outcome, message, now_s, now_s + limit_s)

    def resume(self, outcome: Outcome, message: str) -> None:
        """Under a new controller: signals may have been lost with the former one."""
        is_success = outcome is Outcome.SUCCEEDED
        self._begin(outcome, message, self.patience.finish_s if is_success else self.patience.stop_s)
        members = self.roster.members.values()
        if is_success:
            is_whole = any(member.whole_round == self.formation.round for member in members)
            self.workers.kill(left_behind(self.roster, is_whole))
        else:
            self.workers.terminate(members)

    # ------------------------------------------------------------ while workers are left
    def note_break(self) -> None:
        """A collective failed: the group that some members still wait for will not form."""
        self.workers.kill(waiting(self.roster))

    def note_exit(self, member: Member, status: int, log_tail: str) -> None:
        if self.ending is not None:
            self.ending.note_exit(member, status, log_tail)

    def kill_late(self, is_stopped: Callable[[int], bool]) -> None:
        if self.ending is not None:
            late = self.ending.cut_off(self.roster, self.dialogue.now_s, self.patience, is_stopped)
            self.workers.kill(late)

    # ------------------------------------------------------------ every process is gone
    def close(self, is_suspended: bool, setback: Setback) -> None:
        """Report the end.

        Args:
            is_suspended: the gang was asked to save and leave, and did.
            setback: what broke the gang last.
        """
        is_success = self.ending is not None and self.ending.outcome is Outcome.SUCCEEDED
        self.progress.report_last(self.formation.round, len(self.roster.group), is_success)
        if self.ending is None and is_suspended:
            facts = self.dialogue.facts()
            self.dialogue.close(GangSuspended(**facts, steps=self.progress.saved_steps))
        elif self.ending is None:
            self._tell_end(Outcome.LOST, setback.why or "every worker is gone", setback.is_over_memory)
        else:
            self._tell_end(self.ending.outcome, self.ending.message, setback.is_over_memory)

    def _tell_end(self, outcome: Outcome, message: str, is_over_memory: bool) -> None:
        is_to_go_on = outcome in (Outcome.LOST, Outcome.STOPPED)
        steps = self.progress.saved_steps if is_to_go_on else self.progress.steps
        facts = self.dialogue.facts()
        self.dialogue.close(
            GangEnded(
                **facts,
                outcome=outcome,
                steps=steps,
                message=message,
                is_over_memory=is_over_memory and outcome is Outcome.LOST,
            )
        )
