"""The controller of a gang tells its workers what to do, so that the gang becomes what the head wants.

Level-triggered: the gang has wanted slots and a wanted configuration, and its members, and each input
moves one towards the other. A change of the batch alone is another group of the same members. The life of a
worker is in `swell.wire.messages`. The head's generations count its commands, and a command may take several
rounds of `formation`, which are the wire's generations.

What is known of the gang is one value (`gang_record`). Three modules of functions change it:

* `transition`: the change that the head wants, from its command to the answer, and the end;
* `regrouping`: workers are started and grouped towards the target of the change, also after a break, and go;
* `proof`: one of those that are to join first computes a step as the gang did.

`late_workers` acts when time passes. A break while a change is under way ends the change: the group is cut
back to what the head knows, it is told, and what is left forms again at once. A script that knows nothing of
Swell goes through the same phases, in the way of `RestartController`: a change is another set of processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swell.executors.exit_status import OVER_MEMORY
from swell.executors.gang import late_workers, proof, regrouping, training_progress, transition
from swell.executors.gang.gang_record import (
    Formation,
    Member,
    RestartSet,
    Slot,
    State,
    describe_exit,
    flatten,
    is_fault_of_script,
)
from swell.executors.gang.host_messages import Effect, WorkerExited, WorkerState
from swell.executors.gang.job_context import local_ranks
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.training_progress import report
from swell.model.command import GangCommand, LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.event import GangResized, GangStarted, JobWarned, Outcome, ScriptDistributed
from swell.model.quantities import told_workers
from swell.model.target import Configuration
from swell.script_facts import WHOLE
from swell.tally import tally_of
from swell.wire import environ, messages
from swell.wire.reports import LOSS, MOST_STEPS, value_of

#: Of a group that is to form again as it is: no group has it.
NOT_A_BATCH = 0
LOST_TOGETHER = "its host was lost together with the controller, or none could start it"


#: Topic of a warning.
SIZE = "size"
#: Under this name a line of output may say after which step its values were measured.
STEP = "step"


class GangController(GangRuntime):
    """The controller of a job's gang."""

    @property
    def generation(self) -> int:
        """Generation of the latest command."""
        return self.gang.replies.generation

    @property
    def is_over(self) -> bool:
        """The end was told: all that follows is answered with it."""
        return self.gang.replies.end is not None

    # ------------------------------------------------------------ what happens
    def command(self, command: GangCommand, now_s: float) -> list[Effect]:
        self.pass_time(now_s)
        if self.is_news(command):
            match command:
                case StopGang():
                    transition.stop(self)
                case _ if self.gang.ending is not None:
                    pass  # its end is the answer
                case SuspendGang():
                    transition.suspend(self)
                case _:
                    transition.resize(self, command)
        return self.act()

    def follow_audit(self, steps: int | None, has_found: bool, now_s: float) -> list[Effect]:
        """An audit has computed the step after so many (None: it has not), and found a difference or none."""
        self.pass_time(now_s)
        proof.follow(self, steps, has_found)
        return self.act()

    def take_over(self, facts: Mapping[int, WorkerState], now_s: float) -> list[Effect]:
        """Go on with a former controller's gang. Call it before any other method.

        What was under way is off: the head asks once more for what was not answered.

        Args:
            facts: what hosts tell of its workers, and there are no others. One of which none tells is lost.
        """
        self.pass_time(now_s)
        gang = self.gang
        gang.num_takeovers += 1
        gang.replies.generation = gang.generation
        gang.slots = gang.wanted_slots = tuple(gang.workers.values())
        gang.wanted_configuration = gang.configuration
        for number, slot in gang.workers.items():
            known = facts.get(number) or WorkerState()
            state = State.BROKEN if known.joined is None else State.TRAINING
            member = self.members[number] = Member(number, slot, now_s, state, known.pid, now_s)
            member.has_state, member.whole_round, member.steps = True, known.joined, known.steps
        gang.steps = max(self.members[number].steps for number in gang.workers)
        self._revive([facts[number] for number in gang.workers if number in facts])
        self._tell_again()
        for number in sorted(facts):
            for said in facts[number].standing:
                self._hear(said, self.members[number])
        lost = [self.lost(number, LOST_TOGETHER) for number in gang.workers.keys() - facts.keys()]
        return self.exited([*lost, *(one.exit for one in facts.values() if one.exit)], now_s)

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
            gang.setback.note("the controller of its gang was lost", self.now_s)
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

    # ------------------------------------------------------------ what workers say
    def _hear(self, message: messages.FromWorker, member: Member) -> None:
        """What is not named here belongs to other modes, and is a sign of life, no more."""
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
        self.reductions.begin(message.generation, gang.steps)

    # ------------------------------------------------------------ what follows
    def _note_exit(self, member: Member, ended: WorkerExited) -> None:
        regrouping.note_exit(self, member, ended.status, ended.log_tail)

    def _watch(self) -> None:
        if self.gang.ending is not None:
            transition.kill_late(self, self.gang.ending)
        else:
            late_workers.watch(self)

    def _go_on(self) -> None:
        if self.is_over:
            return
        if self.gang.ending is None and not self.gang.is_to_close:
            self._change()
        if self.gang.is_to_close:
            transition.close(self)
        elif self.gang.has_started:
            training_progress.reduce_values(self)

    def _change(self) -> None:
        """Take the next step towards what the head wants."""
        if regrouping.is_done(self):
            regrouping.go_on(self)


