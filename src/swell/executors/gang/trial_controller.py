"""The protocol of a trial run: processes of one part after the other (`trial_plan` says which).

What ends it otherwise is told as the script's fault or not: the head tries again what was lost through no
fault of the script.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from swell.executors.exit_status import OUT_OF_MEMORY, OVER_MEMORY, UNFIT
from swell.executors.gang.allreduce import GroupTimes
from swell.executors.gang.effects import KILL, Effect, Kill, Report, Send, Spawn, WorkerExit
from swell.executors.gang.gang_settings import GangSettings
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.member import Member, State, flatten
from swell.executors.gang.timeouts import (
    describe_exit,
    ended_early,
    is_fault_of_script,
    is_silent,
    left_loop,
    never_called,
    silent,
    stands_still,
    stopped,
    too_few_shards,
    unmeasured,
)
from swell.executors.gang.trial_plan import Part, PartKind, TrialPlan
from swell.model.command import ProfileJob
from swell.model.event import JobProfiled, Outcome, ProfilingFailed
from swell.model.failure import LOG_ENDS
from swell.model.job import MOST_BETWEEN_S, Profile
from swell.model.lengths import span
from swell.wire import messages

CALIBRATE_ENTRY = "swell.train.runtime.calibrate:main"


@dataclass(slots=True)
class PartProcesses:
    """The processes of a part, and what has become of it."""

    part: Part
    devices: tuple[str, ...]
    first: int  #: number of the worker of rank 0; those of higher ranks follow
    members: dict[int, Member] = field(default_factory=dict)  #: those that live, by number
    forked_s: float | None = None  #: the first of them, which the zygote may have to import for
    is_grouped: bool = False  #: they have been told to form a group
    joined_s: float | None = None  #: the latest of them is in the group since then
    is_measured: bool = False
    epoch_ended_s: float | None = None  #: steps are measured, and the script does what follows an epoch
    is_to_repeat: bool = False  #: to be done again: in less memory, or without a comparison
    failure: str = ""
    is_fault: bool = False  #: of the script

    @property
    def is_alone(self) -> bool:
        """Whether it is the script's own run."""
        return self.part.kind is PartKind.ALONE

    def fail(self, why: str, is_fault: bool = False) -> None:
        """It measures nothing any more; what comes first is the cause of the rest."""
        if not self.failure:
            self.failure, self.is_fault = why, is_fault and self.is_alone


