"""What a live gang's director makes of each thing that a worker says."""

from __future__ import annotations

from functools import singledispatch

from swell.executors.gang.drift import DRIFT
from swell.executors.gang.effects import Send
from swell.executors.gang.ending import failed_in_step, waiting
from swell.executors.gang.formation import IN_STEP
from swell.executors.gang.gang_state import Ensemble
from swell.executors.gang.member import Member, State
from swell.executors.gang.memory_limit import half, told_of_lack
from swell.executors.gang.suspension import Suspension
from swell.model.event import Outcome
from swell.model.sizes import format_bytes
from swell.wire import messages

#: The topic of warnings that end with the next checkpoint.
CHECKPOINT = "checkpoint"
#: The topic of the warning that checkpoints were lost. It stands: what was trained after them is lost.
DAMAGED = "damaged checkpoint"


@singledispatch
def hear(message: messages.FromWorker, ensemble: Ensemble, member: Member) -> None:
    """What belongs to other modes: a sign of life, no more."""


# ---------------------------------------------------------------- on the way to a group
@hear.register
def _(message: messages.Hello, ensemble: Ensemble, member: Member) -> None:
    member.pid = message.pid
    welcome = ensemble.stage.welcome(member.slot, max_local_batch=ensemble.max_local_batch)
    ensemble.effects.append(Send(member.number, welcome))


@hear.register
def _(message: messages.Alive, ensemble: Ensemble, member: Member) -> None:
    member.pulse = message


@hear.register
def _(message: messages.Ready, ensemble: Ensemble, member: Member) -> None:
    if member.state is State.STARTING:
        member.state = State.READY


@hear.register
def _(message: messages.Bound, ensemble: Ensemble, member: Member) -> None:
    ensemble.formation.pass_on(message, member)


@hear.register
def _(message: messages.Joined, ensemble: Ensemble, member: Member) -> None:
    if message.generation == ensemble.formation.round and member.state is State.FORMING:
        member.state = State.TRAINING
        member.steps = ensemble.steps = message.steps
        member.has_state = True
        member.whole_round = message.generation
        member.pulse = None  # what it waited for is over


# ---------------------------------------------------------------- when a group breaks
@hear.register(messages.JoinFailed)
@hear.register(messages.Broken)
def _(message: messages.JoinFailed | messages.Broken, ensemble: Ensemble, member: Member) -> None:
    is_newest = message.generation == ensemble.formation.round
    if message.generation == member.whole_round:
        member.whole_round = None
    elif not is_newest:
        return  # about a group that was given up before: a later order is on its way
    if member.state not in (State.FORMING, *IN_STEP):
        return
    member.steps = message.steps
    if not is_newest:  # it was told to be in the next one, and goes there at once
        ensemble.formation.abort({message.generation})
        return
    member.state = State.BROKEN
    member.pulse = None
    if ensemble.ending is None:
        ensemble.note_break(message.generation, message.message)
    else:
        ensemble.kill(waiting(ensemble.roster))


# ---------------------------------------------------------------- training
@hear.register
def _(message: messages.Progress, ensemble: Ensemble, member: Member) -> None:
    member.steps = ensemble.steps = message.steps
    ensemble.vigil.step_s = message.step_s or ensemble.vigil.step_s
    ensemble.note_progress(message)


@hear.register
def _(message: messages.Drifted, ensemble: Ensemble, member: Member) -> None:
    if told := ensemble.drift.note(message):
        ensemble.dialogue.warn(told, about=DRIFT)


@hear.register
def _(message: messages.CheckpointSaved, ensemble: Ensemble, member: Member) -> None:
    ensemble.saved_steps = message.steps
    ensemble.suspension.note_save()
    size = format_bytes(message.num_bytes)
    lack = f"its next checkpoint ({size}) does not fit on the disk of {message.path}; make room there"
    ensemble.dialogue.warn("" if message.has_room else lack, CHECKPOINT)


@hear.register
def _(message: messages.CheckpointDamaged, ensemble: Ensemble, member: Member) -> None:
    ensemble.saved_steps = message.sound_steps
    ensemble.dialogue.warn(message.message, about=DAMAGED)


@hear.register
def _(message: messages.SaveFailed, ensemble: Ensemble, member: Member) -> None:
    if ensemble.suspension.is_out and ensemble.ending is None:
        ensemble.suspension = Suspension()
        ensemble.dialogue.forget()
        ensemble.undo(message.message)
    else:
        # The same text until one is saved: each failure would be a line in the journal, on a full disk.
        since = f"since step {ensemble.saved_steps}"
        ensemble.dialogue.warn(message.message.replace(f"at step {message.steps}", since), CHECKPOINT)


# ---------------------------------------------------------------- leaving
@hear.register
def _(message: messages.Left, ensemble: Ensemble, member: Member) -> None:
    member.left_s = ensemble.now_s
    if ensemble.suspension.note_leave(message.generation) or member.state is State.LEAVING:
        member.state = State.LEFT
    else:
        member.failure = f"worker {member.number} left, on an order that had been taken back"


@hear.register
def _(message: messages.Finished, ensemble: Ensemble, member: Member) -> None:
    ensemble.finish(member, message)


@hear.register
def _(message: messages.Failed, ensemble: Ensemble, member: Member) -> None:
    member.failure = failed_in_step(member, ensemble.roster.group, message)
    member.is_at_fault, member.left_s = True, ensemble.now_s
    if ensemble.ending is None and ensemble.standing.knows(member):
        ensemble.end_all(Outcome.FAILED, member.failure, spared=member)


@hear.register
def _(message: messages.OutOfMemory, ensemble: Ensemble, member: Member) -> None:
    """No fault of the script's: it dies like one that was killed, and comes again with smaller passes."""
    bound = half(message.num_samples, ensemble.max_local_batch)
    member.failure = told_of_lack(member.number, message.num_samples, bound, message.message)
    member.left_s = ensemble.now_s
    if bound != ensemble.max_local_batch:
        ensemble.max_local_batch = bound
        ensemble.dialogue.warn(member.failure)
