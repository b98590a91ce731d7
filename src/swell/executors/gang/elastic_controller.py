"""The choreography of a live gang: what to say to whom so that the group becomes what the head wants.

Level-triggered: the gang holds a target and its members, and each input moves one towards the other. The
life of a worker is in `swell.wire.messages`. The head's generations count its commands, and a command may
take several rounds of `formation`, which are the wire's generations.

`standing` mirrors what the head believes the gang to be. Whatever breaks while a change is under way ends
the change: the group is cut back to what the head knows, it is told, and what is left forms again at once.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from functools import singledispatchmethod

from swell.executors.gang.effects import Effect, Report, Spawn
from swell.executors.gang.gang_state import Ensemble
from swell.executors.gang.handlers import hear
from swell.executors.gang.job_context import Stage
from swell.executors.gang.member import Member, State, by_rank, cut_slots, flatten
from swell.executors.gang.membership import ChangeAim, PendingChange, answer
from swell.executors.gang.setback import MAX_FAILED_ROUNDS, Move
from swell.executors.gang.suspension import Suspension
from swell.executors.gang.timeouts import Patience, describe_exit, ended_early, is_fault_of_script
from swell.executors.gang.watchdog import keep_watch
from swell.model.command import GangCommand, LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.event import GangEnded, GangSuspended, Outcome, ResizeFailed
from swell.wire import messages


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
        self._parts = Ensemble(stage, patience or Patience(), saved_steps, max_local_batch)
        self._is_stopped = is_stopped
        self._next_worker = first_worker
        self._has_spawned = False

    # ------------------------------------------------------------ what it is
    @property
    def job_id(self) -> str:
        return self._parts.stage.job_id

    @property
    def generation(self) -> int:
        return self._parts.dialogue.generation

    @property
    def devices(self) -> tuple[str, ...]:
        return flatten(member.slot for member in by_rank(self._parts.roster))

    @property
    def pids(self) -> tuple[int, ...]:
        return self._parts.pids

    @property
    def steps(self) -> int:
        return self._parts.steps

    @property
    def saved_steps(self) -> int:
        """Of the newest checkpoint."""
        return self._parts.saved_steps

    @property
    def max_local_batch(self) -> int | None:
        """Samples of a pass, as far as is known now."""
        return self._parts.max_local_batch

    @property
    def is_over(self) -> bool:
        return self._parts.dialogue.is_over

    # ------------------------------------------------------------ what happens
    def command(self, command: GangCommand, now_s: float) -> Sequence[Effect]:
        self._parts.dialogue.now_s = now_s
        is_ending = self._parts.ending is not None
        is_news = self._parts.dialogue.hear(command, is_ending)
        if is_news and (not is_ending or isinstance(command, StopGang)):
            self._obey(command)
        return self._act()

    def forked(self, worker: int, pid: int, now_s: float) -> Sequence[Effect]:
        self._parts.dialogue.now_s = now_s
        if (member := self._parts.roster.members.get(worker)) is not None:
            member.pid, member.since_s = pid, now_s  # the zygote may have had to import first
        return self._act()

    def said(self, worker: int, message: messages.FromWorker, now_s: float) -> Sequence[Effect]:
        self._parts.dialogue.now_s = now_s
        member = self._parts.roster.members.get(worker)
        if member is not None:
            member.heard_s = now_s
            hear(message, self._parts, member)
        return self._act()

    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> Sequence[Effect]:
        self._parts.dialogue.now_s = now_s
        member = self._parts.roster.members.pop(worker, None)
        if member is not None:
            member.is_at_fault |= is_fault_of_script(status) and status != 0
            if self._parts.ending is not None:
                self._parts.ending.note_exit(member, status, log_tail)
            elif member.state in (State.STARTING, State.READY):
                self._lose_joiner(member, status, log_tail)
            elif member.state is not State.LEFT:
                self._lose_member(member, status, log_tail)
        return self._act()

    def tick(self, now_s: float) -> Sequence[Effect]:
        self._parts.dialogue.now_s = now_s
        keep_watch(self._parts, self._is_stopped)
        return self._act()

    # ------------------------------------------------------------ what the head wants
    @singledispatchmethod
    def _obey(self, command: GangCommand) -> None:
        raise TypeError(f"a gang knows no command {type(command).__name__}")

    @_obey.register
    def _(self, command: StopGang) -> None:
        if self._parts.ending is None:
            self._parts.end_all(Outcome.STOPPED, "")
        else:  # it need not wait for the script's last lines
            self._parts.terminate(self._parts.roster.members.values())
            self._parts.ending.hurry(self._parts.now_s + self._parts.patience.stop_s)

    @_obey.register
    def _(self, command: SuspendGang) -> None:
        if not self._parts.standing.is_settled:  # the checkpoint that it was to begin from is all there is
            self._parts.end_all(Outcome.STOPPED, "")
            return
        is_asked_again = self._parts.standing.is_suspending
        self._parts.standing.change = PendingChange(ChangeAim.SUSPEND, self._parts.now_s)
        self._parts.standing.is_unheard = False  # while it is being suspended the head names no devices
        if not is_asked_again:
            self._parts.suspension = Suspension()
            members = self._parts.roster.in_group()
            self._parts.target = tuple(m.slot for m in members if m.state is not State.LEAVING)

    @_obey.register(LaunchGang)
    @_obey.register(Reconfigure)
    def _(self, command: LaunchGang | Reconfigure) -> None:
        if not self._parts.standing.is_informed(command.target.devices):
            why = "workers had been lost when this was asked for"
            self._parts.dialogue.reply(ResizeFailed(**self._parts.dialogue.facts(), message=why))
            return
        aim = ChangeAim.LAUNCH if isinstance(command, LaunchGang) else ChangeAim.RESIZE
        self._parts.standing.change = PendingChange(aim, self._parts.now_s)
        self._parts.suspension = Suspension()
        kept = [member.slot for member in by_rank(self._parts.roster) if member.state is not State.LEFT]
        try:
            spec = self._parts.stage.spec
            self._parts.target = cut_slots(command.target.devices, spec.devices_per_worker, kept)
        except ValueError as error:
            if self._parts.standing.is_settled:
                self._parts.undo(str(error))
            else:
                self._parts.end_all(Outcome.FAILED, str(error))

    # ------------------------------------------------------------ who is gone
    def _lose_joiner(self, member: Member, status: int, log_tail: str) -> None:
        if member.slot not in self._parts.target or (member.is_killed and not member.failure):
            return  # it was no longer wanted
        message = describe_exit(member, status, log_tail)
        if status == 0:
            message = ended_early(self._parts.stage.spec.entry, status)
        if self._parts.standing.is_settled:
            self._parts.undo(message)
        else:
            is_at_fault = member.is_at_fault or status == 0
            self._parts.end_all(Outcome.FAILED if is_at_fault else Outcome.LOST, message)

    def _lose_member(self, member: Member, status: int, log_tail: str) -> None:
        is_sent_away = status == -signal.SIGKILL and member.is_killed and not member.failure
        why = "" if is_sent_away else describe_exit(member, status, log_tail)
        if status == 0:
            self._parts.finish(member, None)
        elif member.is_at_fault and self._parts.standing.knows(member):
            self._parts.end_all(Outcome.FAILED, why)
        else:
            self._parts.note_death(member, why)

    # ------------------------------------------------------------ towards the target
    def _act(self) -> Sequence[Effect]:
        if not self._parts.dialogue.is_over:
            self._step()
        if self._parts.standing.is_settled and not self._parts.dialogue.is_over:
            self._parts.effects += map(Report, self._parts.pacer.due(self._parts.now_s))
        effects = list(self._parts.effects)
        self._parts.effects.clear()
        return effects

    def _step(self) -> None:
        is_begun = self._has_spawned or self._parts.ending is not None
        if is_begun and not self._parts.roster.members:
            self._close()
        elif self._parts.ending is None and self._is_in_order():
            self._drop_unwanted()
            self._spawn_missing()
            if self._parts.setback.is_open or not self._is_in_motion():
                self._form_next_group()

    def _drop_unwanted(self) -> None:
        joiners = self._parts.roster.joiners()
        self._parts.kill(member for member in joiners if member.slot not in self._parts.target)

    def _spawn_missing(self) -> None:
        if not self._parts.standing.is_growing:
            return
        occupied = {member.slot for member in self._parts.roster.members.values()}
        for slot in self._parts.target:
            if slot not in occupied:
                member = Member(self._next_worker, slot, since_s=self._parts.now_s)
                self._next_worker += 1
                self._has_spawned = True
                self._parts.roster.members[member.number] = member
                self._parts.effects.append(Spawn(member.number, slot))

    def _is_in_motion(self) -> bool:
        """Whether an order is still being carried out."""
        moving = (State.FORMING, State.LEAVING, State.LEFT)
        return any(member.state in moving for member in self._parts.roster.members.values())

    def _form_next_group(self) -> None:
        roster, is_broken = self._parts.roster, self._parts.setback.is_open
        group = roster.next_group(self._parts.target)
        slots = {member.slot for member in group}
        is_formed = not is_broken and [member.number for member in group] == roster.group
        if is_formed and slots == set(self._parts.target):
            if self._parts.standing.is_suspending:
                self._suspend()
            elif len(group) == len(roster.members):
                self._parts.settle()
        elif group and (is_broken or slots.issuperset(self._parts.target)):
            self._regroup(group)

    def _regroup(self, group: list[Member]) -> None:
        setback = self._parts.setback
        if setback.is_hopeless():
            why = f"the group did not form {MAX_FAILED_ROUNDS} times in a row: {setback.why}"
            self._parts.end_all(Outcome.FAILED, why)
            return
        self._parts.regroup(group)

    def _suspend(self) -> None:
        if not self._parts.suspension.is_out:
            self._parts.suspension = Suspension(round=self._parts.formation.round)
            self._parts.formation.suspend(self._parts.now_s)

    # ------------------------------------------------------------ after a break
    def _is_in_order(self) -> bool:
        """Whether groups may form; clears away, step by step, what stands in the way of the next one."""
        setback, standing = self._parts.setback, self._parts.standing
        while setback.is_open:
            match setback.next_move(self._parts.roster, standing.is_settled, self._is_safe):
                case Move.LOSE:
                    self._parts.end_all(Outcome.LOST, setback.why)
                    return False
                case Move.PART:
                    self._parts.kill(self._parts.roster.members.values())
                    return False
                case Move.CUT_BACK:
                    if not self._cut_back():
                        return False
                case Move.WAIT:
                    return False
                case Move.FORM:
                    return True
        return True

    @property
    def _is_safe(self) -> bool:
        return self._parts.standing.is_suspending and self._parts.suspension.is_safe

    def _cut_back(self) -> bool:
        """Back to what the head believes the gang to be. False until all strangers are gone."""
        standing, setback = self._parts.standing, self._parts.setback
        strangers = standing.strangers(self._parts.roster)
        leaving = [m for m in self._parts.roster.members.values() if m.state is State.LEFT]
        self._parts.kill(strangers)
        if strangers or leaving:
            return False
        setback.is_cut_back = True
        change = standing.cut_back(setback.why, self._parts.roster, self._parts.target)
        if change is not None:
            self._parts.dialogue.reply(answer(change, self._parts.dialogue))
        self._parts.target = standing.slots
        return True

    # ------------------------------------------------------------ the end
    def _close(self) -> None:
        """Every process is gone."""
        dialogue, ending = self._parts.dialogue, self._parts.ending
        self._parts.note_final()
        self._parts.effects += map(Report, self._parts.pacer.flush(self._parts.now_s))
        if ending is None and self._is_safe:
            dialogue.close(GangSuspended(**dialogue.facts(), steps=self.saved_steps))
            return
        outcome = Outcome.LOST if ending is None else ending.outcome
        why = self._parts.setback.why or "every worker is gone"
        is_to_go_on = outcome in (Outcome.LOST, Outcome.STOPPED)
        end = GangEnded(
            **dialogue.facts(),
            outcome=outcome,
            steps=self.saved_steps if is_to_go_on else self.steps,
            message=why if ending is None else ending.message,
        )
        dialogue.close(end)
