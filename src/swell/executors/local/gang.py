"""The choreography of a live gang: what to say to whom so that the group becomes what the head wants.

Level-triggered: the gang holds a target and its members, and each input moves one towards the other. The
life of a worker is in `swell.wire.messages`. Groups are counted in *rounds*, which are the wire's
generations; the head's generations count its commands, and a command may take several rounds.

`_settled` mirrors what the head believes the gang to be. Whatever breaks while a change is under way ends
the change: workers that are not settled are killed, and only then is anything reported, because the head
takes a device for free as soon as it hears.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import singledispatchmethod

import msgspec

from swell.executors.local.divergence import Divergence
from swell.executors.local.effects import Effect, Facts, GangCommand, Kill, Report, Send, Spawn
from swell.executors.local.ending import Ending, early_end, left_behind, waiting
from swell.executors.local.member import Member, Roster, Slot, State, best_source, by_rank, cut_slots, flatten
from swell.executors.local.patience import Patience, describe_exit, ended_early, is_fault_of_script, overdue
from swell.executors.local.progress import Pacer
from swell.executors.local.room import half, told_of_lack
from swell.executors.local.setback import MAX_FAILED_ROUNDS, Move, Setback
from swell.executors.local.stage import Stage
from swell.model.command import LaunchGang, ResizeGang, StopGang, SuspendGang
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    JobWarned,
    Outcome,
    ResizeFailed,
    StepsReported,
    SuspendFailed,
    WorkersLost,
)
from swell.wire import messages
from swell.wire.numbers import value_of


@dataclass(slots=True)
class Change:
    """A launch or a resize whose answer is still out."""

    is_launch: bool
    failure: str = ""  #: why it is being undone
    lost: tuple[Slot, ...] = ()  #: settled slots that are gone although it failed


class Gang:
    """See `effects.Choreography`. `is_stopped` tells whether a process, by its pid, was stopped."""

    def __init__(
        self,
        stage: Stage,
        first_worker: int,
        is_stopped: Callable[[int], bool],
        saved_steps: int = 0,
        patience: Patience | None = None,
        max_local_batch: int | None = None,
    ):
        self.generation = 0
        self.steps = saved_steps
        self.saved_steps = saved_steps  #: of the newest checkpoint
        self.max_local_batch = max_local_batch  #: samples of a pass, as far as is known now
        self._stage = stage
        self._patience = patience or Patience()
        self._is_stopped = is_stopped
        self._next_worker = first_worker
        self._roster = Roster()
        self._effects: list[Effect] = []
        self._now_s = 0.0
        self._pacer = Pacer()
        self._divergence = Divergence(stage.spec.stop_on_nan)

        self._asked: tuple[type[GangCommand], int] | None = None
        self._answer: AnyEvent | None = None
        self._target: tuple[Slot, ...] = ()
        self._change: Change | None = None
        self._settled: tuple[Slot, ...] = ()
        self._settled_generation = 0

        self._round = 0
        self._setback = Setback()
        self._has_spawned = False

        self._is_suspending = False
        self._is_suspend_sent = False
        self._is_saved = False  #: since Suspend was sent
        self._has_left = False  #: somebody, since Suspend was sent
        self._ending: Ending | None = None
        self._final: messages.Finished | None = None
        self._end: GangEnded | GangSuspended | None = None

    # ------------------------------------------------------------ what it is
    @property
    def job_id(self) -> str:
        return self._stage.job_id

    @property
    def devices(self) -> tuple[str, ...]:
        return flatten(member.slot for member in by_rank(self._roster))

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(member.pid for member in by_rank(self._roster) if member.pid is not None)

    @property
    def is_over(self) -> bool:
        return self._end is not None

    # ------------------------------------------------------------ commands
    def command(self, command: GangCommand, now_s: float) -> Sequence[Effect]:
        self._now_s = now_s
        if self._end is not None:
            self._report(msgspec.structs.replace(self._end, generation=command.generation, at_s=now_s))
        elif command.generation < self.generation:
            pass  # superseded: the later one is, or will be, answered
        elif self._asked == (type(command), command.generation):
            if self._answer is not None and self._ending is None:  # else the end is the answer, in a moment
                self._report(msgspec.structs.replace(self._answer, at_s=now_s))
        else:
            self.generation = command.generation
            self._asked, self._answer = (type(command), command.generation), None
            self._obey(command)
        return self._act()

    @singledispatchmethod
    def _obey(self, command: GangCommand) -> None:
        raise TypeError(f"a gang knows no command {type(command).__name__}")

    @_obey.register
    def _(self, command: StopGang) -> None:
        if self._ending is None:
            self._end_all(Outcome.STOPPED, "")
        else:  # it need not wait for the script's last lines
            self._terminate(self._roster.members.values())
            self._ending.hurry(self._now_s + self._patience.stop_s)

    @_obey.register
    def _(self, command: SuspendGang) -> None:
        self._is_suspending, self._is_suspend_sent = True, False
        self._setback.note_word_of_head()
        if self._settled:
            self._change = None
            self._target = tuple(m.slot for m in self._roster.in_group() if m.state is not State.LEAVING)

    @_obey.register(LaunchGang)
    @_obey.register(ResizeGang)
    def _(self, command: LaunchGang | ResizeGang) -> None:
        self._change = Change(is_launch=isinstance(command, LaunchGang))
        self._is_suspending = self._is_suspend_sent = False
        self._setback.note_word_of_head()
        kept = [member.slot for member in by_rank(self._roster) if member.state is not State.LEFT]
        try:
            self._target = cut_slots(command.devices, self._stage.spec.devices_per_worker, kept)
        except ValueError as error:
            if self._settled:
                self._undo_change(str(error))
            else:
                self._end_all(Outcome.FAILED, str(error))

    # ------------------------------------------------------------ processes
    def forked(self, worker: int, pid: int, now_s: float) -> Sequence[Effect]:
        self._now_s = now_s
        if (member := self._roster.members.get(worker)) is not None:
            member.pid, member.since_s = pid, now_s  # the zygote may have had to import first
        return self._act()

    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> Sequence[Effect]:
        self._now_s = now_s
        member = self._roster.members.pop(worker, None)
        if member is not None:
            member.is_at_fault |= is_fault_of_script(status) and status != 0
            if self._ending is not None:
                self._ending.note_exit(member, status, log_tail)
            elif member.state in (State.STARTING, State.READY):
                self._lose_joiner(member, status, log_tail)
            elif member.state not in (State.LEAVING, State.LEFT):
                self._lose_member(member, status, log_tail)
        return self._act()

    def _lose_joiner(self, member: Member, status: int, log_tail: str) -> None:
        if member.is_killed and not member.failure:
            return  # it was no longer wanted
        message = describe_exit(member, status, log_tail)
        if status == 0:
            message = ended_early(self._stage.spec.entry)
        if self._settled:
            self._undo_change(message)
        else:
            is_at_fault = member.is_at_fault or status == 0
            self._end_all(Outcome.FAILED if is_at_fault else Outcome.LOST, message)

    def _lose_member(self, member: Member, status: int, log_tail: str) -> None:
        is_settled = not self._settled or member.slot in self._settled
        if status == 0:
            self._finish(member, None)
        elif member.is_at_fault and is_settled:
            self._end_all(Outcome.FAILED, describe_exit(member, status, log_tail))
        else:
            self._void_suspend()
            self._setback.note_death(describe_exit(member, status, log_tail), self._now_s)

    # ------------------------------------------------------------ what workers say
    def said(self, worker: int, message: messages.FromWorker, now_s: float) -> Sequence[Effect]:
        self._now_s = now_s
        member = self._roster.members.get(worker)
        if member is not None:
            member.heard_s = now_s
            self._hear(message, member)
        return self._act()

    @singledispatchmethod
    def _hear(self, message: messages.FromWorker, member: Member) -> None:
        """Alive, and what belongs to other modes: a sign of life, no more."""

    @_hear.register
    def _(self, message: messages.Hello, member: Member) -> None:
        member.pid = message.pid
        welcome = self._stage.welcome(member.slot, max_local_batch=self.max_local_batch)
        self._effects.append(Send(member.number, welcome))

    @_hear.register
    def _(self, message: messages.Ready, member: Member) -> None:
        if member.state is State.STARTING:
            member.state = State.READY

    @_hear.register
    def _(self, message: messages.Bound, member: Member) -> None:
        if message.generation == self._round:
            address = messages.Address(generation=self._round, address=message.address)
            others = [number for number in self._roster.group if number != member.number]
            self._effects += [Send(number, address) for number in others if number in self._roster.members]

    @_hear.register
    def _(self, message: messages.Joined, member: Member) -> None:
        if message.generation == self._round and member.state is State.FORMING:
            member.state = State.TRAINING
            member.steps = self.steps = message.steps
            member.has_state = True
            member.whole_round = self._round

    @_hear.register(messages.JoinFailed)
    @_hear.register(messages.Broken)
    def _(self, message: messages.JoinFailed | messages.Broken, member: Member) -> None:
        if message.generation not in (self._round, member.whole_round):
            return  # about a group that was given up before: a later order is on its way
        if member.state in (State.FORMING, State.TRAINING, State.LEAVING):
            member.state, member.whole_round = State.BROKEN, None
            member.steps = message.steps
            if self._ending is None:
                self._void_suspend()
                self._setback.note(message.message, self._now_s)
            else:
                self._kill(waiting(self._roster))

    @_hear.register
    def _(self, message: messages.Left, member: Member) -> None:
        member.left_s = self._now_s
        if member.state is State.LEAVING or self._is_suspend_sent:
            member.state = State.LEFT
            self._has_left = True
        else:
            member.failure = f"worker {member.number} left, on an order that had been taken back"

    @_hear.register
    def _(self, message: messages.Progress, member: Member) -> None:
        member.steps = self.steps = message.steps
        self._note_progress(message)

    @_hear.register
    def _(self, message: messages.Saved, member: Member) -> None:
        self.saved_steps = message.steps
        self._is_saved |= self._is_suspend_sent

    @_hear.register
    def _(self, message: messages.SaveFailed, member: Member) -> None:
        if self._is_suspend_sent and self._ending is None:
            self._is_suspending = self._is_suspend_sent = False
            self._asked = None  # the same command again is no repetition, but another try
            self._reply(SuspendFailed(**self._facts(), message=message.message))
        else:
            self._report(JobWarned(job_id=self.job_id, at_s=self._now_s, message=message.message))

    @_hear.register
    def _(self, message: messages.Finished, member: Member) -> None:
        self._finish(member, message)

    @_hear.register
    def _(self, message: messages.Failed, member: Member) -> None:
        member.failure, member.is_at_fault, member.left_s = message.message, True, self._now_s
        is_joiner = bool(self._settled) and member.slot not in self._settled
        if self._ending is None and not is_joiner:
            self._end_all(Outcome.FAILED, message.message, spared=member)

    @_hear.register
    def _(self, message: messages.OutOfMemory, member: Member) -> None:
        """No fault of the script's: it dies like one that was killed, and comes again with smaller passes."""
        bound = half(message.num_samples, self.max_local_batch)
        member.failure = told_of_lack(member.number, message.num_samples, bound, message.message)
        member.left_s = self._now_s
        if bound != self.max_local_batch:
            self.max_local_batch = bound
            self._report(JobWarned(job_id=self.job_id, at_s=self._now_s, message=member.failure))

    # ------------------------------------------------------------ time
    def tick(self, now_s: float) -> Sequence[Effect]:
        self._now_s = now_s
        if self._ending is not None:
            late = self._ending.cut_off(self._roster, now_s, self._patience, self._is_stopped)
            self._kill(late)
            return self._act()
        for member in self._roster.members.values():
            verdict = overdue(member, self._stage.spec.entry, now_s, self._patience, self._is_stopped)
            if verdict is not None and not member.is_killed:
                member.failure = member.failure or verdict.why
                member.is_at_fault |= verdict.is_fault_of_script
                self._kill([member])
        self._kill(self._setback.overdue(self._roster, now_s, self._patience.notice_s))
        return self._act()

    # ------------------------------------------------------------ towards the target
    def _act(self) -> Sequence[Effect]:
        if self._end is None:
            self._step()
        if self._settled and self._end is None:
            self._effects += map(Report, self._pacer.due(self._now_s))
        effects, self._effects = self._effects, []
        return effects

    def _step(self) -> None:
        if self._ending is None and self._has_spawned and not self._roster.members:
            self._note_all_gone()
        if self._ending is not None:
            self._conclude()
        if self._ending is not None or self._end is not None:
            return
        if self._setback.is_open and not self._is_break_resolved():
            return
        self._drop_unwanted()
        self._spawn_missing()
        if self._setback.is_open or not self._is_in_motion():
            self._form_next_group()

    def _drop_unwanted(self) -> None:
        self._kill(member for member in self._roster.joiners() if member.slot not in self._target)

    def _spawn_missing(self) -> None:
        if self._change is None or self._change.failure or self._is_suspend_sent:
            return
        occupied = {member.slot for member in self._roster.members.values()}
        for slot in self._target:
            if slot not in occupied:
                member = Member(self._next_worker, slot, since_s=self._now_s)
                self._next_worker += 1
                self._has_spawned = True
                self._roster.members[member.number] = member
                self._effects.append(Spawn(member.number, slot))

    def _is_in_motion(self) -> bool:
        """Whether an order is still being carried out."""
        moving = (State.FORMING, State.LEAVING, State.LEFT)
        return any(member.state in moving for member in self._roster.members.values())

    def _form_next_group(self) -> None:
        group = self._roster.next_group(self._target)
        slots = {member.slot for member in group}
        is_formed = not self._setback.is_open and [member.number for member in group] == self._roster.group
        if is_formed and slots == set(self._target):
            if self._is_suspending:
                self._suspend(group)
            elif len(group) == len(self._roster.members):
                self._settle()
        elif group and (self._setback.is_open or slots.issuperset(self._target)):
            self._regroup(group)

    def _regroup(self, group: list[Member]) -> None:
        if self._setback.is_hopeless():
            why = f"the group did not form {MAX_FAILED_ROUNDS} times in a row: {self._setback.why}"
            self._end_all(Outcome.FAILED, why)
            return
        self._round += 1
        source = best_source(group)
        has_news = self._setback.is_open or not all(member.has_state for member in group)
        chosen = {member.number for member in group}
        leavers = [m for m in self._roster.in_group() if m.number not in chosen and m.state is not State.LEFT]
        for rank, member in enumerate([*group, *leavers]):
            is_leaver = rank >= len(group)
            member.state = State.LEAVING if is_leaver else State.FORMING
            order = messages.Regroup(
                generation=self._round,
                rank=None if is_leaver else rank,
                num_workers=len(group),
                source=source,
                has_news=has_news,
                local_rank=0 if is_leaver else rank,
                local_world_size=len(group),
                max_local_batch=self.max_local_batch,
            )
            self._effects.append(Send(member.number, order))
        self._roster.group = [member.number for member in group]
        self._setback.close()

    def _settle(self) -> None:
        """The group is what it should be: say so, if somebody waits for it."""
        change, self._change = self._change, None
        self._settled = self._target
        self._setback.num_failed_rounds = 0
        if change is None:
            return
        if change.lost:
            self._reply(WorkersLost(**self._facts(), devices=flatten(change.lost), message=change.failure))
        elif change.failure:
            self._reply(ResizeFailed(**self._facts(), message=change.failure))
        else:
            if not change.is_launch:  # what the first step took is told under the old number: now or never
                self._effects += map(Report, self._pacer.flush(self._now_s))
            self._settled_generation = self.generation
            kind = GangStarted if change.is_launch else GangResized
            self._reply(kind(**self._facts(), steps=self.steps, pids=self.pids))

    def _suspend(self, group: list[Member]) -> None:
        if not self._is_suspend_sent:
            self._is_suspend_sent, self._is_saved, self._has_left = True, False, False
            order = messages.Suspend(generation=self._round)
            self._effects += [Send(member.number, order) for member in group]

    # ------------------------------------------------------------ after a break
    def _void_suspend(self) -> None:
        """An order that is out is void with the group that it was given to."""
        self._is_suspend_sent &= self._setback.is_open

    def _is_break_resolved(self) -> bool:
        """Whether a new group may form; clears away, step by step, what stands in its way."""
        match self._setback.next_move(self._roster, bool(self._settled), self._is_safe):
            case Move.WAIT:
                return False
            case Move.TELL:
                self._report_lost()  # more may be gone by now
                return False
            case Move.LOSE:
                self._end_all(Outcome.LOST, self._setback.why)
                return False
            case Move.PART:
                self._kill(self._roster.members.values())
                return False
            case Move.CUT_BACK:
                return self._is_cut_back()
            case Move.FORM:
                return True

    @property
    def _is_safe(self) -> bool:
        """Suspended, as far as the state goes: what is left to do is to be gone."""
        return self._is_suspending and self._is_saved and self._has_left

    def _is_cut_back(self) -> bool:
        """Back to what the head believes the gang to be; what cannot be kept of it is reported."""
        strangers = [m for m in self._roster.members.values() if m.slot not in self._settled]
        leaving = [m for m in self._roster.members.values() if m.state is State.LEFT]
        self._kill(strangers)
        if strangers or leaving:
            return False
        if self._is_suspending:
            self._shrink_settled()
        elif self._report_lost():
            self._change, self._setback.is_waiting = None, True
            return False
        elif self._change is not None:
            self._change.failure = self._change.failure or self._setback.why
        self._target = self._settled
        return True

    def _report_lost(self) -> bool:
        lost = self._shrink_settled()
        if lost:
            self._target = self._settled
            self._reply(WorkersLost(**self._facts(), devices=flatten(lost), message=self._setback.why))
        return bool(lost)

    def _shrink_settled(self) -> tuple[Slot, ...]:
        """Take out of `_settled`, and return, what nobody stands on any more."""
        going = (State.LEFT,) if self._setback.is_open else (State.LEAVING, State.LEFT)
        alive = {m.slot for m in self._roster.members.values() if m.state not in going}
        lost = tuple(slot for slot in self._settled if slot not in alive)
        self._settled = tuple(slot for slot in self._settled if slot in alive)
        return lost

    def _undo_change(self, why: str) -> None:
        """Go back to the settled gang; joiners are no longer wanted."""
        if self._change is not None and not self._change.failure:
            self._change.failure = why
            self._change.lost = () if self._setback.is_open else self._shrink_settled()
            self._target = self._settled

    # ------------------------------------------------------------ the end
    def _finish(self, member: Member, message: messages.Finished | None) -> None:
        """The end condition is met, or the script came to its end by itself."""
        is_leader = self._roster.group[:1] == [member.number]
        if self._ending is None:
            if self._change is not None and self._change.is_launch and not self._settled:
                self._settle()  # it was in the group, so all were
            early = early_end(self._stage, self.steps, message)
            self._ending = self._ending_as(Outcome.SUCCEEDED, early, self._patience.finish_s)
            self._kill(left_behind(self._roster, is_whole=member.whole_round == self._round))
        if message is not None and (self._final is None or is_leader):
            self._final = message
            self.steps = message.steps

    def _note_progress(self, said: messages.Progress) -> None:
        loss = None if said.loss is None else value_of(said.loss)
        metrics = {name: value_of(value) for name, value in said.metrics.items()}
        for message in self._divergence.note(said.steps, loss, said.odd_since, metrics):
            self._report(JobWarned(job_id=self.job_id, at_s=self._now_s, message=message))
        report = StepsReported(
            job_id=self.job_id,
            at_s=self._now_s,
            generation=self._settled_generation or self.generation,
            steps=said.steps,
            num_workers=said.num_workers,
            step_s=said.step_s,
            loss=loss,
            metrics=metrics,
            pause_s=said.pause_s,
        )
        self._effects += map(Report, self._pacer.add(report, self._now_s))

    def _end_all(self, outcome: Outcome, message: str, spared: Member | None = None) -> None:
        self._ending = self._ending_as(outcome, message, self._patience.stop_s)
        self._terminate(member for member in self._roster.members.values() if member is not spared)

    def _ending_as(self, outcome: Outcome, message: str, grace_s: float) -> Ending:
        return Ending(outcome, message, self._now_s, self._now_s + grace_s)

    def _note_all_gone(self) -> None:
        if self._is_safe:
            self._close(GangSuspended(**self._facts(), steps=self.saved_steps))
        else:
            self._ending = self._ending_as(Outcome.LOST, self._setback.why or "every worker is gone", 0.0)

    def _conclude(self) -> None:
        assert self._ending is not None  # noqa: S101 - the caller's condition
        if self._roster.members:
            return
        outcome = self._ending.outcome
        if self._final is not None and outcome is Outcome.SUCCEEDED:
            final = self._final
            num_workers = len(self._roster.group)
            self._note_progress(
                messages.Progress(
                    generation=self._round,
                    steps=final.steps,
                    num_workers=num_workers,
                    loss=final.loss,
                    odd_since=final.odd_since,
                    metrics=final.metrics,
                )
            )
            self.steps = final.steps
        steps = self.saved_steps if outcome is Outcome.LOST else self.steps
        self._close(GangEnded(**self._facts(), outcome=outcome, steps=steps, message=self._ending.message))

    def _close(self, event: GangEnded | GangSuspended) -> None:
        self._effects += map(Report, self._pacer.flush(self._now_s))
        self._reply(event)
        self._end = event

    # ------------------------------------------------------------ saying and doing
    def _facts(self) -> Facts:
        return {"job_id": self.job_id, "generation": self.generation, "at_s": self._now_s}

    def _reply(self, event: AnyEvent) -> None:
        self._answer = event
        self._report(event)

    def _report(self, event: AnyEvent) -> None:
        self._effects.append(Report(event))

    def _kill(self, members: Iterable[Member]) -> None:
        for member in members:
            if not member.is_killed:
                member.is_killed = True
                self._effects.append(Kill(member.number, signal.SIGKILL))

    def _terminate(self, members: Iterable[Member]) -> None:
        self._effects += [Kill(member.number, signal.SIGTERM) for member in members]
