"""What each message of a worker means for its gang."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatchmethod

import msgspec

from swell.executors.gang.departures import Departures
from swell.executors.gang.effects import Effect, Send
from swell.executors.gang.formation import Formation
from swell.executors.gang.hang_detection import HangDetector
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.member import Member, State
from swell.executors.gang.memory_limit import PassLimit, told_of_lack
from swell.executors.gang.recovery import Recovery
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.saving import Saving
from swell.executors.gang.training_progress import TrainingProgress
from swell.wire import messages


@dataclass
class Handlers:
    stage: JobContext
    effects: list[Effect]
    dialogue: CommandReplies
    pass_limit: PassLimit
    hang_detector: HangDetector
    formation: Formation
    progress: TrainingProgress
    saving: Saving
    recovery: Recovery
    departures: Departures

    @singledispatchmethod
    def hear(self, message: messages.FromWorker, member: Member) -> None:
        """What belongs to other modes: a sign of life, no more."""

    # ------------------------------------------------------------ on the way to a group
    @hear.register
    def _(self, message: messages.Hello, member: Member) -> None:
        member.pid = message.pid
        welcome = self.stage.welcome(member.slot, max_local_batch=self.pass_limit.max_local_batch)
        self.effects.append(Send(member.number, welcome))

    @hear.register
    def _(self, message: messages.Alive, member: Member) -> None:
        member.heartbeat = message

    @hear.register
    def _(self, message: messages.Ready, member: Member) -> None:
        if member.state is State.STARTING:
            member.state = State.READY

    @hear.register
    def _(self, message: messages.Bound, member: Member) -> None:
        self.formation.pass_on(message, member)

    @hear.register
    def _(self, message: messages.Joined, member: Member) -> None:
        if message.generation == self.formation.round and member.state is State.FORMING:
            member.state = State.TRAINING
            member.steps = self.progress.steps = message.steps
            if self.formation.told_steps is not None:  # from a checkpoint, steps are made again
                self.formation.told_steps = min(self.formation.told_steps, message.steps)
            self.progress.begin_group(message.generation)
            member.has_state = True
            member.whole_round = message.generation
            member.heartbeat = None  # what it waited for is over

    @hear.register(messages.JoinFailed)
    @hear.register(messages.Broken)
    def _(self, message: messages.JoinFailed | messages.Broken, member: Member) -> None:
        self.recovery.note_failed(message, member)
        self.departures.note_break()

    # ------------------------------------------------------------ training
    @hear.register
    def _(self, message: messages.Progress, member: Member) -> None:
        member.steps = message.steps
        if not self.formation.speaks_for_gang(member):
            return
        self.progress.steps = message.steps
        self.hang_detector.step_s = message.step_s or self.hang_detector.step_s
        self.formation.note_told(message.curves)
        self.progress.note(message)

    @hear.register
    def _(self, message: messages.Reported, member: Member) -> None:
        """Its shares are of each worker, all else of the gang."""
        if not self.formation.speaks_for_gang(member):
            message = msgspec.structs.replace(message, values={}, curves={})
        self.formation.note_told(message.curves)
        self.progress.note_values(message, member.number)

    @hear.register
    def _(self, message: messages.Drifted, member: Member) -> None:
        self.progress.note_drift(message)

    @hear.register
    def _(self, message: messages.CheckpointSaved, member: Member) -> None:
        if self.formation.speaks_for_gang(member):
            self.saving.note_saved(message)

    @hear.register
    def _(self, message: messages.CheckpointDamaged, member: Member) -> None:
        self.saving.note_damaged(message)

    @hear.register
    def _(self, message: messages.SaveFailed, member: Member) -> None:
        if self.formation.speaks_for_gang(member):
            self.saving.note_failed(message)

    # ------------------------------------------------------------ leaving
    @hear.register
    def _(self, message: messages.Left, member: Member) -> None:
        self.departures.note_left(message, member)

    @hear.register
    def _(self, message: messages.Finished, member: Member) -> None:
        self.departures.note_finished(member, message)

    @hear.register
    def _(self, message: messages.Failed, member: Member) -> None:
        self.departures.note_failed(message, member)

    @hear.register
    def _(self, message: messages.OutOfMemory, member: Member) -> None:
        """No fault of the script's: it dies like one that was killed, and comes again with smaller passes."""
        before, bound = self.pass_limit.max_local_batch, self.pass_limit.lower(message.num_samples)
        member.failure = told_of_lack(member.number, message.num_samples, bound, message.message)
        member.left_s = self.dialogue.now_s
        if bound != before:
            self.dialogue.warn(member.failure)
