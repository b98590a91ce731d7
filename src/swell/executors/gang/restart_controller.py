"""The protocol of a gang whose script knows nothing of Swell: stop all, start all, as torchrun would.

Its workers get torchrun's environment and no orders. What a script does not save when it gets SIGTERM, or
before, is lost with a change. Rank 0 tells how many steps its optimizer has made
(`swell.train.runtime.unmanaged_script`); a script without an optimizer of torch's tells nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from swell.executors.exit_status import OVER_MEMORY
from swell.executors.gang.effects import Effect, FindPort, Kill, Send, Spawn, WorkerExit
from swell.executors.gang.job_context import JobContext, refusal
from swell.executors.gang.local_ranks import LocalRank, local_ranks
from swell.executors.gang.member import Member, State, cut_slots, flatten
from swell.executors.gang.progress import Reporting, sound
from swell.executors.gang.replies import CommandReplies
from swell.executors.gang.restart_gang import RestartAim, RestartGang
from swell.executors.gang.timeouts import (
    Timeouts,
    describe_exit,
    found_port_taken,
    is_fault_of_script,
    stopped,
)
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
from swell.tally import Tally, tally_of
from swell.wire import environ
from swell.wire.findings import WHOLE, ScriptFinding
from swell.wire.messages import (
    Alive,
    Distributed,
    FromWorker,
    Reported,
    ScriptFound,
    Stepped,
    StopVote,
    StopVotes,
)
from swell.wire.metric_names import LOSS
from swell.wire.numbers import value_of
from swell.wire.reports import MOST_STEPS

#: Topic of a warning.
SIZE = "size"
#: Under this name a line of output may say after which step its values were measured.
STEP = "step"


class RestartController:
    """See `GangProtocol`.

    `is_stopped` tells whether the process of a worker was stopped. Each start asks for a free port
    (`FindPort`): rank 0 of the script's own process group listens there.
    """

    def __init__(
        self,
        job: JobContext,
        gang: RestartGang,
        is_stopped: Callable[[int], bool],
        timeouts: Timeouts | None = None,
    ) -> None:
        """`gang`: a new one, or the record of a former controller, which is to be taken over."""
        self.gang = gang
        self._effects: list[Effect] = []
        self._replies = CommandReplies(job.job_id, self._effects, gang.replies)
        self._is_stopped = is_stopped
        self._reporting = Reporting(self._replies)
        self._job = job
        self._timeouts = timeouts or Timeouts()

    @property
    def generation(self) -> int:
        return self.gang.replies.generation

    @property
    def devices(self) -> tuple[str, ...]:
        is_starting = self.gang.asked_port is not None and self.gang.aim is RestartAim.RESTART
        return flatten(
            self.gang.wanted_slots if is_starting else (m.slot for m in self.gang.members.values())
        )

    @property
    def wanted_devices(self) -> tuple[str, ...]:
        return flatten(self.gang.wanted_slots)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(member.pid for member in self.gang.members.values() if member.pid is not None)

    @property
    def steps(self) -> int:
        return self.gang.tally.steps

    @property
    def is_over(self) -> bool:
        return self._replies.is_over

    # ------------------------------------------------------------ what happens
    def number_from(self, first_worker: int) -> None:
        """See `GangProtocol`."""
        self.gang.next_worker = max(self.gang.next_worker, first_worker)

    def command(self, command: GangCommand, now_s: float) -> Sequence[Effect]:
        self._replies.pass_time(now_s)
        is_ending = self.gang.aim is RestartAim.END
        if self._replies.hear(command, is_ending) and not is_ending:
            self._obey(command)
        return self._drain()

    def forked(self, worker: int, pid: int, now_s: float) -> Sequence[Effect]:
        self._replies.pass_time(now_s)
        if (member := self.gang.members.get(worker)) is not None:
            member.pid, member.state = pid, State.TRAINING
            self._tell_started()
        return self._drain()

    def said(self, worker: int, message: FromWorker, now_s: float) -> Sequence[Effect]:
        self._replies.pass_time(now_s)
        if worker in self.gang.members and self.gang.aim is not RestartAim.END:
            if isinstance(message, Stepped) and self._speaks_for_gang(worker):
                self._note_steps(message)
            elif isinstance(message, Reported) and self._speaks_for_gang(worker):
                self._note_values(message)
            elif isinstance(message, Distributed):
                self._note_distributed(message)
            elif isinstance(message, ScriptFound):
                self._note_findings(message)
            elif isinstance(message, StopVote):
                self._note_vote(worker, message)
        return self._drain()

    def _speaks_for_gang(self, worker: int) -> bool:
        """Whether it is on the host of rank 0, or of the first that is left; see `Formation`."""
        first = next(iter(self.gang.members.values()))
        return self._job.host_of(self.gang.members[worker].slot) == self._job.host_of(first.slot)

    def alive(self, pulses: Mapping[int, Alive], now_s: float) -> None:
        """Its workers give none."""

    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> Sequence[Effect]:
        return self.exited_together([WorkerExit(worker, status, log_tail)], now_s)

    def exited_together(self, exits: Sequence[WorkerExit], now_s: float) -> Sequence[Effect]:
        self._replies.pass_time(now_s)
        for ended in exits:
            self._note_exit(ended)
        if exits and not self.gang.members:
            self._reporting.flush()
            self._go_on()
        return self._drain()

    def _note_exit(self, ended: WorkerExit) -> None:
        member, status = self.gang.members.pop(ended.worker, None), ended.status
        if member is None or status == 0:
            return
        is_bad_start = found_port_taken(ended.log_tail, self.gang.port)
        is_misjudged = is_bad_start and self.gang.outcome is Outcome.FAILED  # for what its peers met there
        if self.gang.aim is RestartAim.RUN or is_misjudged:
            is_at_fault = is_fault_of_script(status) and not is_bad_start
            why = describe_exit(member, status, ended.log_tail)
            self.gang.is_over_memory = status == OVER_MEMORY
            self._end_all(Outcome.FAILED if is_at_fault else Outcome.LOST, why)

    def port_found(self, address: str, port: int, now_s: float) -> Sequence[Effect]:
        """The answer to `FindPort`."""
        self._replies.pass_time(now_s)
        if self._takes_port():
            self._start(address, port)
        return self._drain()

    def no_port(self, why: str, now_s: float) -> Sequence[Effect]:
        """The other answer: the host is gone, or has none."""
        self._replies.pass_time(now_s)
        if self._takes_port():
            self._end_all(Outcome.LOST, why)
            self._go_on()
        return self._drain()

    def _takes_port(self) -> bool:
        """Whether a start waits for the answer that came. If rank 0 is to be elsewhere by now, ask there."""
        asked, self.gang.asked_port = self.gang.asked_port, None
        if asked is None or self.gang.aim is not RestartAim.RESTART or self.gang.members:
            return False
        if asked != self.gang.wanted_slots[0]:
            self._ask_port()
            return False
        return True

    def tick(self, now_s: float) -> Sequence[Effect]:
        self._replies.pass_time(now_s)
        now_s = self._replies.now_s
        self._reporting.report_due()
        for member in self.gang.members.values():
            self._watch(member)
        if self.gang.terminate_at_s is not None and now_s >= self.gang.terminate_at_s:
            self._terminate(self._timeouts.restart_s)
        if self.gang.kill_at_s is not None and now_s >= self.gang.kill_at_s:
            self.gang.kill_at_s = None
            self._effects += [Kill(number, signal.SIGKILL) for number in self.gang.members]
        return self._drain()

    def _watch(self, member: Member) -> None:
        """A process that was stopped cannot say so; its peers would wait until their group's timeout."""
        now_s = self._replies.now_s
        if member.pid is None or member.is_killed or not self._is_stopped(member.number):
            member.heard_s = now_s
        elif now_s - (member.heard_s or member.since_s) > self._timeouts.standstill_s:
            member.is_killed, member.failure = True, stopped(member)
            self._effects.append(Kill(member.number, signal.SIGKILL))

    def _note_distributed(self, message: Distributed) -> None:
        spec = self._job.spec
        if message.is_so and self.gang.is_held:
            return
        if message.is_so:
            self.gang.is_distributed = True
            self._tell_distributed()
            self._replies.warn("", SIZE)
        elif spec.max_workers is None or spec.max_workers > spec.min_workers:
            self._replies.warn(_stays_small(spec.min_workers), SIZE)

    def _tell_distributed(self) -> None:
        self._replies.report(ScriptDistributed(job_id=self._job.job_id, at_s=self._replies.now_s))

    def _note_findings(self, message: ScriptFound) -> None:
        """Rank 0 tells them before it tells that the script is distributed, at its first step."""
        spec = self._job.spec
        found = [finding for finding in message.findings if finding.name not in spec.accept_differences]
        self.gang.is_held = any(finding.holds for finding in found)
        may_grow = spec.max_workers is None or spec.max_workers > spec.min_workers
        for finding in found:
            holds = finding.holds and may_grow
            text = _held(finding, spec.min_workers) if holds else finding.sentence
            if may_grow or spec.min_workers > 1:
                self._replies.warn(text, SIZE if holds else finding.name)

    def _note_vote(self, worker: int, vote: StopVote) -> None:
        """See `swell.train.runtime.stop_ballot`."""
        self.gang.votes.setdefault(worker, vote.num_steps)
        have_all = self.gang.votes.keys() >= self.gang.members.keys()
        most = max(self.gang.votes.values()) if have_all else None
        self._effects.append(Send(worker, StopVotes(most=most)))

    def _note_steps(self, message: Stepped) -> None:
        pause_s, warning = self.gang.tally.note(message, self._replies.now_s)
        self._report(num_workers=message.num_workers, step_s=message.step_s, pause_s=pause_s)
        if message.is_last and self.gang.terminate_at_s is not None:
            self._await_exits(self._timeouts.restart_s)
        if warning:
            self._replies.warn(warning)

    def _note_values(self, message: Reported) -> None:
        """A value without a curve is a line of output, which may name its `step`."""
        if message.refusal:
            self._replies.warn(message.refusal)
        values = {name: value_of(value) for name, value in message.values.items()}
        step, num_workers = _step_of(values, self.steps), len(self.gang.members)
        printed = {name: tally_of([(step, value)], num_workers) for name, value in values.items()}
        curves = {name: tally for name, tally in printed.items() if tally is not None}
        self._tell_values(values, curves | self._curves_of(message))

    def _curves_of(self, message: Reported) -> dict[str, Tally]:
        curves, before = sound(message.curves), self.gang.tally.num_before
        return curves | {name: curves[name].moved(before) for name in message.relative if name in curves}

    def _tell_values(
        self, values: dict[str, float], curves: dict[str, Tally], is_again: bool = False
    ) -> None:
        loss = values.pop(LOSS, None)
        self._report(loss=loss, metrics=values, curves=curves, is_again=is_again and bool(curves))

    def _report(self, num_workers: int = 0, **facts: Any) -> None:
        """`facts`: further fields of `StepsReported`."""
        report = StepsReported(
            job_id=self._job.job_id,
            generation=self.gang.running,
            at_s=self._replies.now_s,
            steps=self.steps,
            num_workers=num_workers,
            **facts,
        )
        self._reporting.note(report, names_loss=True)

    # ------------------------------------------------------------ what follows
    def _obey(self, command: GangCommand) -> None:
        if isinstance(command, StopGang):
            self._end_all(Outcome.STOPPED, "")
        elif isinstance(command, SuspendGang):
            self.gang.aim = RestartAim.SUSPEND
            self._stop_at_step()
        else:
            self._aim_at(command)
        if not self.gang.members:
            self._go_on()

    def _aim_at(self, command: LaunchGang | Reconfigure) -> None:
        if obstacle := refusal(command.target.configuration, self._job.spec):
            self._refuse(command, obstacle)
            return
        self.gang.wanted_configuration = command.target.configuration
        if isinstance(command, LaunchGang):
            self.gang.known_configuration = command.target.configuration
        try:
            target = cut_slots(command.target.devices, self._job.spec.devices_per_worker, ())
        except ValueError as error:
            self._end_all(Outcome.FAILED, str(error))
            return
        if self.gang.aim is RestartAim.RUN and target == self.gang.wanted_slots:
            self._reporting.flush()
            self.gang.running = self.generation  # its workers stay, and report under the new one
            self._tell_started()
            return
        self.gang.wanted_slots = target
        self.gang.aim = RestartAim.RESTART
        self._stop_at_step()

    def _refuse(self, command: LaunchGang | Reconfigure, why: str) -> None:
        if isinstance(command, LaunchGang):
            self._end_all(Outcome.FAILED, why)
        else:
            self.gang.wanted_configuration = self.gang.known_configuration
            self._replies.reply(ResizeFailed(**self._replies.facts(), message=why))

    def _go_on(self) -> None:
        """Every process is gone. An exit with 0 after our SIGTERM is a stop: the script may not be done."""
        self.gang.terminate_at_s = self.gang.kill_at_s = None
        if self.gang.aim is RestartAim.RESTART:
            self._ask_port()
        elif self.gang.aim is RestartAim.SUSPEND:
            self._replies.close(GangSuspended(**self._replies.facts(), steps=self.steps))
        else:
            facts = self._replies.facts()
            self._replies.close(
                GangEnded(
                    **facts,
                    outcome=self.gang.outcome,
                    steps=self.steps,
                    message=self.gang.message,
                    is_over_memory=self.gang.is_over_memory and self.gang.outcome is Outcome.LOST,
                )
            )

    def _ask_port(self) -> None:
        if self.gang.asked_port is None:
            self.gang.asked_port = self.gang.wanted_slots[0]
            self._effects.append(FindPort(self.gang.wanted_slots[0]))

    def _start(self, address: str, port: int) -> None:
        self.gang.aim, self.gang.running = RestartAim.RUN, self.generation
        self.gang.port = port
        self.gang.tally.restart()
        self.gang.votes.clear()
        hosts = [self._job.host_of(slot) for slot in self.gang.wanted_slots]
        ballot = {} if len(set(hosts)) > 1 else {environ.BALLOT: f"leaving-{self.gang.next_worker}"}
        for rank, (slot, place) in enumerate(zip(self.gang.wanted_slots, local_ranks(hosts), strict=True)):
            member = Member(self.gang.next_worker, slot, since_s=self._replies.now_s)
            self.gang.next_worker += 1
            self.gang.members[member.number] = member
            near = flatten(
                s for s, host in zip(self.gang.wanted_slots, hosts, strict=True) if host == hosts[rank]
            )
            environment = {
                **self._environment(rank, place),
                environ.MASTER_ADDR: address,
                environ.MASTER_PORT: str(port),
                **ballot,
            }
            self._effects.append(Spawn(member.number, near, environment))
        self.gang.num_starts += 1

    def _environment(self, rank: int, place: LocalRank) -> dict[str, str]:
        return {
            environ.RANK: str(rank),
            environ.WORLD_SIZE: str(len(self.gang.wanted_slots)),
            environ.LOCAL_RANK: str(place.local_rank),
            environ.LOCAL_WORLD_SIZE: str(place.local_world_size),
            environ.GROUP_RANK: str(place.group_rank),
            environ.RESTART_COUNT: str(self.gang.num_starts),
            environ.RUN_ID: self._job.job_id,
            **({environ.WHOLE_BATCHES: "1"} if WHOLE in self._job.spec.accept_differences else {}),
        }

    def _tell_started(self) -> None:
        """Tell that the gang runs, once each worker of the start that was asked for last has its process."""
        is_wanted = self.gang.aim is RestartAim.RUN and self.gang.replies.answer is None
        if is_wanted and all(m.pid is not None for m in self.gang.members.values()):
            self.gang.known_configuration = self.gang.wanted_configuration
            kind = GangResized if self.gang.replies.is_asked(Reconfigure) else GangStarted
            self._replies.reply(kind(**self._replies.facts(), steps=self.steps, pids=self.pids))

    def _end_all(self, outcome: Outcome, message: str) -> None:
        self.gang.aim, self.gang.outcome, self.gang.message = RestartAim.END, outcome, message
        self._terminate(self._timeouts.stop_s)

    def _stop_at_step(self) -> None:
        """So that SIGTERM comes in the same step of all, and not while the script writes its checkpoint."""
        self.gang.terminate_at_s = self._replies.now_s + self._timeouts.step_end_s
        self._effects += [Kill(number, environ.STOP_AT_STEP) for number in self.gang.members]

    def _terminate(self, grace_s: float) -> None:
        self._await_exits(grace_s)
        self._effects += [Kill(number, signal.SIGTERM) for number in self.gang.members]

    def _await_exits(self, grace_s: float) -> None:
        """They have SIGTERM. A second one could come while they save."""
        self.gang.terminate_at_s, self.gang.kill_at_s = None, self._replies.now_s + grace_s

    # ------------------------------------------------------------ from one controller to the next
    def take_over(self, now_s: float) -> Sequence[Effect]:
        """See `GangProtocol`."""
        self._replies.take_over(now_s)
        self.gang.tally.heard_s = None  # what the change before took may have been told
        if self.gang.is_distributed:
            self._tell_distributed()
        if self.gang.asked_port is not None:
            self._effects.append(FindPort(self.gang.asked_port))
        return self._drain()

    def hear_again(self, worker: int, values: Reported, now_s: float) -> Sequence[Effect]:
        """See `GangProtocol`. Curves of values take the place of those that a former controller told.

        So no curve is told that may begin where processes of an earlier start ended, nor what was printed, of
        which hosts keep no curve: it would count twice.
        """
        self._replies.pass_time(now_s)
        is_first, before = self.gang.num_starts == 1, self.gang.tally.num_before
        told = self._curves_of(values).items()
        curves = {name: tally for name, tally in told if is_first or tally.first_step > before}
        measured = {name: value_of(value) for name, value in values.values.items()}
        self._tell_values(measured, curves, is_again=True)
        return self._drain()

    def _drain(self) -> list[Effect]:
        effects = list(self._effects)
        self._effects.clear()
        return effects


def _step_of(values: Mapping[str, float], steps: int) -> int:
    """After which step the values were measured, as they say, if that is a step."""
    step = values.get(STEP, float(steps))
    return int(step) if 0 <= step < MOST_STEPS and step.is_integer() else steps


def _held(finding: ScriptFinding, num: int) -> str:
    return (
        f"the job stays at {told_workers(num)}: {finding.sentence}; or submit it with "
        f"`--accept-differences {finding.name}`"
    )


def _stays_small(num: int) -> str:
    workers = told_workers(num)
    return (
        f"the job stays at {workers}: its script forms no process group and does not read WORLD_SIZE, so "
        "more would be identical copies that write the same files; call "
        "torch.distributed.init_process_group before the first step, or submit the job with "
        f"`workers: {num}`"
    )