class RestartController(GangController):
    """The controller of a gang whose script knows nothing of Swell: stop all, start all, as torchrun would.

    Its workers get torchrun's environment and no orders. What a script does not save when it gets SIGTERM, or
    before, is lost with a change. Rank 0 tells how many steps its optimizer has made
    (`swell.train.runtime.unmanaged_script`); a script without an optimizer of torch's tells nothing. Rank 0
    of the script's own process group listens at its host's `MeetingPoint`.
    """

    @property
    def restarts(self) -> RestartSet:
        """The further part of its record."""
        assert self.gang.restarts is not None  # noqa: S101 - else it has another controller
        return self.gang.restarts

    # ------------------------------------------------------------ towards the next set of processes
    def _change(self) -> None:
        """Stop the processes if others are wanted, or none; start those that are wanted once all are gone."""
        gang, restarts = self.gang, self.restarts
        is_other = restarts.slots != gang.wanted_slots or gang.is_suspending
        if not self.members:
            self._start(gang.wanted_slots)
        elif restarts.leaving_s is None and is_other:
            # SIGTERM is to come in the same step of all, and not while the script writes its checkpoint.
            restarts.leaving_s = self.now_s
            self.send_signal(self.members.values(), environ.STOP_AT_STEP)
        elif restarts.leaving_s is None and all(m.pid is not None for m in self.members.values()):
            transition.finish_change(self)

    def _start(self, slots: tuple[Slot, ...]) -> None:
        restarts, spec = self.restarts, self.job.spec
        hosts = [self.job.host_of(slot) for slot in slots]
        if (point := self.job.meeting_points.get(hosts[0])) is None:
            transition.end(self, Outcome.LOST, "its host is gone")
            return
        restarts.slots = slots
        restarts.leaving_s, restarts.terminated_s = None, None
        restarts.tally.restart()
        restarts.votes.clear()
        of_all = {
            environ.WORLD_SIZE: str(len(slots)),
            environ.RESTART_COUNT: str(restarts.num_starts),
            environ.RUN_ID: self.job.job_id,
            environ.MASTER_ADDR: point.address,
            environ.MASTER_PORT: str(point.port),
        }
        if spec.cuts_batch:
            of_all[environ.LOCAL_BATCH] = str(spec.global_batch // len(slots))
        if spec.end.steps is not None:
            of_all[environ.STEPS] = str(spec.end.steps)
        for rank, (slot, place) in enumerate(zip(slots, local_ranks(hosts), strict=True)):
            near = flatten(s for s, host in zip(slots, hosts, strict=True) if host == hosts[rank])
            own = {
                environ.RANK: str(rank),
                environ.LOCAL_RANK: str(place.local_rank),
                environ.LOCAL_WORLD_SIZE: str(place.local_world_size),
                environ.GROUP_RANK: str(place.group_rank),
            }
            self.start(slot, near, **of_all, **own).state = State.TRAINING
        self.gang.formation.group = list(self.members)
        restarts.num_starts += 1

    def _watch(self) -> None:
        """Its workers give no sign of life."""
        for member in self.members.values():
            member.heard_s = self.now_s
        restarts, limits = self.restarts, self.settings
        if restarts.leaving_s is not None and self.gang.ending is None:
            if restarts.terminated_s is None and self.now_s >= restarts.leaving_s + limits.step_end_s:
                restarts.terminated_s = self.now_s
                self.send_signal(self.members.values())
            elif restarts.terminated_s is not None and self.now_s >= restarts.terminated_s + limits.restart_s:
                self.kill(self.members.values())
        super()._watch()

    def exited(self, exits: Sequence[WorkerExited], now_s: float) -> list[Effect]:
        """Which came first is not known. What others may echo counts: their job's limit, then signals, then
        errors.
        """

        def rank(end: WorkerExited) -> tuple[bool, bool, bool]:
            return end.status != OVER_MEMORY, self.is_fault(end.status), end.status == 0

        return super().exited(sorted(exits, key=rank), now_s)

    def _note_exit(self, member: Member, ended: WorkerExited) -> None:
        """An exit with 0 after SIGTERM is a stop, too: in a set that is to leave all exits are alike."""
        if self.gang.ending is not None or self.restarts.leaving_s is not None:
            return
        if status := ended.status:
            why = self._describe(member, ended)
            self.gang.setback.is_over_memory = status == OVER_MEMORY
            transition.end(self, Outcome.FAILED if self.is_fault(status) else Outcome.LOST, why)
        elif not self.members:
            transition.end(self, Outcome.SUCCEEDED, "")

    def is_fault(self, status: int) -> bool:
        """Whether another start of its processes would end the same."""
        return is_fault_of_script(status)

    def _describe(self, member: Member, ended: WorkerExited) -> str:
        return describe_exit(member, ended.status, ended.log_tail)

    # ------------------------------------------------------------ what its script tells
    def _hear(self, message: messages.FromWorker, member: Member) -> None:
        """Rank 0 says how far the gang is."""
        if self.gang.ending is not None:
            return
        match message:
            case messages.Stepped():
                self._note_steps(message)
            case messages.Reported():
                self._note_values(message)
            case messages.Distributed():
                self._note_distributed(message)
            case messages.StopVote(num_steps=num_steps):  # see `swell.train.runtime.unmanaged_script`
                votes = self.restarts.votes
                votes.setdefault(member.number, num_steps)
                most = max(votes.values()) if votes.keys() >= self.members.keys() else None
                self.send([member.number], messages.StopVoteResult(most=most))

    def _note_distributed(self, message: messages.Distributed) -> None:
        spec, stays = self.job.spec, f"the job stays at {told_workers(self.job.spec.min_workers)}"
        may_grow = spec.max_workers is None or spec.max_workers > spec.min_workers
        is_whole = message.is_by_library and not spec.cuts_batch and WHOLE not in spec.accept_differences
        if is_whole and (may_grow or spec.min_workers > 1):
            self.warn(
                f"{stays}: a library makes its steps, and each worker of it takes a whole batch, so with "
                "more workers a step would have more samples; submit it with `--global-batch SAMPLES`, and "
                "with `{local_batch}` in its arguments for the batch of one worker, or with "
                f"`--accept-differences {WHOLE}`",
                SIZE,
            )
        elif not message.is_so and may_grow:
            self.warn(
                f"{stays}: its script forms no process group and does not read WORLD_SIZE, so more would be "
                "identical copies that write the same files; call torch.distributed.init_process_group "
                f"before the first step, or submit the job with `workers: {spec.min_workers}`",
                SIZE,
            )
        elif message.is_so:
            self.restarts.is_distributed = True
            self.report(ScriptDistributed(job_id=self.job.job_id, at_s=self.now_s))
            self.warn("", SIZE)

    def _note_steps(self, message: messages.Stepped) -> None:
        restarts = self.restarts
        found, warning = restarts.tally.note(message)
        self.gang.steps = self.gang.saved_steps = restarts.tally.steps
        facts: dict[str, Any] = {"step_s": message.step_s, "found_steps": found}
        report(self, num_workers=message.num_workers, names_loss=True, **facts)
        if message.is_last and restarts.leaving_s is not None and restarts.terminated_s is None:
            restarts.terminated_s = self.now_s  # a second SIGTERM could come while it saves
        if warning:
            self.warn(warning)

    def _note_values(self, message: messages.Reported) -> None:
        """A value without a curve is a line of output, which may name its `step`."""
        training_progress.note_links(self, message)
        if message.refusal:
            self.warn(message.refusal)
        said = value_of(message.values.get(STEP, self.gang.steps))
        step = int(said) if 0 <= said < MOST_STEPS and said.is_integer() else self.gang.steps
        values = {name: value_of(value) for name, value in message.values.items()}
        printed = {name: tally_of([(step, value)], len(self.members)) for name, value in values.items()}
        curves = {name: tally for name, tally in printed.items() if tally is not None}
        before, relative = self.restarts.tally.num_before, message.relative
        for name, tally in message.curves.items():
            curves[name] = tally.moved(before) if name in relative else tally
        loss = values.pop(LOSS, None)
        if message.values or curves:
            report(self, loss=loss, names_loss=True, metrics=values, curves=curves)

    # ------------------------------------------------------------ from one controller to the next
    def _revive(self, known: Sequence[WorkerState]) -> None:
        """Its processes go on, if they were not told to leave, and no others had been started."""
        gang, restarts = self.gang, self.restarts
        gang.formation.group = list(gang.workers)
        gang.steps = gang.saved_steps = restarts.tally.steps
        if restarts.leaving_s is not None or restarts.slots != gang.slots:
            transition.end(self, Outcome.LOST, "the controller of its gang was lost while it changed")

    def _tell_again(self) -> None:
        super()._tell_again()
        if self.restarts.is_distributed:
            self.report(ScriptDistributed(job_id=self.job.job_id, at_s=self.now_s))
