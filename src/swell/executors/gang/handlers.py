"""What each message of a worker means for its gang."""

from __future__ import annotations

from functools import singledispatch

from swell.executors.gang import departures, formation, regrouping, training_progress, transition
from swell.executors.gang.effects import Send
from swell.executors.gang.member import Member, State
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.timeouts import half, told_of_lack
from swell.wire import messages


@singledispatch
def hear(message: messages.Message, live: GangRuntime, member: Member) -> None:
    """What belongs to other modes: a sign of life, no more."""


# ---------------------------------------------------------------- on the way to a group
@hear.register
def _(message: messages.Hello, live: GangRuntime, member: Member) -> None:
    member.pid = message.pid
    live.effects.append(Send(member.number, live.welcome(member)))


@hear.register
def _(message: messages.Alive, live: GangRuntime, member: Member) -> None:
    member.heartbeat = message


@hear.register
def _(message: messages.Ready, live: GangRuntime, member: Member) -> None:
    if member.state is State.STARTING:
        member.state = State.READY


@hear.register
def _(message: messages.Bound, live: GangRuntime, member: Member) -> None:
    formation.pass_on(live, message, member)


@hear.register
def _(message: messages.Joined, live: GangRuntime, member: Member) -> None:
    if message.generation == live.gang.formation.round and member.state is State.FORMING:
        member.state = State.TRAINING
        member.steps = live.gang.steps = message.steps
        if live.gang.told_steps is not None:  # from a checkpoint, steps are made again
            live.gang.told_steps = min(live.gang.told_steps, message.steps)
        training_progress.begin_group(live, message.generation)
        member.has_state = True
        member.whole_round = message.generation
        member.heartbeat = None  # what it waited for is over


@hear.register
def _(message: messages.JoinFailed, live: GangRuntime, member: Member) -> None:
    regrouping.note_join_failed(live, message, member)


@hear.register
def _(message: messages.Broken, live: GangRuntime, member: Member) -> None:
    regrouping.note_broken(live, message, member)


# ---------------------------------------------------------------- training
@hear.register
def _(message: messages.Progress, live: GangRuntime, member: Member) -> None:
    member.steps = message.steps
    live.gang.steps = message.steps
    live.gang.hang_detector.step_s = message.step_s or live.gang.hang_detector.step_s
    formation.note_told(live, message.curves)
    training_progress.note_steps(live, message)


@hear.register
def _(message: messages.Reported, live: GangRuntime, member: Member) -> None:
    formation.note_told(live, message.curves)
    training_progress.note_values(live, message, member.number)


@hear.register
def _(message: messages.Drifted, live: GangRuntime, member: Member) -> None:
    training_progress.note_drift(live, message)


@hear.register
def _(message: messages.ScriptFound, live: GangRuntime, member: Member) -> None:
    for finding in message.findings:
        live.replies.warn(finding.sentence, about=finding.name)


@hear.register
def _(message: messages.CheckpointSaved, live: GangRuntime, member: Member) -> None:
    transition.note_saved(live, message)


@hear.register
def _(message: messages.CheckpointDamaged, live: GangRuntime, member: Member) -> None:
    transition.note_damaged(live, message)


@hear.register
def _(message: messages.SaveFailed, live: GangRuntime, member: Member) -> None:
    transition.note_save_failed(live, message)


# ---------------------------------------------------------------- leaving
@hear.register
def _(message: messages.Left, live: GangRuntime, member: Member) -> None:
    departures.note_left(live, message, member)


@hear.register
def _(message: messages.Finished, live: GangRuntime, member: Member) -> None:
    departures.note_finished(live, member, message)


@hear.register
def _(message: messages.Failed, live: GangRuntime, member: Member) -> None:
    departures.note_script_failed(live, message, member)


@hear.register
def _(message: messages.OutOfMemory, live: GangRuntime, member: Member) -> None:
    """No fault of the script's: it dies like one that was killed, and comes again with smaller passes."""
    before = live.gang.max_local_batch
    live.gang.max_local_batch = bound = half(message.num_samples, before)
    member.failure = told_of_lack(member.number, message.num_samples, bound, message.message)
    member.left_s = live.now_s
    if bound != before:
        live.replies.warn(member.failure)