class Trial:
    """Answers one `ProfileJob`, part by part; each begins once it is given devices (`begin`)."""

    def __init__(
        self,
        job: JobContext,
        command: ProfileJob,
        num_devices: int,
        times: GroupTimes,
        settings: GangSettings,
        is_stopped: Callable[[int], bool],
    ) -> None:
        """
        Args:
            num_devices: devices of the kind on its host.
            times: of the kind, and shared: they grow by what any trial run of the kind measures.
            is_stopped: whether the process of a worker was.
        """
        self.plan = TrialPlan(command, num_devices, times, settings)
        self.profile: Profile | None = None
        self.is_over = False
        self.why_not_crossed = ""  #: why a group on two hosts could not be measured
        self._job, self._command, self._settings = job, command, settings
        self._is_stopped = is_stopped
        self._next_worker = 0
        self._running: PartProcesses | None = None
        self._effects: list[Effect] = []
        self._now_s = 0.0
        self._is_called_off = False

    @property
    def devices(self) -> tuple[str, ...]:
        members = self._running.members.values() if self._running else ()
        return flatten(member.slot for member in members)

    @property
    def part(self) -> Part | None:
        """The part that has processes now."""
        return self._running.part if self._running else None

    @property
    def left(self) -> list[Part]:
        """Parts of which any may begin now, the first that should; empty while one has processes."""
        return [] if self._running or self.is_over else self.plan.left(self._now_s)

    def number_from(self, worker: int) -> None:
        """Workers before this number were used on a host that is new to it."""
        self._next_worker = max(self._next_worker, worker)

    # ------------------------------------------------------------ what happens
    def begin(self, part: Part, devices: Sequence[str], now_s: float) -> list[Effect]:
        """A part on these devices: as many for each worker, host by host."""
        self._now_s = now_s
        self._start(part, tuple(devices))
        return self._drain()

    def leave_out(self, part: Part, why: str, now_s: float) -> list[Effect]:
        """Do without a part that the answer does not need. What was measured before stays."""
        self._now_s = now_s
        self.plan.leave_out(part)
        if self._running is not None and self._running.part == part:
            self._give_up(self._running, why)
        self._finish_if_complete()
        return self._drain()

    def stop(self, now_s: float) -> list[Effect]:
        """The answer is not wanted any more; `is_over` once the processes are gone."""
        self._now_s = now_s
        self._is_called_off = True
        if self._running is None:
            self.is_over = True
        else:
            self._give_up(self._running, "the job was cancelled")
        return self._drain()

    def forked(self, worker: int, pid: int, now_s: float) -> list[Effect]:
        self._now_s = now_s
        if self._running and (member := self._running.members.get(worker)):
            member.pid, member.since_s = pid, now_s
            if self._running.forked_s is None:
                self._running.forked_s = now_s
        return self._drain()

    def said(self, worker: int, message: messages.FromWorker, now_s: float) -> list[Effect]:
        self._now_s = now_s
        if self._running and (member := self._running.members.get(worker)):
            member.heard_s = now_s
            self._hear(message, member, self._running)
        return self._drain()

    def alive(self, pulses: Mapping[int, messages.Alive], now_s: float) -> None:
        for worker in pulses:
            if self._running and (member := self._running.members.get(worker)):
                member.heard_s = now_s

    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> list[Effect]:
        self._now_s = now_s
        running = self._running
        if running and (member := running.members.pop(worker, None)):
            if not running.is_measured:
                self._note_exit(running, member, status, log_tail)
            if not running.members:
                self._end_part(running)
        return self._drain()

    def exited_together(self, exits: Sequence[WorkerExit], now_s: float) -> list[Effect]:
        return [
            effect
            for ended in exits
            for effect in self.exited(ended.worker, ended.status, ended.log_tail, now_s)
        ]

    def tick(self, now_s: float) -> list[Effect]:
        self._now_s = now_s
        if self._running is not None:
            self._watch(self._running)
        self._finish_if_complete()  # others may have measured what it waited for
        return self._drain()

    def _watch(self, running: PartProcesses) -> None:
        """Check the time limits."""
        if running.epoch_ended_s is not None:
            if self._now_s - running.epoch_ended_s >= MOST_BETWEEN_S:
                self.plan.between_s = MOST_BETWEEN_S
                self._give_up(running, "the time between epochs is long")
            return
        members, timeouts = running.members.values(), self._settings.timeouts
        for member in members:
            if stands_still(member, self._now_s, timeouts, self._is_stopped):
                self._give_up(running, stopped(member))
            elif is_silent(member, self._now_s, timeouts):
                self._give_up(running, silent(member, timeouts))
        begun_s = max((member.since_s for member in members), default=self._now_s)
        if running.part.kind is PartKind.GROUP and self.plan.is_late(self._now_s):
            self._give_up(running, "the time for more numbers of workers is over")
        elif self._now_s - begun_s > self._settings.trial_s:
            is_started = all(member.pid is not None for member in members)
            self._give_up(running, self._too_long(running, is_started), is_fault=is_started)

    def _too_long(self, running: PartProcesses, is_started: bool) -> str:
        limit_s, entry = self._settings.trial_s, self._job.spec.entry
        if not is_started:
            return f"no process for a worker was there within {span(limit_s)}; see `zygote.log`"
        if not running.is_alone:
            return f"it took longer than {span(limit_s)}"
        if self.plan.start_s is None:
            return never_called(entry, limit_s)
        return (
            f"the trial run of {entry} took longer than {span(limit_s)}; a step at the full global batch "
            "must take seconds at most: raise the smallest number of workers, or lower the batch"
        )

    # ------------------------------------------------------------ what workers say
    def _hear(self, message: messages.FromWorker, member: Member, running: PartProcesses) -> None:
        """What is not named here is a sign of life."""
        match message:
            case messages.Hello():
                self._effects.append(Send(member.number, self._welcome(running.part, member.slot)))
            case messages.Ready():
                self._note_ready(message, member, running)
            case messages.Bound(generation=generation, address=address):
                told = messages.StoreAddress(generation=generation, address=address)
                self._effects += [Send(number, told) for number in running.members if number != member.number]
            case messages.Joined():
                running.joined_s = self._now_s
            case messages.Calibrated() if running.part.sums:
                up_s = self._now_s if running.joined_s is None else running.joined_s
                launch_s = up_s - (up_s if running.forked_s is None else running.forked_s)
                self.plan.note_sums(running.part, message, launch_s)
                running.is_measured = True
            case messages.GroupStepped(step_s=step_s) if running.part.kind is PartKind.GROUP and step_s > 0.0:
                self.plan.note_group(running.part.num_workers, step_s)
                running.is_measured = True
            case messages.Profiled():
                self._note_profiled(message, member, running)
            case messages.OutOfMemory(num_samples=num_samples, message=text):
                running.is_to_repeat |= running.is_alone and self.plan.script.halve(num_samples)
                running.fail(text, is_fault=True)
            case messages.NotCompared(finding=finding):
                self.plan.script.do_not_compare(finding)
                running.is_to_repeat = running.is_alone
                running.fail(finding.text)
            case messages.JoinFailed(message=text) | messages.Broken(message=text):
                self._give_up(running, text)
            case messages.Failed():
                self._note_failed(message, running)

    def _welcome(self, part: Part, slot: tuple[str, ...]) -> messages.Welcome:
        plan, script, size = self.plan, self.plan.script, part.num_workers
        bound = script.max_local_batch
        match part.kind:
            case PartKind.SUM | PartKind.CROSSING:
                return self._job.welcome(slot, "calibrate", allreduce_bytes=plan.summed_bytes(part))
            case PartKind.ALONE:
                least, compares = script.least_workers, script.compares
                return self._job.welcome(
                    slot, "profile", script.batches, bound, compares, least_workers=least
                )
            case PartKind.GROUP:
                batches, num_steps = (plan.group_batch(size),), plan.group_steps(size)
                return self._job.welcome(slot, "group", batches, bound, group_steps=num_steps)

    def _note_ready(self, message: messages.Ready, member: Member, running: PartProcesses) -> None:
        member.state = State.READY
        if running.is_alone:
            self.plan.start_s = self._now_s - member.since_s
            self.plan.script.num_holders = message.num_holders
        elif not running.is_grouped and all(m.state is State.READY for m in running.members.values()):
            running.is_grouped = True
            for number in running.members:
                self._effects.append(Send(number, _order(running.part, number - running.first)))

    def _note_profiled(self, message: messages.Profiled, member: Member, running: PartProcesses) -> None:
        fewest = min(self.plan.script.sizes_in_memory)
        if not _is_sound(message.compute_s):
            running.fail(unmeasured(self._job.spec.entry), is_fault=True)
        elif message.num_shards is not None and message.num_shards < fewest:
            running.fail(too_few_shards(message.num_shards, fewest), is_fault=True)
        else:
            self.plan.note_script(message, self._now_s)
            running.is_measured = True
            running.epoch_ended_s = self._now_s if message.goes_on else None
            if self.plan.start_s is None:
                self.plan.start_s = self._now_s - member.since_s

    def _note_failed(self, message: messages.Failed, running: PartProcesses) -> None:
        script, text = self.plan.script, message.message
        if message.is_out_of_memory and self._is_repeated(running, script.divide_more):
            running.fail(text, is_fault=True)
            return
        text = script.describe_lack(text) if message.is_out_of_memory else text
        why = script.why_not_compared
        running.fail(f"{why.text}\n{text}" if why is not None and why.holds else text, is_fault=True)

    # ------------------------------------------------------------ how they end
    def _note_exit(self, running: PartProcesses, member: Member, status: int, log_tail: str) -> None:
        """A process has ended, and nothing was measured yet."""
        if status == 0 and not running.is_alone:
            return  # only rank 0 says what was measured
        script, text = self.plan.script, describe_exit(member, status, log_tail)
        is_lack = status in (OVER_MEMORY, OUT_OF_MEMORY) and not member.is_killed
        if is_lack and self._is_repeated(running, script.take_less):
            running.fail(text, is_fault=True)
        elif is_lack:
            self._give_up(running, script.describe_lack(text))
        elif is_fault_of_script(status) and running.is_alone:
            running.fail(self._describe_end(member, status, log_tail), is_fault=True)
        else:
            self._give_up(running, text)

    def _is_repeated(self, running: PartProcesses, take_less: Callable[[], bool]) -> bool:
        """Whether the script runs again, in less memory."""
        if not running.is_alone or running.is_measured or not take_less():
            return False
        running.is_to_repeat = True
        return True

    def _describe_end(self, member: Member, status: int, log_tail: str) -> str:
        """How a script ended by itself that has not said why."""
        if status == UNFIT:
            return describe_exit(member, status, log_tail)
        told = left_loop if member.state is State.READY else ended_early
        text = told(self._job.spec.entry, status)
        return f"{text}; {LOG_ENDS}\n{log_tail}" if log_tail else text

    def _start(self, part: Part, devices: tuple[str, ...]) -> None:
        running = self._running = PartProcesses(part, devices, self._next_worker)
        each = len(devices) // part.num_workers
        entry = CALIBRATE_ENTRY if part.sums else None
        for rank in range(part.num_workers):
            number, slot = self._next_worker, devices[rank * each : (rank + 1) * each]
            self._next_worker += 1
            running.members[number] = Member(number, slot, since_s=self._now_s)
            self._effects.append(Spawn(number, slot, entry=entry))

    def _end_part(self, running: PartProcesses) -> None:
        self._running, part = None, running.part
        if self._is_called_off:
            self.is_over = True
            return
        if running.is_to_repeat and not running.is_measured:
            self._start(part, running.devices)
            return
        if not running.is_measured:
            failure = running.failure or "rank 0 told no result"
            if part.kind is PartKind.CROSSING:
                self.why_not_crossed = failure
            if not self.plan.leave_out(part):
                self._fail(running, failure)
                return
        self._finish_if_complete()

    def _finish_if_complete(self) -> None:
        if self._running is None and not self.is_over and not self.left:
            self.profile, self.is_over = self.plan.profile(), True
            event = JobProfiled(
                at_s=self._now_s,
                job_id=self._command.job_id,
                profile=self.profile,
                attempt=self._command.attempt,
            )
            self._effects.append(Report(event))

    def _fail(self, running: PartProcesses, message: str) -> None:
        if not running.is_alone:
            size = running.part.num_workers
            message = f"the all-reduce of {size} workers was not measured: {message}"
        self.is_over = True
        event = ProfilingFailed(
            at_s=self._now_s,
            job_id=self._command.job_id,
            message=message,
            outcome=Outcome.FAILED if running.is_fault else Outcome.LOST,
            attempt=self._command.attempt,
        )
        self._effects.append(Report(event))

    def _give_up(self, running: PartProcesses, why: str, is_fault: bool = False) -> None:
        running.fail(why, is_fault)
        for member in running.members.values():
            if not member.is_killed:
                member.is_killed = True
                self._effects.append(Kill(member.number, KILL))

    def _drain(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects


def _order(part: Part, rank: int) -> messages.Regroup:
    """What a worker of a group is told."""
    num_hosts = 2 if part.kind is PartKind.CROSSING else 1
    each = part.num_workers // num_hosts
    return messages.Regroup(
        generation=1,
        rank=rank,
        num_workers=part.num_workers,
        source=None,
        has_news=False,
        local_rank=rank % each,
        local_world_size=each,
        group_rank=rank // each,
        num_hosts=num_hosts,
    )


def _is_sound(compute_s: dict[int, float]) -> bool:
    """Whether these are step times by batch: they come from a user's process, and the head relies on them."""
    return bool(compute_s) and min(compute_s) >= 1 and min(compute_s.values()) >= 0
