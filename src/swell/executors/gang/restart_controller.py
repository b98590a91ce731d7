"""The protocol of a gang whose script knows nothing of Swell: stop all, start all, as torchrun would.

Its workers get torchrun's environment and no orders. What a script does not save when it gets SIGTERM, or
before, is lost with a change. Rank 0 tells how many steps its optimizer has made
(`swell.train.runtime.unmanaged_script`); a script without an optimizer of torch's tells nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto

from swell.executors.exit_status import HOST_LOST, OVER_MEMORY
from swell.executors.gang.divergence import Divergence
from swell.executors.gang.effects import Effect, FindPort, Kill, Send, Spawn, WorkerExit
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.kept_worker import KeptExit, KeptWorker
from swell.executors.gang.local_ranks import LocalRank, local_ranks
from swell.executors.gang.member import Member, Slot, State, cut_slots, flatten
from swell.executors.gang.open_batch import refusal
from swell.executors.gang.progress import Marks, sound
from swell.executors.gang.records import EndingRecord, RestartRecord
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.script_values import ScriptValues
from swell.executors.gang.tally import StepTally
from swell.executors.gang.timeouts import Timeouts, describe_exit, is_fault_of_script, stopped
from swell.model.command import GangCommand, LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.counted import told_workers
from swell.model.event import (
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    Outcome,
    ResizeFailed,
    ScriptDistributed,
    StepsReported,
)
from swell.model.job import LOSS
from swell.wire import environ
from swell.wire.messages import Alive, Distributed, FromWorker, Reported, Stepped, StopVote, StopVotes

#: Topic of a warning.
SIZE = "size"


class RestartAim(Enum):
    RUN = auto()
    RESTART = auto()  #: everyone is to go, then a new gang starts
    SUSPEND = auto()
    END = auto()


class RestartGang:
    """See `effects.GangProtocol`.

    `is_stopped` tells whether the process of a worker was stopped. Each start asks for a free port
    (`FindPort`): rank 0 of the script's own process group listens there.
    """

    def __init__(
        self,
        stage: JobContext,
        first_worker: int,
        is_stopped: Callable[[int], bool],
        patience: Timeouts | None = None,
    ) -> None:
        self._effects: list[Effect] = []
        self._dialogue = CommandReplies(stage.job_id, self._effects)
        self._is_stopped = is_stopped
        self._tally = StepTally()
        self._values = ScriptValues()
        self._marks = Marks()
        self._divergence = Divergence(stops_on_nan=False)
        self._stage = stage
        self._patience = patience or Timeouts()
        self._next_worker = first_worker
        self._num_starts = 0
        self._running = 0  # generation of the processes that run
        self._members: dict[int, Member] = {}  # in rank order: spawned so
        self._votes: dict[int, int] = {}  # by worker: steps that it had ended when it was asked to stop
        self._target: tuple[Slot, ...] = ()
        self._asked_port: Slot | None = None  #: of the worker on whose host a port is looked for
        self._aim = RestartAim.RUN
        self._terminate_at_s = float("inf")
        self._kill_at_s = float("inf")
        self._outcome = Outcome.SUCCEEDED
        self._message = ""
        self._is_over_memory = False

    @property
    def generation(self) -> int:
        return self._dialogue.generation

    @property
    def devices(self) -> tuple[str, ...]:
        is_starting = self._asked_port is not None and self._aim is RestartAim.RESTART
        return flatten(self._target if is_starting else (m.slot for m in self._members.values()))

    @property
    def wanted_devices(self) -> tuple[str, ...]:
        return flatten(self._target)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(member.pid for member in self._members.values() if member.pid is not None)

    @property
    def steps(self) -> int:
        return self._tally.steps

    @property
    def is_over(self) -> bool:
        return self._dialogue.is_over

    # ------------------------------------------------------------ what happens
    def number_from(self, first_worker: int) -> None:
        """See `effects.GangProtocol`."""
        self._next_worker = max(self._next_worker, first_worker)

    def command(self, command: GangCommand, now_s: float) -> Sequence[Effect]:
        self._dialogue.now_s = now_s
        is_ending = self._aim is RestartAim.END
        if self._dialogue.hear(command, is_ending) and not is_ending:
            self._obey(command)
        return self._drain()

    def forked(self, worker: int, pid: int, now_s: float) -> Sequence[Effect]:
        self._dialogue.now_s = now_s
        if (member := self._members.get(worker)) is not None:
            member.pid, member.state = pid, State.TRAINING
            self._tell_started()
        return self._drain()

    def said(self, worker: int, message: FromWorker, now_s: float) -> Sequence[Effect]:
        self._dialogue.now_s = now_s
        if worker in self._members and self._aim is not RestartAim.END:
            if isinstance(message, Stepped) and self._speaks_for_gang(worker):
                self._note_steps(message)
            elif isinstance(message, Reported) and self._speaks_for_gang(worker):
                self._note_values(message)
            elif isinstance(message, Distributed):
                self._note_distributed(message)
            elif isinstance(message, StopVote):
                self._note_vote(worker, message)
        return self._drain()

    def _speaks_for_gang(self, worker: int) -> bool:
        """Whether it is on the host of rank 0, or of the first that is left; see `Formation`."""
        first = next(iter(self._members.values()))
        return self._stage.host_of(self._members[worker].slot) == self._stage.host_of(first.slot)

    def alive(self, pulses: Mapping[int, Alive], now_s: float) -> None:
        """Its workers give none."""

    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> Sequence[Effect]:
        return self.exited_together([WorkerExit(worker, status, log_tail)], now_s)

    def exited_together(self, exits: Sequence[WorkerExit], now_s: float) -> Sequence[Effect]:
        self._dialogue.now_s = now_s
        for ended in exits:
            self._note_exit(ended)
        if exits and not self._members:
            self._tell_values()
            self._go_on()
        return self._drain()

    def _note_exit(self, ended: WorkerExit) -> None:
        member, status = self._members.pop(ended.worker, None), ended.status
        if member is not None and self._aim is RestartAim.RUN and status != 0:
            is_at_fault = is_fault_of_script(status)
            why = describe_exit(member, status, ended.log_tail)
            self._is_over_memory = status == OVER_MEMORY
            self._end_all(Outcome.FAILED if is_at_fault else Outcome.LOST, why)

    def port_found(self, address: str, port: int, now_s: float) -> Sequence[Effect]:
        """The answer to `FindPort`."""
        self._dialogue.now_s = now_s
        asked, self._asked_port = self._asked_port, None
        if asked is not None and self._aim is RestartAim.RESTART and not self._members:
            if asked == self._target[0]:
                self._start(address, port)
            else:  # rank 0 is to be elsewhere by now
                self._ask_port()
        return self._drain()

    def no_port(self, why: str, now_s: float) -> Sequence[Effect]:
        """The other answer: the host is gone, or has none."""
        self._dialogue.now_s = now_s
        asked, self._asked_port = self._asked_port, None
        if asked is not None and self._aim is RestartAim.RESTART and not self._members:
            if asked == self._target[0]:
                self._end_all(Outcome.LOST, why)
                self._go_on()
            else:  # rank 0 is to be elsewhere by now
                self._ask_port()
        return self._drain()

    def tick(self, now_s: float) -> Sequence[Effect]:
        self._dialogue.now_s = now_s
        if self._values.is_due(now_s):
            self._tell_values()
        for member in self._members.values():
            self._watch(member)
        if now_s >= self._terminate_at_s:
            self._terminate(self._patience.restart_s)
        if now_s >= self._kill_at_s:
            self._kill_at_s = float("inf")
            self._effects += [Kill(number, signal.SIGKILL) for number in self._members]
        return self._drain()

    def _watch(self, member: Member) -> None:
        """A process that was stopped cannot say so; its peers would wait until their group's timeout."""
        now_s = self._dialogue.now_s
        if member.pid is None or member.is_killed or not self._is_stopped(member.number):
            member.heard_s = now_s
        elif now_s - (member.heard_s or member.since_s) > self._patience.standstill_s:
            member.is_killed, member.failure = True, stopped(member)
            self._effects.append(Kill(member.number, signal.SIGKILL))

    def _note_distributed(self, message: Distributed) -> None:
        spec = self._stage.spec
        if message.is_so:
            self._dialogue.report(ScriptDistributed(job_id=self._stage.job_id, at_s=self._dialogue.now_s))
            self._dialogue.warn("", SIZE)
        elif spec.max_workers is None or spec.max_workers > spec.min_workers:
            self._dialogue.warn(_stays_small(spec.min_workers), SIZE)

    def _note_vote(self, worker: int, vote: StopVote) -> None:
        """See `swell.train.runtime.stop_ballot`."""
        self._votes.setdefault(worker, vote.num_steps)
        have_all = self._votes.keys() >= self._members.keys()
        most = max(self._votes.values()) if have_all else None
        self._effects.append(Send(worker, StopVotes(most=most)))

    def _note_steps(self, message: Stepped) -> None:
        pause_s, warning = self._tally.note(message, self._dialogue.now_s)
        self._report(message.num_workers, message.step_s, pause_s)
        if message.is_last and self._terminate_at_s < float("inf"):
            self._await_exits(self._patience.restart_s)
        if warning:
            self._dialogue.warn(warning)

    def _note_values(self, message: Reported) -> None:
        before = self._tally.steps if self._tally.is_new else self._tally.begun_with
        curves = sound(message.curves)
        curves |= {name: curves[name].moved(before) for name in message.relative if name in curves}
        now_s, num_workers = self._dialogue.now_s, len(self._members)
        warning = self._values.note(message.values, curves, self._tally.steps, num_workers, now_s)
        for told in (warning, message.refusal):
            if told:
                self._dialogue.warn(told)

    def _tell_values(self) -> None:
        """No step has come with which they could be told."""
        if self._values:
            self._report(num_workers=0)

    def _report(self, num_workers: int, step_s: float | None = None, pause_s: float | None = None) -> None:
        loss, metrics = self._values.take()
        report = StepsReported(
            job_id=self._stage.job_id,
            generation=self._running,
            at_s=self._dialogue.now_s,
            steps=self.steps,
            num_workers=num_workers,
            step_s=step_s,
            loss=loss,
            metrics=metrics,
            pause_s=pause_s,
            curves=self._values.take_curves(),
            mark=self._marks.next(self._dialogue.now_s),
        )
        self._dialogue.report(report)
        named = (
            metrics if loss is None else {LOSS: loss, **metrics}
        )  # how its loss comes about is its own affair
        for message in self._divergence.note(self.steps, None, None, named):
            self._dialogue.warn(message)

    # ------------------------------------------------------------ what follows
    def _obey(self, command: GangCommand) -> None:
        if isinstance(command, StopGang):
            self._end_all(Outcome.STOPPED, "")
        elif isinstance(command, SuspendGang):
            self._aim = RestartAim.SUSPEND
            self._stop_at_step()
        else:
            self._aim_at(command)
        if not self._members:
            self._go_on()

    def _aim_at(self, command: LaunchGang | Reconfigure) -> None:
        if obstacle := refusal(command.target.configuration, self._stage.spec):
            self._refuse(command, obstacle)
            return
        try:
            target = cut_slots(command.target.devices, self._stage.spec.devices_per_worker, ())
        except ValueError as error:
            self._end_all(Outcome.FAILED, str(error))
            return
        if self._aim is RestartAim.RUN and target == self._target:
            self._tell_values()
            self._running = self.generation  # its workers stay, and report under the new one
            self._tell_started()
            return
        self._target = target
        self._aim = RestartAim.RESTART
        self._stop_at_step()

    def _refuse(self, command: LaunchGang | Reconfigure, why: str) -> None:
        if isinstance(command, LaunchGang):
            self._end_all(Outcome.FAILED, why)
        else:
            self._dialogue.reply(ResizeFailed(**self._dialogue.facts(), message=why))

    def _go_on(self) -> None:
        """Every process is gone. An exit with 0 after our SIGTERM is a stop: the script may not be done."""
        self._terminate_at_s = self._kill_at_s = float("inf")
        if self._aim is RestartAim.RESTART:
            self._ask_port()
        elif self._aim is RestartAim.SUSPEND:
            self._dialogue.close(GangSuspended(**self._dialogue.facts(), steps=self.steps))
        else:
            facts = self._dialogue.facts()
            self._dialogue.close(
                GangEnded(
                    **facts,
                    outcome=self._outcome,
                    steps=self.steps,
                    message=self._message,
                    is_over_memory=self._is_over_memory and self._outcome is Outcome.LOST,
                )
            )

    def _ask_port(self) -> None:
        if self._asked_port is None:
            self._asked_port = self._target[0]
            self._effects.append(FindPort(self._target[0]))

    def _start(self, address: str, port: int) -> None:
        self._aim, self._running = RestartAim.RUN, self.generation
        self._tally.restart()
        self._votes.clear()
        hosts = [self._stage.host_of(slot) for slot in self._target]
        ballot = {} if len(set(hosts)) > 1 else {environ.BALLOT: f"leaving-{self._next_worker}"}
        for rank, (slot, place) in enumerate(zip(self._target, local_ranks(hosts), strict=True)):
            member = Member(self._next_worker, slot, since_s=self._dialogue.now_s)
            self._next_worker += 1
            self._members[member.number] = member
            near = flatten(s for s, host in zip(self._target, hosts, strict=True) if host == hosts[rank])
            environment = {
                **self._environment(rank, place),
                environ.MASTER_ADDR: address,
                environ.MASTER_PORT: str(port),
                **ballot,
            }
            self._effects.append(Spawn(member.number, near, environment))
        self._num_starts += 1

    def _environment(self, rank: int, place: LocalRank) -> dict[str, str]:
        return {
            environ.RANK: str(rank),
            environ.WORLD_SIZE: str(len(self._target)),
            environ.LOCAL_RANK: str(place.local_rank),
            environ.LOCAL_WORLD_SIZE: str(place.local_world_size),
            environ.GROUP_RANK: str(place.group_rank),
            environ.RESTART_COUNT: str(self._num_starts),
            environ.RUN_ID: self._stage.job_id,
        }

    def _tell_started(self) -> None:
        if not self._dialogue.is_answered and all(m.pid is not None for m in self._members.values()):
            kind = GangResized if self._dialogue.is_asked(Reconfigure) else GangStarted
            self._dialogue.reply(kind(**self._dialogue.facts(), steps=self.steps, pids=self.pids))

    def _end_all(self, outcome: Outcome, message: str) -> None:
        self._aim, self._outcome, self._message = RestartAim.END, outcome, message
        self._terminate(self._patience.stop_s)

    def _stop_at_step(self) -> None:
        """So that SIGTERM comes in the same step of all, and not while the script writes its checkpoint."""
        self._terminate_at_s = self._dialogue.now_s + self._patience.step_end_s
        self._effects += [Kill(number, environ.STOP_AT_STEP) for number in self._members]

    def _terminate(self, grace_s: float) -> None:
        self._await_exits(grace_s)
        self._effects += [Kill(number, signal.SIGTERM) for number in self._members]

    def _await_exits(self, grace_s: float) -> None:
        """They have SIGTERM. A second one could come while they save."""
        self._terminate_at_s, self._kill_at_s = float("inf"), self._dialogue.now_s + grace_s

    # ------------------------------------------------------------ from one controller to the next
    def record(self) -> RestartRecord:
        """See `effects.GangProtocol`."""
        return RestartRecord(
            dialogue=self._dialogue.record(),
            running=self._running,
            target=self._target,
            members={number: member.slot for number, member in self._members.items()},
            aim=self._aim.name,
            ending=EndingRecord(
                outcome=self._outcome, message=self._message, is_over_memory=self._is_over_memory
            ),
            num_starts=self._num_starts,
            next_worker=self._next_worker,
            steps=self._tally.steps,
            steps_before=self._tally.begun_with,
            is_new=self._tally.is_new,
            votes=dict(self._votes),
        )

    def take_over(
        self, record: RestartRecord, kept: Mapping[int, KeptWorker], now_s: float
    ) -> Sequence[Effect]:
        """Restore a former controller's gang from its record and what hosts know of workers. Call it first.

        A worker that no host knows was never started, or is lost with its host. It counts as lost, because
        its peers would wait for it.
        """
        self._dialogue.now_s = now_s
        if record.dialogue.end is None:
            self._restore(record, kept)
        self._dialogue.restore(record.dialogue)
        if self.is_over:
            return self._drain()
        self._act_again()
        for number in record.members:
            self._hear_again(number, kept.get(number))
        if not self._members:
            self._go_on()
        else:
            self._tell_started()
        return self._drain()

    def _restore(self, record: RestartRecord, kept: Mapping[int, KeptWorker]) -> None:
        self._running, self._target, self._aim = record.running, record.target, RestartAim[record.aim]
        self._outcome, self._message = record.ending.outcome, record.ending.message
        self._is_over_memory = record.ending.is_over_memory
        self._votes = dict(record.votes)
        self._num_starts = record.num_starts
        self._next_worker = max(self._next_worker, record.next_worker)
        self._tally.restore(record.steps, record.steps_before, record.is_new)
        for number, slot in record.members.items():
            member = Member(number, slot, since_s=self._dialogue.now_s)
            worker = kept.get(number)
            if worker is not None and worker.pid is not None:
                member.pid, member.state = worker.pid, State.TRAINING
            self._members[number] = member

    def _act_again(self) -> None:
        """Signals may have been lost with the former controller."""
        if self._aim is RestartAim.END:
            self._terminate(self._patience.stop_s)
        elif self._aim is not RestartAim.RUN:
            self._stop_at_step()

    def _hear_again(self, number: int, worker: KeptWorker | None) -> None:
        for message in () if worker is None else worker.talk:
            if isinstance(message, Stepped):
                self._note_steps(message)
            elif isinstance(message, Distributed):
                self._note_distributed(message)
            elif isinstance(message, Reported):
                self._note_values(message)
            elif isinstance(message, StopVote) and worker is not None and worker.awaits(StopVotes, message):
                self._note_vote(number, message)
        never = KeptExit(status=HOST_LOST, log_tail="it was lost together with the controller")
        end = never if worker is None else worker.exit
        if end is not None:
            self._note_exit(WorkerExit(number, end.status, end.log_tail))

    def _drain(self) -> list[Effect]:
        effects = list(self._effects)
        self._effects.clear()
        return effects


def _stays_small(num: int) -> str:
    workers = told_workers(num)
    return (
        f"the job stays at {workers}: its script forms no process group and does not read WORLD_SIZE, so "
        "more would be identical copies that write the same files; call "
        "torch.distributed.init_process_group before the first step, or submit the job with "
        f"`workers: {num}`"
    )
