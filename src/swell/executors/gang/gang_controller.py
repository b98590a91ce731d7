"""The controller of a gang tells its workers what to do, so that the gang becomes what the head wants.

Level-triggered: the gang has wanted slots and a wanted configuration, and its members, and each input
moves one towards the other. A change of the batch alone is another group of the same members. The life of a
worker is in `swell.wire.messages`. The head's generations count its commands, and a command may take several
rounds of `formation`, which are the wire's generations.

What is known of the gang is one value, with a table of what may become of it (`gang_record`), which modules
of functions change: `transition` (the change that the head wants, and the end), `regrouping` (workers start,
form groups and go), `proof` (one that is to join computes a step first), `late_workers` (time passes) and
`restarting` (a script that knows nothing of Swell, which has a `RestartSet`). A break while a change is under
way ends the change: the group is cut back to what the head knows, it is told, and the rest forms again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from swell.executors.gang import late_workers, proof, regrouping, restarting, training_progress, transition
from swell.executors.gang.gang_record import Formation, Member, State
from swell.executors.gang.host_messages import Effect, WorkerExited, WorkerState
from swell.executors.gang.runtime import GangRuntime
from swell.model.command import GangCommand, LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.event import GangResized, GangStarted, JobWarned, ScriptDistributed
from swell.model.gang_state import GangState
from swell.model.target import Configuration
from swell.wire import messages

#: Of a group that is to form again as it is: no group has it.
NOT_A_BATCH = 0
LOST_TOGETHER = "its host was lost together with the controller, or none could start it"


class GangController(GangRuntime):
    """The controller of a job's gang."""

    @property
    def generation(self) -> int:
        """Generation of the latest command."""
        return self.gang.replies.generation

    # ------------------------------------------------------------ what happens
    def command(self, command: GangCommand, now_s: float) -> list[Effect]:
        self.now_s = now_s
        if self.is_news(command):
            if isinstance(command, StopGang):
                transition.stop(self)
            elif self.gang.ending is None and isinstance(command, SuspendGang):
                transition.suspend(self)
            elif self.gang.ending is None and isinstance(command, LaunchGang | Reconfigure):
                transition.resize(self, command)
        return self.act()

    def take_over(self, facts: Mapping[int, WorkerState], now_s: float) -> list[Effect]:
        """Go on with a former controller's gang. Call it before any other method.

        What was under way is off: the head asks once more for what was not answered.

        Args:
            facts: what hosts tell of its workers, and there are no others. One of which none tells is lost.
        """
        self.now_s = now_s
        gang = self.gang
        gang.num_takeovers += 1
        gang.replies.generation = gang.generation
        gang.slots = tuple(gang.workers.values())
        gang.want_as_is()
        gang.become(GangState.TRAINING)
        for number, slot in gang.workers.items():
            known = facts.get(number) or WorkerState()
            state = State.BROKEN if known.joined is None else State.TRAINING
            member = self.members[number] = Member(number, slot, now_s, state, known.pid, now_s)
            member.has_state, member.whole_round, member.steps = True, known.joined, known.steps
        gang.steps = max(self.members[number].steps for number in gang.workers)
        if gang.restarts is not None:
            restarting.revive(self, gang.restarts)
        else:
            self._revive([facts[number] for number in gang.workers if number in facts])
        self._tell_again()
        for number in sorted(facts):
            for said in facts[number].standing:
                self._handle_said(said, self.members[number])
        exits = [self.lost(number, LOST_TOGETHER) for number in gang.workers.keys() - facts.keys()]
        exits += [one.exit for one in facts.values() if one.exit]
        if gang.restarts is not None:
            exits.sort(key=partial(restarting.likeness_to_echo, self))
        return self.exited(exits, now_s)

    def _revive(self, known: Sequence[WorkerState]) -> None:
        """The group forms again. If it is whole it trains meanwhile, whatever the next ones were to be."""
        gang = self.gang
        newest, rounds = max((one.told for one in known), default=0), {one.joined for one in known}
        gang.formation = Formation(
            round=newest,
            configuration=Configuration(global_batch=NOT_A_BATCH),
            group=list(gang.workers),
            ordered_s=self.now_s,
        )
        present = min((round for round in rounds if round is not None), default=newest)
        if len(known) == len(gang.workers) and rounds == {present}:
            present += 1  # that one goes on
        else:
            gang.setback.note_break("the controller of its gang was lost", self.now_s)
        regrouping.abort(self, range(present, newest + 1))

    def _tell_again(self) -> None:
        """What the head may not have heard, or has heard before."""
        gang = self.gang
        is_launch = gang.generation == gang.launch
        gang.replies.asked = (LaunchGang if is_launch else Reconfigure).__name__, gang.generation
        done = GangStarted if is_launch else GangResized
        self.reply(done(**self.facts(), steps=gang.steps, pids=self.pids))
        for about, message in gang.warnings.items():
            self.report(JobWarned(job_id=self.job.job_id, at_s=self.now_s, message=message, about=about))
        if gang.restarts is not None and gang.restarts.is_distributed:
            self.report(ScriptDistributed(job_id=self.job.job_id, at_s=self.now_s))

    # ------------------------------------------------------------ what workers say
    def _handle_said(self, message: messages.FromWorker, member: Member) -> None:
        """What is not named here belongs to other modes, and is a sign of life, no more."""
        if self.gang.restarts is not None:
            restarting.handle_said(self, self.gang.restarts, message, member)
            return
        match message:
            case messages.Alive():
                member.heartbeat = message
            case messages.Progress():
                training_progress.note_steps(self, message, member)
            case messages.Reported():
                training_progress.note_values(self, message, member)
            case messages.Hello():
                self._greet(message, member)
            case messages.Ready() if member.state is State.STARTING:
                member.state = State.READY
            case messages.Bound():
                regrouping.pass_on(self, message, member)
            case messages.Joined():
                self._note_joined(message, member)
            case messages.JoinFailed():
                regrouping.note_join_failed(self, message, member)
            case messages.Broken():
                regrouping.note_broken(self, message, member)
            case messages.DriftFound():
                self.warn(message.sentence, about="drift")
            case messages.ScriptFound(finding=finding):
                self.warn(finding.sentence, about=finding.name)
            case messages.CheckpointSaved():
                transition.note_saved(self, message)
            case messages.CheckpointDamaged():
                transition.note_damaged(self, message)
            case messages.SaveFailed():
                transition.note_save_failed(self, message)
                proof.note_witnessed(self, None, message.message)
            case messages.Witnessed():
                proof.note_witnessed(self, message.steps)
            case messages.Proved():
                proof.note_proved(self, message, member)
            case messages.Left():
                regrouping.note_left(self, message, member)
            case messages.Finished():
                regrouping.note_finished(self, message, member)
            case messages.Failed():
                regrouping.note_script_failed(self, message, member)
            case messages.OutOfMemory():
                regrouping.note_lack(self, message, member)

    def _greet(self, message: messages.Hello, member: Member) -> None:
        member.pid = message.pid
        gang = self.gang
        welcome = self.job.welcome(
            member.slot,
            max_local_batch=gang.max_local_batch,
            verified_steps=gang.verified_steps,
            rolls_back=gang.rolls_back and not gang.has_started,
        )
        self.send([member.number], welcome)

    def _note_joined(self, message: messages.Joined, member: Member) -> None:
        gang = self.gang
        if message.generation != gang.formation.round or member.state is not State.FORMING:
            return
        member.state, member.has_state, member.whole_round = State.TRAINING, True, message.generation
        member.steps = gang.steps = message.steps
        member.heartbeat = None  # what it waited for is over
        if not gang.has_started:
            gang.saved_steps = message.steps  # of the checkpoint that it begins from
        if gang.told_steps is not None:  # from a checkpoint, steps are made again
            gang.told_steps = min(gang.told_steps, message.steps)
        self.reductions.begin_round(message.generation, gang.steps)

    # ------------------------------------------------------------ what follows
    def _note_exit(self, member: Member, ended: WorkerExited) -> None:
        if self.gang.restarts is not None:
            restarting.note_exit(self, self.gang.restarts, member, ended)
        else:
            regrouping.note_exit(self, member, ended.status, ended.log_tail)

    def _watch(self) -> None:
        if self.gang.ending is not None:
            transition.kill_late(self, self.gang.ending)
        elif self.gang.restarts is not None:
            restarting.watch(self, self.gang.restarts)
        else:
            late_workers.watch(self)

    def _go_on(self) -> None:
        if self.is_over:
            return
        if self.gang.ending is None and not self.gang.is_to_close:
            if self.gang.restarts is not None:
                restarting.go_on(self, self.gang.restarts)
            elif regrouping.is_done(self):
                regrouping.go_on(self)
        if self.gang.is_to_close:
            transition.close(self)
        elif self.gang.has_started:
            training_progress.reduce_values(self)
