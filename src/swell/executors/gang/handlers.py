"""What each message of a worker means for its gang, where the script knows Swell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from swell.executors.gang import departures, regrouping, training_progress, transition
from swell.executors.gang.effects import Send
from swell.executors.gang.member import Member, State
from swell.executors.gang.runtime import GangRuntime
from swell.wire import messages


def _greet(live: GangRuntime, message: messages.Hello, member: Member) -> None:
    member.pid = message.pid
    welcome = live.job.welcome(
        member.slot, max_local_batch=live.gang.max_local_batch, num_workers=len(live.gang.wanted_slots)
    )
    live.effects.append(Send(member.number, welcome))


def _note_alive(live: GangRuntime, message: messages.Alive, member: Member) -> None:
    member.heartbeat = message


def _note_ready(live: GangRuntime, message: messages.Ready, member: Member) -> None:
    if member.state is State.STARTING:
        member.state = State.READY


def _note_joined(live: GangRuntime, message: messages.Joined, member: Member) -> None:
    gang = live.gang
    if message.generation == gang.formation.round and member.state is State.FORMING:
        member.state = State.TRAINING
        member.steps = gang.steps = message.steps
        if not gang.has_started:
            gang.saved_steps = message.steps  # of the checkpoint that it begins from
        if gang.told_steps is not None:  # from a checkpoint, steps are made again
            gang.told_steps = min(gang.told_steps, message.steps)
        live.reductions.begin(message.generation, gang.steps)
        member.has_state = True
        member.whole_round = message.generation
        member.heartbeat = None  # what it waited for is over


def _note_drift(live: GangRuntime, message: messages.Drifted, member: Member) -> None:
    live.replies.warn(message.sentence, about="drift")


def _note_findings(live: GangRuntime, message: messages.ScriptFound, member: Member) -> None:
    for finding in message.findings:
        live.replies.warn(finding.sentence, about=finding.name)


#: Each takes the message and who has said it. What belongs to other modes is a sign of life, no more.
HANDLERS: dict[type[messages.Message], Callable[[GangRuntime, Any, Member], None]] = {
    messages.Hello: _greet,
    messages.Alive: _note_alive,
    messages.Ready: _note_ready,
    messages.Bound: regrouping.pass_on,
    messages.Joined: _note_joined,
    messages.JoinFailed: regrouping.note_join_failed,
    messages.Broken: regrouping.note_broken,
    messages.Progress: training_progress.note_steps,
    messages.Reported: training_progress.note_values,
    messages.Drifted: _note_drift,
    messages.ScriptFound: _note_findings,
    messages.CheckpointSaved: transition.note_saved,
    messages.CheckpointDamaged: transition.note_damaged,
    messages.SaveFailed: transition.note_save_failed,
    messages.Left: departures.note_left,
    messages.Finished: departures.note_finished,
    messages.Failed: departures.note_script_failed,
    messages.OutOfMemory: departures.note_lack,
}
