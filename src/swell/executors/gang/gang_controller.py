"""The controller of a gang tells its workers what to do, so that the gang becomes what the head wants.

Level-triggered: the gang has wanted slots and a wanted configuration, and its members, and each input
moves one towards the other. A change of the batch alone is another group of the same members. The life of a
worker is in `swell.wire.messages`. The head's generations count its commands, and a command may take several
rounds of `formation`, which are the wire's generations.

What is known of the gang is one value (`gang_record`), which hosts keep. Each phase has a module of
functions that change it:

* `transition`: the change that the head wants, from its command to the answer;
* `regrouping`: workers are started and grouped towards the target of the change, also after a break;
* `departures`: workers that go;
* `shutdown`: the end, from the decision to the last process.

`late_workers` acts when time passes. A break while a change is under way ends the change: the group is cut
back to what the head knows, it is told, and what is left forms again at once. A script that knows nothing of
Swell goes through the same phases, in the way of `restarts`: a change is another set of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from swell.executors.gang import (
    departures,
    late_workers,
    regrouping,
    shutdown,
    training_progress,
    transition,
)
from swell.executors.gang.effects import Effect, Send
from swell.executors.gang.member import Member, State, flatten
from swell.executors.gang.runtime import GangRuntime
from swell.model.command import GangCommand, StopGang, SuspendGang
from swell.wire import messages


class GangController(GangRuntime):
    """The controller of a job's gang."""

    @property
    def generation(self) -> int:
        """Generation of the latest command."""
        return self.gang.replies.generation

    @property
    def wanted_devices(self) -> tuple[str, ...]:
        """Devices of the workers that the gang is to have once the change under way is done."""
        return flatten(self.gang.wanted_slots)

    @property
    def steps(self) -> int:
        """Finished, as far as is known."""
        return self.gang.steps

    @property
    def is_over(self) -> bool:
        """The end was told: all that follows is answered with it."""
        return self.gang.replies.end is not None

    # ------------------------------------------------------------ what happens
    def command(self, command: GangCommand, now_s: float) -> Sequence[Effect]:
        self.pass_time(now_s)
        if self.is_news(command):
            if isinstance(command, StopGang):
                shutdown.stop(self)
            elif isinstance(command, SuspendGang) and not self.gang.is_ending:
                transition.suspend(self)
            elif not isinstance(command, SuspendGang) and not self.gang.is_ending:
                transition.resize(self, command)
        return self.act()

    def take_over(self, now_s: float) -> Sequence[Effect]:
        """Go on with a former controller's gang. Call it before any other method."""
        self.tell_again(now_s)
        return self.act()

    def hear_again(self, worker: int, values: messages.Reported, now_s: float) -> Sequence[Effect]:
        """What a script has measured lately, of which a former controller may have told."""
        self.pass_time(now_s)
        if self.gang.formation.group[:1] == [worker] and worker in self.members:
            training_progress.note_values(self, values, self.members[worker], is_again=True)
        return self.act()

    # ------------------------------------------------------------ what follows
    def _hear(self, message: messages.FromWorker, member: Member) -> None:
        if (handle := _HANDLERS.get(type(message))) is not None:
            handle(self, message, member)

    def _note_exit(self, member: Member, status: int, log_tail: str) -> None:
        departures.note_exit(self, member, status, log_tail)

    def _watch(self) -> None:
        if self.gang.ending is not None:
            shutdown.kill_late(self, self.gang.ending)
        else:
            late_workers.watch(self)

    def _go_on(self) -> None:
        if self.is_over:
            return
        if not self.gang.is_ending and not self.gang.is_to_close:
            self._change()
        if self.gang.is_to_close:
            shutdown.close(self)
        elif self.gang.has_started:
            training_progress.reduce_values(self)

    def _change(self) -> None:
        """Take the next step towards what the head wants."""
        if regrouping.is_done(self):
            regrouping.go_on(self)


# ------------------------------------------------------------ what a message of a worker means
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
    live.warn(message.sentence, about="drift")


def _note_finding(live: GangRuntime, message: messages.ScriptFound, member: Member) -> None:
    live.warn(message.finding.sentence, about=message.finding.name)


#: Each takes the message and who has said it. What belongs to other modes is a sign of life, no more.
_HANDLERS: dict[type[messages.Message], Callable[[GangRuntime, Any, Member], None]] = {
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
    messages.ScriptFound: _note_finding,
    messages.CheckpointSaved: transition.note_saved,
    messages.CheckpointDamaged: transition.note_damaged,
    messages.SaveFailed: transition.note_save_failed,
    messages.Left: departures.note_left,
    messages.Finished: departures.note_finished,
    messages.Failed: departures.note_script_failed,
    messages.OutOfMemory: departures.note_lack,
}
