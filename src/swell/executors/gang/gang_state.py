"""A live gang as its director sees it: the workers, what they were told, and what the head was told of them.

The verbs here are those that several of the director's senses share: what is heard (`hearing`), who is late
(`watch`), and who is gone and what the head wants (`gang`).
"""

from __future__ import annotations

import signal
from collections.abc import Iterable

from swell.executors.gang.divergence import Divergence
from swell.executors.gang.drift import DRIFT, DriftCount
from swell.executors.gang.effects import Effect, Kill, Report
from swell.executors.gang.ending import Ending, early_end, left_behind
from swell.executors.gang.formation import Formation
from swell.executors.gang.hang_detection import Vigil
from swell.executors.gang.job_context import Stage
from swell.executors.gang.member import Member, Roster, Slot, by_rank
from swell.executors.gang.membership import ChangeAim, Membership, answer
from swell.executors.gang.progress import Pacer, steps_report
from swell.executors.gang.replies import Dialogue
from swell.executors.gang.setback import Setback
from swell.executors.gang.suspension import Suspension
from swell.executors.gang.timeouts import Patience
from swell.model.event import Outcome
from swell.wire import messages


class Ensemble:
    """`effects` is what is to be done, in order; whoever directs hands it on."""

    def __init__(
        self, stage: Stage, patience: Patience, saved_steps: int, max_local_batch: int | None
    ) -> None:
        self.stage = stage
        self.patience = patience
        self.steps = saved_steps  #: finished, as far as is known
        self.saved_steps = saved_steps  #: of the newest checkpoint
        self.max_local_batch = max_local_batch  #: samples of a pass, as far as is known now
        self.effects: list[Effect] = []
        self.roster = Roster()
        self.target: tuple[Slot, ...] = ()  #: the devices of the workers there should be
        self.dialogue = Dialogue(stage.job_id, self.effects)
        self.formation = Formation(self.roster, self.effects)
        self.standing = Membership()
        self.setback = Setback()
        self.suspension = Suspension()
        self.vigil = Vigil()
        self.pacer = Pacer()
        self.divergence = Divergence(stage.spec.stop_on_nan)
        self.drift = DriftCount()
        self.ending: Ending | None = None
        self.final: messages.Finished | None = None

    @property
    def now_s(self) -> float:
        return self.dialogue.now_s

    @property
    def pids(self) -> tuple[int, ...]:
        """Of every process that lives, in rank order where it has one."""
        return tuple(member.pid for member in by_rank(self.roster) if member.pid is not None)

    # ------------------------------------------------------------ a group
    def regroup(self, group: list[Member]) -> None:
        """The next group is this."""
        self.formation.regroup(group, self.max_local_batch, self.now_s)
        self.suspension = Suspension()
        self.setback.close()

    def note_break(self, generation: int, why: str) -> None:
        """A collective of this generation failed; those who have not noticed are told."""
        self.suspension.is_void = True
        self.setback.note(why, self.now_s)
        self.formation.abort({generation})

    def note_death(self, member: Member, why: str) -> None:
        """A member of the group is gone, and with it every group that it was in.

        Args:
            why: empty where it had to go because of what had broken before.
        """
        self.suspension.is_void = True
        self.setback.note_death(why, self.now_s)
        self.formation.abort({self.formation.round, member.whole_round})

    def undo(self, why: str) -> None:
        """The change under way has failed: back to what the head believes."""
        change = self.standing.change
        if change is not None and not change.failure:
            change.failure = why
            self.target = self.standing.staying(self.roster, self.setback.is_open)
            if not self.target:
                self.end_all(Outcome.LOST, why)

    def settle(self) -> None:
        """The gang is what it should be: say so, if somebody waits for it."""
        change = self.standing.settle(self.target)
        self.setback.num_failed_rounds = 0
        if change is None:
            return
        if change.aim is ChangeAim.RESIZE:
            # what the first step took is told under the old number: now or never
            self.effects += map(Report, self.pacer.flush(self.now_s))
        if not change.failure:
            self.standing.generation = self.dialogue.generation
        self.dialogue.reply(answer(change, self.dialogue, self.steps, self.pids))

    # ------------------------------------------------------------ the end
    def finish(self, member: Member, message: messages.Finished | None) -> None:
        """The end condition is met, or the script came to its end by itself."""
        is_leader = self.roster.group[:1] == [member.number]
        if self.ending is None:
            change = self.standing.change
            if change is not None and change.aim is ChangeAim.LAUNCH and not self.standing.is_settled:
                self.settle()  # it was in the group, so all were
            early = early_end(self.stage, self.steps, message)
            self.ending = Ending(Outcome.SUCCEEDED, early, self.now_s, self.now_s + self.patience.finish_s)
            is_whole = member.whole_round == self.formation.round
            self.kill(left_behind(self.roster, is_whole))
        if message is not None and (self.final is None or is_leader):
            self.final = message
            self.steps = message.steps

    def note_final(self) -> None:
        """What the leader said last: how often replicas differed, and how far a job got that succeeded."""
        if told := self.drift.rest():
            self.dialogue.warn(told, about=DRIFT)
        if self.final is None or self.ending is None or self.ending.outcome is not Outcome.SUCCEEDED:
            return
        self.steps = self.final.steps
        self.note_progress(
            messages.Progress(
                generation=self.formation.round,
                steps=self.final.steps,
                num_workers=len(self.roster.group),
                loss=self.final.loss,
                odd_since=self.final.odd_since,
                metrics=self.final.metrics,
            )
        )

    def end_all(self, outcome: Outcome, message: str, spared: Member | None = None) -> None:
        self.ending = Ending(outcome, message, self.now_s, self.now_s + self.patience.stop_s)
        self.terminate(member for member in self.roster.members.values() if member is not spared)

    # ------------------------------------------------------------ saying and doing
    def note_progress(self, said: messages.Progress) -> None:
        generation = self.standing.generation or self.dialogue.generation
        report = steps_report(self.stage.job_id, generation, said, self.now_s)
        for message in self.divergence.note(said.steps, report.loss, said.odd_since, report.metrics):
            self.dialogue.warn(message)
        self.effects += map(Report, self.pacer.add(report, self.now_s))

    def kill(self, members: Iterable[Member], why: str = "") -> None:
        for member in members:
            if not member.is_killed:
                member.is_killed = True
                member.failure = member.failure or why
                self.effects.append(Kill(member.number, signal.SIGKILL))

    def terminate(self, members: Iterable[Member]) -> None:
        self.effects += [Kill(member.number, signal.SIGTERM) for member in members]
