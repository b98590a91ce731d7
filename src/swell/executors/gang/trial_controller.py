"""A trial run: a gang with a script of measurements, part after part (`trial_plan` says which).

Each part has workers of its own. What ends it otherwise is told as the script's fault or not: the head tries
again what was lost through no fault of the script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from swell.executors.exit_status import OUT_OF_MEMORY, OVER_MEMORY, UNFIT
from swell.executors.gang import regrouping
from swell.executors.gang.gang_record import (
    Formation,
    GangRecord,
    Member,
    State,
    describe_exit,
    ended_early,
    is_fault_of_script,
    never_called,
    unresponsive,
)
from swell.executors.gang.host_messages import Effect, WorkerExited, trial_run
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.runtime import GangRuntime
from swell.executors.gang.trial_plan import CROSSING, GroupTimes, Part, PartKind, TrialPlan
from swell.model.command import ProfileJob
from swell.model.event import JobProfiled, Outcome, ProfilingFailed
from swell.model.failure import LOG_ENDS
from swell.model.gang_state import GangState
from swell.model.job import MOST_BETWEEN_S, JobClass, Profile
from swell.model.quantities import span
from swell.wire import messages

CALIBRATE_ENTRY = "swell.train.runtime.trial_run:calibrate"


@dataclass(slots=True)
class QueuedTrial:
    """A trial run that waits for devices, or has waited."""

    command: ProfileJob
    path: Path | None = None  #: where what it measures is kept; None: it is not
    since_s: float = 0.0  #: then less what it had waited before
    waited_s: float = 0.0  #: in all, once it has begun
    num_turns: int = 0  #: that it has had, in which its script made no step
    behind: tuple[str, ...] = ()  #: jobs for whose trial runs it waits, as was told last

    @property
    def order(self) -> tuple[int, int, int]:
        """The one with the least begins first; of equal ones the one that came first."""
        spec = self.command.spec
        return self.num_turns, list(JobClass).index(spec.job_class), -spec.priority

    @property
    def request(self) -> tuple[object, ...]:
        """Scripts fail alike where this is the same."""
        spec, what = self.command.spec, self.path or self.command.job_id
        limits = (spec.end, spec.memory_bytes, spec.needs, spec.accept_differences)
        return what, self.command.sizes, spec.entry, spec.workdir, *limits


@dataclass(slots=True)
class RunningPart:
    """A part that has workers, and what has become of it."""

    part: Part
    devices: tuple[str, ...]
    launch_s: float = 0.0  #: from the first fork, for which the zygote may have to import, to their group
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


class Trial(GangRuntime):
    """Answers one `ProfileJob`, part by part; each begins once it is given devices (`begin_part`)."""

    def __init__(self, job: JobContext, queued: QueuedTrial, num_devices: int, times: GroupTimes) -> None:
        """
        Args:
            num_devices: devices of the kind on its host.
            times: of the kind, and shared: they grow by what any trial run of the kind measures.
        """
        super().__init__(job, GangRecord())
        self.run = trial_run(job.job_id)
        self.queued, self.command = queued, queued.command
        self.plan = TrialPlan(self.command, num_devices, times)
        self.profile: Profile | None = None
        self.why_not_crossed = ""  #: why a group on two hosts could not be measured
        self.kind = self.command.device_kind
        self.host = ""  #: where the script runs
        self.script_devices: tuple[str, ...] = ()  #: that are kept for the script there
        self.is_lent = False  #: gangs keep its devices busy, or its cores
        self.other_host = ""  #: where the second of two workers on two hosts would be; empty: nowhere
        self._running: RunningPart | None = None

    @property
    def is_called_off(self) -> bool:
        """Whether its answer is not wanted any more."""
        return self.gang.state is GangState.STOPPING

    @property
    def part(self) -> Part | None:
        """The part that has processes now."""
        return self._running.part if self._running else None

    @property
    def next_part(self) -> Part | None:
        """The part that may begin now; None while one has processes."""
        return None if self._running or self.is_over else self.plan.next_part

    @property
    def is_calibrating(self) -> bool:
        """Whether it times all-reduces, or has yet to time them on one host."""
        return bool(self.plan.sums) or (self.part is not None and self.part.sums)

    @property
    def stalled_s(self) -> float:
        """For how long its script has made no step that is to be measured."""
        running = self._running
        is_to_step = running is not None and running.is_alone and not running.is_measured
        busy_s = max((member.busy_s for member in self.members.values()), default=0.0)
        return busy_s if is_to_step else 0.0

    def measures(self, host: str) -> bool:
        """Whether it has, or is about to have, processes on this host."""
        return host == self.host or (host == self.other_host and self.part == CROSSING)

    # ------------------------------------------------------------ what happens
    def begin_part(self, part: Part, devices: Sequence[str], now_s: float) -> list[Effect]:
        """A part on these devices: as many for each worker, host by host."""
        self.now_s = now_s
        self._start(part, tuple(devices))
        return self.act()

    def leave_out(self, part: Part, why: str, now_s: float) -> list[Effect]:
        """Do without a part that the answer does not need. What was measured before stays."""
        self.now_s = now_s
        self.plan.leave_out(part)
        if self._running is not None and self._running.part == part:
            self._give_up(self._running, why)
        return self.act()

    def stop(self, now_s: float) -> list[Effect]:
        """The answer is not wanted any more; `is_over` once the processes are gone."""
        self.now_s = now_s
        self.gang.become(GangState.STOPPING)
        if self._running is not None:
            self._give_up(self._running, "the job was cancelled")
        return self.act()

    def _watch(self) -> None:
        if (running := self._running) is None:
            return
        if running.epoch_ended_s is not None:
            if self.now_s - running.epoch_ended_s >= MOST_BETWEEN_S:
                self.plan.between_s = MOST_BETWEEN_S
                self._give_up(running, "the time between epochs is long")
            return
        members = self.members.values()
        for member in members:
            if why := unresponsive(member, self.now_s, self.settings):
                self._give_up(running, why)
        begun_s = max((member.since_s for member in members), default=self.now_s)
        if self.now_s - begun_s > self.settings.trial_s:
            is_started = all(member.pid is not None for member in members)
            self._give_up(running, self._too_long(running, is_started), is_fault=is_started)

    def _too_long(self, running: RunningPart, is_started: bool) -> str:
        limit_s, entry = self.settings.trial_s, self.job.spec.entry
        if not is_started:
            return f"no process for a worker was there within {span(limit_s)}; see `zygote.log`"
        if not running.is_alone:
            return f"it took longer than {span(limit_s)}"
        [member] = self.members.values()
        if self.plan.start_s is None:
            return never_called(entry, limit_s, member)
        where = member.whereabouts and f", and{member.whereabouts}"
        told = f"the trial run of {entry} took longer than {span(limit_s)}{where}; "
        if not (member.heartbeat and member.heartbeat.steps):
            return f"{told}it came to the end of no step: if that is its ordinary work, raise trial_s"
        return (
            f"{told}a step at the full global batch must take seconds at most: raise the smallest number of "
            "workers, or lower the batch"
        )

    # ------------------------------------------------------------ what workers say
    def _handle_said(self, message: messages.FromWorker, member: Member) -> None:
        """What is not named here is a sign of life."""
        running = self._running
        assert running is not None  # noqa: S101 - a part runs while it has workers
        match message:
            case messages.Alive():
                member.heartbeat = message
            case messages.Hello():
                self.send([member.number], self._welcome(running.part, member.slot))
            case messages.Ready():
                member.state = State.READY
                if running.is_alone:
                    self.plan.start_s = self.now_s - member.since_s
                elif all(each.state is State.READY for each in self.members.values()):
                    regrouping.form(self, list(self.members.values()))
            case messages.Bound():
                regrouping.pass_on(self, message, member)
            case messages.Joined():
                running.launch_s = self.now_s - min(each.since_s for each in self.members.values())
            case messages.Calibrated() if running.part.sums:
                self.plan.note_sums(running.part, message, running.launch_s)
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
            case messages.Failed(message=text):
                why = self.plan.script.why_not_compared
                text = f"{why.text}\n{text}" if why is not None and why.holds else text
                running.fail(text, is_fault=True)

    def _welcome(self, part: Part, slot: tuple[str, ...]) -> messages.Welcome:
        plan, script, size = self.plan, self.plan.script, part.num_workers
        if part.sums:
            return self.job.welcome(slot, "calibrate")
        if part.kind is PartKind.GROUP:
            return self.job.welcome(
                slot,
                "group",
                local_batches=(plan.group_batch(size),),
                max_local_batch=script.max_local_batch,
                group_steps=plan.group_steps(size),
            )
        return self.job.welcome(
            slot,
            "profile",
            local_batches=script.batches,
            worker_counts=() if self.job.spec.global_batch else script.tried_sizes,
            max_local_batch=script.max_local_batch,
            compares=script.compares,
            resumes=script.resumes,
        )

    def _note_profiled(self, message: messages.Profiled, member: Member, running: RunningPart) -> None:
        fewest, num_shards = min(self.plan.script.sizes), message.num_shards
        if not message.compute_s:
            text = (
                f"script {self.job.spec.entry} left its loop before a step could be measured in its trial "
                "run; let the job's end condition end the loop"
            )
            running.fail(text, is_fault=True)
        elif num_shards is not None and num_shards < fewest:
            text = (
                f"the script cuts each batch into {num_shards} shards, so it can use {num_shards} workers at "
                f"most, and the job is to have {fewest} or more; give elastic() shards={fewest} or more, or "
                "let the job have fewer workers"
            )
            running.fail(text, is_fault=True)
        else:
            self.plan.note_script(message)
            running.is_measured = True
            running.epoch_ended_s = self.now_s if message.goes_on else None
            if self.plan.start_s is None:
                self.plan.start_s = self.now_s - member.since_s

    # ------------------------------------------------------------ how they end
    def _note_exit(self, member: Member, ended: WorkerExited) -> None:
        running, status, log_tail = self._running, ended.status, ended.log_tail
        if running is None or running.is_measured or (status == 0 and not running.is_alone):
            return  # only rank 0 of a group says what was measured
        text = describe_exit(member, status, log_tail)
        is_lack = status in (OVER_MEMORY, OUT_OF_MEMORY) and not member.is_killed
        if is_lack and running.is_alone and self.plan.script.take_less():
            running.is_to_repeat = True
            running.fail(text, is_fault=True)
        elif not is_lack and running.is_alone and is_fault_of_script(status):
            running.fail(self._describe_end(member, status, log_tail), is_fault=True)
        else:
            self._give_up(running, text)

    def _describe_end(self, member: Member, status: int, log_tail: str) -> str:
        """How a script ended by itself that has not said why."""
        if status == UNFIT:
            return describe_exit(member, status, log_tail)
        entry = self.job.spec.entry
        text = ended_early(entry, status)
        if member.state is State.READY:
            text = (
                f"script {entry} ended with status {status} in its training loop, before its trial run had "
                "measured a step; let the job's end condition end the loop"
            )
        return f"{text}; {LOG_ENDS}\n{log_tail}" if log_tail else text

    def _start(self, part: Part, devices: tuple[str, ...]) -> None:
        self._running, self.gang.formation = RunningPart(part, devices), Formation()
        each = len(devices) // part.num_workers
        for rank in range(part.num_workers):
            slot = devices[rank * each : (rank + 1) * each]
            self.start(slot, entry=CALIBRATE_ENTRY if part.sums else None)

    def _go_on(self) -> None:
        """End the part whose workers are gone, and answer once no part is left."""
        running = self._running
        if running is not None and not self.members:
            self._running = None
            if running.is_to_repeat and not running.is_measured and not self.is_called_off:
                self._start(running.part, running.devices)
            elif not running.is_measured and not self.is_called_off:
                self._note_failure(running)
        if self._running is not None or self.is_over:
            return
        if self.is_called_off:
            self.gang.become(GangState.ENDED)
        elif self.next_part is None:
            self.gang.become(GangState.ENDED)
            self.profile = self.plan.profile()
            self.report(profiled(self.command, self.profile))

    def _note_failure(self, running: RunningPart) -> None:
        """A part has measured nothing: without one that is needed the trial run has failed."""
        part, message = running.part, running.failure or "rank 0 told no result"
        if part.kind is PartKind.CROSSING:
            self.why_not_crossed = message
        if self.plan.leave_out(part):
            return
        if not running.is_alone:
            message = f"the all-reduce of {part.num_workers} workers was not measured: {message}"
        self.gang.become(GangState.ENDED)
        outcome = Outcome.FAILED if running.is_fault else Outcome.LOST
        self.report(not_profiled(self.command, outcome, message, devices=running.devices))

    def _give_up(self, running: RunningPart, why: str, is_fault: bool = False) -> None:
        running.fail(why, is_fault)
        self.kill(self.members.values())


# ---------------------------------------------------------------- answers
def profiled(command: ProfileJob, profile: Profile) -> JobProfiled:
    return JobProfiled(at_s=0.0, job_id=command.job_id, profile=profile, attempt=command.attempt)


def not_profiled(
    command: ProfileJob,
    outcome: Outcome,
    message: str,
    is_taken: bool = False,
    devices: tuple[str, ...] = (),
) -> ProfilingFailed:
    """`is_taken`, `devices`: see `ProfilingFailed`."""
    return ProfilingFailed(
        at_s=0.0,
        job_id=command.job_id,
        message=message,
        outcome=outcome,
        attempt=command.attempt,
        is_taken=is_taken,
        devices=devices,
    )
