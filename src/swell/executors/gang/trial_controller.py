"""The protocol of a trial run: what a job's step takes alone, and what its all-reduce would take.

First, once for each kind of device, groups of two, four and eight workers are timed as they start, and
measure all-reduces by size; where there are several hosts, so do groups with one worker on each of them, and
with as many as there are devices. Then
one worker runs the script through its own loop with every local batch that a gang size would give it; where
memory runs out another one does, with passes half as large. It goes on to what the script does between two
epochs, for `MOST_BETWEEN_S` at most. If the script's gradients are larger than all that were measured, the
groups then measure an all-reduce of that size. Last, if there is time for it, groups of workers make steps
of the script together, on idle devices.

What ends it otherwise is told as the script's fault or not: the head tries again what was lost through no
fault of the script.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatchmethod

import msgspec

from swell.executors.exit_status import OUT_OF_MEMORY, OVER_MEMORY, UNFIT
from swell.executors.gang.allreduce import (
    CrossingTable,
    GroupTimes,
    allreduce_s,
    crossing_s,
    is_measured,
    send_s_per_byte,
    sizes_to_measure,
    spreads_to_measure,
)
from swell.executors.gang.effects import Effect, Kill, Report, Send, Spawn, WorkerExit
from swell.executors.gang.gang_settings import GangSettings
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.least_workers_search import LeastWorkersSearch
from swell.executors.gang.member import Member, State
from swell.executors.gang.timeouts import (
    describe_exit,
    ended_early,
    half,
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
from swell.executors.gang.trial_batches import local_batches
from swell.model.command import ProfileJob
from swell.model.event import JobProfiled, Outcome, ProfilingFailed
from swell.model.failure import LOG_ENDS
from swell.model.findings import JobFinding
from swell.model.job import MOST_BETWEEN_S, BetweenSteps, Profile
from swell.model.lengths import span
from swell.wire import messages
from swell.wire.findings import ScriptFinding, not_compared
from swell.wire.job_lengths import JobLength

CALIBRATE_ENTRY = "swell.train.runtime.calibrate:main"
#: Steps of a group that are timed.
LEAST_GROUP_STEPS, MOST_GROUP_STEPS = 3, 20


@dataclass(slots=True)
class TrialPart:
    """One set of processes: a calibration, or (no `size`) the script's own run."""

    size: int | None
    devices: tuple[str, ...]
    num_hosts: int = 1  #: that its workers are on, as many on each
    is_stepping: bool = False  #: its workers run the script, and make steps together
    members: dict[int, Member] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)  #: by rank
    grouped_s: float | None = None  #: its workers have been told to form a group since then
    forked_s: float | None = None  #: the first member, which the zygote may have to import for
    joined_s: float | None = None  #: the latest member is in the group since then
    is_measured: bool = False
    epoch_ended_s: float | None = None  #: steps are measured, and the script does what follows an epoch
    is_to_repeat: bool = False  #: to be done again: with smaller passes, or without a comparison
    is_unformed: bool = False  #: its workers were there, and did not become a group
    failure: str = ""
    is_fault: bool = False  #: of the script

    @property
    def is_crossing(self) -> bool:
        return self.num_hosts > 1

    def fail(self, why: str, is_fault: bool = False) -> None:
        """It measures nothing any more; what comes first is the cause of the rest."""
        if not self.failure:
            self.failure, self.is_fault = why, is_fault and self.size is None


class Trial:
    """Answers one `ProfileJob`, part by part; each begins when somebody gives it devices (`begin_part`).

    `table` and `crossing` (of groups on several hosts) are of the device kind, and shared: they grow by what
    any trial run of the kind measures.
    """

    def __init__(
        self,
        job: JobContext,
        command: ProfileJob,
        first_worker: int,
        num_devices: int,
        table: dict[int, GroupTimes],
        settings: GangSettings,
        is_stopped: Callable[[int], bool],
        crossing: CrossingTable | None = None,
        devices_of_hosts: Sequence[int] = (),
    ) -> None:
        """`num_devices`: of the kind, on its host; `devices_of_hosts`: the same of each host that all-reduces
        may cross; `is_stopped`: whether the process of a worker was.
        """
        self._settings = settings
        self._is_stopped = is_stopped
        self.table = table
        self.crossing = {} if crossing is None else crossing
        self._spreads = spreads_to_measure(command.sizes, devices_of_hosts)
        self.profile: Profile | None = None
        self.is_over = False
        self.failed_crossing = ""  #: why a group on several hosts could not be measured
        self.is_crossing_unformed = False  #: because its workers did not find each other
        self._job = job
        self._command = command
        self._next_worker = first_worker
        self._sizes = sizes_to_measure(command.sizes, num_devices)
        self._num_devices = num_devices
        self._part: TrialPart | None = None
        self._effects: list[Effect] = []
        self._now_s = 0.0
        self._is_called_off = False
        self._max_local_batch: int | None = None
        self._start_s: float | None = None
        self._measured: messages.Profiled | None = None
        self._least = LeastWorkersSearch(job.spec.min_workers, max(command.sizes))
        self._compares = max(command.sizes) > 1
        self._not_compared: list[JobFinding] = []  #: why not
        self._group_step_s: dict[int, float] = {}
        self._groups: list[int] | None = None  #: numbers of workers that are to make steps; None: not known
        self._groups_until_s = 0.0
        self._measures_own = True  #: all-reduces of the job's own gradients, if they are large
        self._between_s: float | None = None  #: at least so long, if the worker does not tell

    @property
    def devices(self) -> tuple[str, ...]:
        members = self._part.members.values() if self._part else ()
        return tuple(device for member in members for device in member.slot)

    # ------------------------------------------------------------ what is left to do
    @property
    def is_waiting(self) -> bool:
        """Nothing of it runs, and there is something left to do."""
        return self._part is None and not self.is_over

    @property
    def is_measured(self) -> bool:
        """The script's own run is done."""
        return self._measured is not None

    @property
    def missing(self) -> list[int]:
        """Sizes of groups whose all-reduce has not been measured, or not with as many bytes as the job's."""
        return [size for size in self._sizes if size not in self.table or size in self._missing_own]

    @property
    def _missing_own(self) -> list[int]:
        """Sizes of groups that have not summed gradients as large as the job's, once these are known."""
        if self._measured is None or not self._measures_own:
            return []
        num_bytes = self._measured.grad_bytes
        known = ((size, self.table[size].allreduce_s) for size in self._sizes if size in self.table)
        return [size for size, points in known if not is_measured(points, num_bytes)]

    @property
    def missing_spreads(self) -> list[tuple[int, int]]:
        """(hosts, workers) of groups whose all-reduce has not been measured, nor that of larger ones."""
        known = {hosts: max(by_size) for hosts, by_size in self.crossing.items() if by_size}
        return [(hosts, size) for hosts, size in self._spreads if size > known.get(hosts, 0)]

    @property
    def next_group(self) -> int | None:
        """Number of workers that is to make steps together next, on idle devices; None: there is none.

        They come last, in ascending order, for a limited time, until more workers are no faster.
        """
        if self._measured is None or not self._groups or self._now_s >= self._groups_until_s:
            return None
        return self._groups[0]

    @property
    def is_stepping(self) -> bool:
        """Whether a group makes steps now, which gives way to whatever wants its devices."""
        return self._part is not None and self._part.is_stepping

    @property
    def crosses(self) -> bool:
        """Whether it measures a group on several hosts now."""
        return self._part is not None and self._part.is_crossing

    @property
    def calibrates(self) -> int | None:
        """Size of the group that it measures now."""
        return self._part.size if self._part else None

    def num_devices(self, size: int | None) -> int:
        """That the part needs: a calibration of so many workers, or (None) the script's own run."""
        return size or self._job.spec.devices_per_worker

    # ------------------------------------------------------------ what happens
    def begin_part(self, size: int | None, devices: Sequence[str], now_s: float) -> list[Effect]:
        """A calibration of so many workers, or (None) the script's own run, on these devices."""
        self._now_s = now_s
        self._start(size, tuple(devices))
        return self._drain()

    def begin_crossing(self, devices: Sequence[str], num_hosts: int, now_s: float) -> list[Effect]:
        """A calibration with a worker on each of these, which are of so many hosts, host by host."""
        self._now_s = now_s
        self._start(len(devices), tuple(devices), num_hosts)
        return self._drain()

    def begin_group(self, devices: Sequence[str], now_s: float) -> list[Effect]:
        """Steps of `next_group` workers on these devices."""
        self._now_s = now_s
        if self.next_group is not None:
            self._start(self.next_group, tuple(devices), is_stepping=True)
        return self._drain()

    def skip_groups(self, why: str, now_s: float) -> list[Effect]:
        """No more groups are to make steps: their devices are wanted. What they have measured stays."""
        self._now_s, self._groups = now_s, []
        if self._part is not None and self._part.is_stepping:
            self._give_up(self._part, why)
        else:
            self._finish_if_complete()
        return self._drain()

    def number_from(self, worker: int) -> None:
        """Workers before this number were used on a host that is new to it."""
        self._next_worker = max(self._next_worker, worker)

    def skip_crossing(self) -> None:
        """It is not to be measured in this run; what a gang over several hosts takes, reports will show."""
        self._spreads = []

    def settle(self, now_s: float) -> list[Effect]:
        """Others may have measured what it waited for."""
        self._now_s = now_s
        self._finish_if_complete()
        return self._drain()

    def stop(self, now_s: float) -> list[Effect]:
        """The answer is not wanted any more; `is_over` once the processes are gone."""
        self._now_s = now_s
        self._is_called_off = True
        if self._part is None:
            self.is_over = True
        else:
            self._give_up(self._part, "the job was cancelled")
        return self._drain()

    def forked(self, worker: int, pid: int, now_s: float) -> list[Effect]:
        self._now_s = now_s
        if self._part and (member := self._part.members.get(worker)):
            member.pid, member.since_s = pid, now_s
            self._part.forked_s = now_s if self._part.forked_s is None else self._part.forked_s
        return self._drain()

    def said(self, worker: int, message: messages.FromWorker, now_s: float) -> list[Effect]:
        self._now_s = now_s
        if self._part and (member := self._part.members.get(worker)):
            member.heard_s = now_s
            self._hear(message, member, self._part)
        return self._drain()

    def alive(self, pulses: Mapping[int, messages.Alive], now_s: float) -> None:
        for worker in pulses:
            if self._part and (member := self._part.members.get(worker)):
                member.heard_s = now_s

    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> list[Effect]:
        self._now_s = now_s
        part = self._part
        if part and (member := part.members.pop(worker, None)):
            if not part.is_measured:
                self._note_exit(part, member, status, log_tail)
            if not part.members:
                self._end_part(part)
        return self._drain()

    def exited_together(self, exits: Sequence[WorkerExit], now_s: float) -> list[Effect]:
        return [
            effect
            for ended in exits
            for effect in self.exited(ended.worker, ended.status, ended.log_tail, now_s)
        ]

    def _note_exit(self, part: TrialPart, member: Member, status: int, log_tail: str) -> None:
        if status == 0 and part.size is not None:
            return  # only rank 0 says what was measured
        is_fault = is_fault_of_script(status)
        is_lack = status in (OVER_MEMORY, OUT_OF_MEMORY) and not member.is_killed
        if is_lack and self._takes_less(part):
            part.fail(describe_exit(member, status, log_tail), is_fault=True)
        elif is_lack:
            self._give_up(part, self._least.told_lack(describe_exit(member, status, log_tail)))
        elif is_fault and part.size is None:
            part.fail(self._left(member, status, log_tail), is_fault=True)
        else:
            self._give_up(part, describe_exit(member, status, log_tail))

    def _left(self, member: Member, status: int, log_tail: str) -> str:
        """How a script ended by itself that has not said why."""
        if status == UNFIT:
            return describe_exit(member, status, log_tail)
        told = left_loop if member.state is State.READY else ended_early
        text = told(self._job.spec.entry, status)
        return f"{text}; {LOG_ENDS}\n{log_tail}" if log_tail else text

    def tick(self, now_s: float) -> list[Effect]:
        self._now_s = now_s
        if self._part is not None:
            self._watch(self._part)
        return self._drain()

    def _watch(self, part: TrialPart) -> None:
        if part.epoch_ended_s is not None:
            if self._now_s - part.epoch_ended_s >= MOST_BETWEEN_S:
                self._between_s = MOST_BETWEEN_S
                self._give_up(part, "the time between epochs is long")
            return
        timeouts = self._settings.timeouts
        for member in part.members.values():
            if stands_still(member, self._now_s, timeouts, self._is_stopped):
                self._give_up(part, stopped(member))
            elif is_silent(member, self._now_s, timeouts):
                self._give_up(part, silent(member, timeouts))
        begun_s = max((member.since_s for member in part.members.values()), default=self._now_s)
        limit_s = self._settings.trial_s
        if part.is_stepping and self._now_s > self._groups_until_s:
            self._give_up(part, "the time for more numbers of workers is over")
        elif self._now_s - begun_s > limit_s:
            is_started = all(member.pid is not None for member in part.members.values())
            part.is_unformed |= part.grouped_s is not None and part.joined_s is None and not part.failure
            self._give_up(part, self._too_long(part, is_started), is_fault=is_started)

    # ------------------------------------------------------------ what workers say
    @singledispatchmethod
    def _hear(self, message: messages.FromWorker, member: Member, part: TrialPart) -> None:
        """The rest is a sign of life."""

    @_hear.register
    def _(self, message: messages.Hello, member: Member, part: TrialPart) -> None:
        if part.size is None:
            batches = local_batches(self._job.spec, self._tried_sizes(), self._max_local_batch)
            bound, compares = self._max_local_batch, self._compares
            least = self._least.num
            welcome = self._job.welcome(member.slot, "profile", batches, bound, compares, least_workers=least)
        elif part.is_stepping:
            welcome = self._welcome_of_group(member, part.size)
        else:
            welcome = self._job.welcome(
                member.slot, "calibrate", allreduce_bytes=self._calibrated_bytes(part)
            )
        self._effects.append(Send(member.number, welcome))

    @_hear.register
    def _(self, message: messages.Ready, member: Member, part: TrialPart) -> None:
        member.state = State.READY
        if part.size is None:
            self._start_s, self._least.num_holders = self._now_s - member.since_s, message.num_holders
        elif all(m.state is State.READY for m in part.members.values()) and part.grouped_s is None:
            part.grouped_s = self._now_s
            for rank, number in enumerate(part.numbers):
                self._effects.append(Send(number, _order(part, rank)))

    @_hear.register
    def _(self, message: messages.Bound, member: Member, part: TrialPart) -> None:
        address = messages.StoreAddress(generation=message.generation, address=message.address)
        self._effects += [Send(number, address) for number in part.numbers if number != member.number]

    @_hear.register
    def _(self, message: messages.Joined, member: Member, part: TrialPart) -> None:
        part.joined_s = self._now_s

    @_hear.register
    def _(self, message: messages.Calibrated, member: Member, part: TrialPart) -> None:
        if part.size is not None:
            up_s = self._now_s if part.joined_s is None else part.joined_s
            launch_s = up_s - (up_s if part.forked_s is None else part.forked_s)
            if part.is_crossing:
                by_size = self.crossing.setdefault(part.num_hosts, {})
                by_size[part.size] = dict(message.allreduce_s)
            else:
                known = self.table.get(part.size, GroupTimes(allreduce_s={}, launch_s=launch_s))
                points = known.allreduce_s | message.allreduce_s
                self.table[part.size] = msgspec.structs.replace(known, allreduce_s=points)
            part.is_measured = True

    @_hear.register
    def _(self, message: messages.GroupStepped, member: Member, part: TrialPart) -> None:
        if part.is_stepping and part.size is not None and message.step_s > 0.0:
            self._group_step_s[part.size] = message.step_s
            part.is_measured = True

    @_hear.register
    def _(self, message: messages.Profiled, member: Member, part: TrialPart) -> None:
        if not _is_sound(message.compute_s):
            part.fail(unmeasured(self._job.spec.entry), is_fault=True)
            return
        fewest = min(self._sizes_in_memory)
        if message.num_shards is not None and message.num_shards < fewest:
            part.fail(too_few_shards(message.num_shards, fewest), is_fault=True)
            return
        if self._measured is None:
            self._groups, self._groups_until_s = self._wanted_groups(message), self._groups_end_s()
        self._measured, part.is_measured = message, True
        part.epoch_ended_s = self._now_s if message.goes_on else None
        self._between_s = message.between_s
        if self._start_s is None:
            self._start_s = self._now_s - member.since_s

    @_hear.register
    def _(self, message: messages.OutOfMemory, member: Member, part: TrialPart) -> None:
        bound = half(message.num_samples, self._max_local_batch)
        if part.size is None and bound != self._max_local_batch:
            self._max_local_batch, part.is_to_repeat = bound, True
        part.fail(message.message, is_fault=True)

    @_hear.register
    def _(self, message: messages.NotCompared, member: Member, part: TrialPart) -> None:
        self._compares, part.is_to_repeat = False, True
        self._not_compared = [told(message.finding)]
        part.fail(message.finding.text)

    @_hear.register(messages.JoinFailed)
    @_hear.register(messages.Broken)
    def _(self, message: messages.JoinFailed | messages.Broken, member: Member, part: TrialPart) -> None:
        part.is_unformed |= isinstance(message, messages.JoinFailed) and not part.failure
        self._give_up(part, message.message)

    @_hear.register
    def _(self, message: messages.Failed, member: Member, part: TrialPart) -> None:
        if message.is_out_of_memory and self._divides_more(part):
            part.fail(message.message, is_fault=True)
            return
        text = self._least.told_lack(message.message) if message.is_out_of_memory else message.message
        told = [f"{finding.text}\n" for finding in self._not_compared if finding.holds]
        part.fail("".join([*told, text]), is_fault=True)

    def _takes_less(self, part: TrialPart) -> bool:
        """Whether the script runs again, in less memory. The comparison takes more than all that follows."""
        if part.size is not None or part.is_measured or not self._compares:
            return self._divides_more(part)
        self._compares, part.is_to_repeat = False, True
        self._not_compared = [told(not_compared("there was too little memory for both"))]
        return True

    def _divides_more(self, part: TrialPart) -> bool:
        """Whether the script runs again, with a smaller part of its state: memory has run out."""
        if part.size is not None or part.is_measured or not self._least.raise_num():
            return False
        self._max_local_batch, part.is_to_repeat = None, True  # there is more room for samples now
        return True

    def _wanted_groups(self, measured: messages.Profiled) -> list[int]:
        """Numbers of workers, ascending, up to k_max: what the host and the job allow."""
        shards = measured.num_shards or max(self._command.sizes)
        most = min(self._num_devices // self._job.spec.devices_per_worker, shards)
        is_stream_of_shards = measured.num_shards is not None and not measured.samples_per_epoch
        holds = any(finding.holds for finding in measured.findings) or len(self._tried_sizes()) == 1
        wanted = () if holds or is_stream_of_shards else self._sizes_in_memory
        return sorted(size for size in wanted if 1 < size <= most)

    def _groups_end_s(self) -> float:
        is_wanted = self._job.spec.hold_after_trial
        return self._now_s + (self._settings.trial_s if is_wanted else self._settings.pre_run_s)

    def _welcome_of_group(self, member: Member, size: int) -> messages.Welcome:
        """A group makes as many steps as take a second by what is known, within bounds."""
        assert self._measured is not None  # noqa: S101 - groups come after the script's own run
        spec = self._job.spec
        local_batch = spec.batch_per_worker or -(-spec.global_batch // size)
        alone_s = self._measured.compute_s.get(local_batch) or max(self._measured.compute_s.values())
        by_size = {each: times.allreduce_s for each, times in self.table.items()}
        step_s = alone_s + allreduce_s(by_size, size, self._measured.grad_bytes)
        num_steps = min(max(round(1.0 / max(step_s, 1e-6)), LEAST_GROUP_STEPS), MOST_GROUP_STEPS)
        return self._job.welcome(
            member.slot, "group", (local_batch,), self._max_local_batch, group_steps=num_steps
        )

    def _note_group(self, size: int) -> None:
        """What was measured; past the peak there is nothing to be found.

        References: ElasticFlow, section 6.6: profiling ends where one more device brings nothing.
        """
        assert self._groups is not None  # noqa: S101 - it was one of them
        self._groups.remove(size)
        each = self._job.spec.batch_per_worker
        rates = [
            (1 if each is None else number) / step_s for number, step_s in sorted(self._group_step_s.items())
        ]
        if len(rates) > 1 and rates[-1] <= rates[-2]:
            self._groups = []

    def _calibrated_bytes(self, part: TrialPart) -> tuple[int, ...]:
        """What a group is to sum: the usual sizes, or only the job's own, if it has summed those before."""
        if self._measured is None or part.size not in self._missing_own or part.is_crossing:
            return messages.CALIBRATED_BYTES
        return (self._measured.grad_bytes,)

    def _tried_sizes(self) -> Sequence[int]:
        """The sizes whose parts of a batch are measured: one, where only that is known to go well."""
        accepted = self._job.spec.accept_differences
        is_held = any(finding.holds and finding.name not in accepted for finding in self._not_compared)
        return (min(self._sizes_in_memory),) if is_held else self._sizes_in_memory

    @property
    def _sizes_in_memory(self) -> tuple[int, ...]:
        """The job's sizes, less those that have too little memory."""
        return tuple(size for size in self._command.sizes if size >= self._least.num)

    # ------------------------------------------------------------ part by part
    def _start(
        self,
        size: int | None,
        devices: tuple[str, ...],
        num_hosts: int = 1,
        is_stepping: bool = False,
    ) -> None:
        self._part = TrialPart(size, devices, num_hosts, is_stepping)
        num_workers = size or 1
        each = len(devices) // num_workers
        for rank in range(num_workers):
            slot = devices[rank * each : (rank + 1) * each]
            member = Member(self._next_worker, slot, since_s=self._now_s)
            self._next_worker += 1
            self._part.members[member.number] = member
            self._part.numbers.append(member.number)
            is_calibration = size is not None and not is_stepping
            self._effects.append(
                Spawn(member.number, slot, entry=CALIBRATE_ENTRY if is_calibration else None)
            )

    def _end_part(self, part: TrialPart) -> None:
        self._part = None
        if self._is_called_off:
            self.is_over = True
        elif part.is_stepping:
            if part.is_measured and part.size is not None and self._groups:
                self._note_group(part.size)
            else:
                self._groups = []
            self._finish_if_complete()
        elif part.is_measured:
            self._finish_if_complete()
        elif part.is_to_repeat:
            self._start(part.size, part.devices)
        elif part.is_crossing:
            self.failed_crossing = part.failure or "rank 0 told no result"
            self.is_crossing_unformed = part.is_unformed
            self.skip_crossing()
        elif part.size in self._missing_own:  # no memory for it, perhaps: what is known must do
            self._measures_own = False
            self._finish_if_complete()
        else:
            self._fail(part)

    def _finish_if_complete(self) -> None:
        is_left = self.missing or self.missing_spreads or self.next_group is not None
        if self.is_waiting and self.is_measured and not is_left:
            self._finish()

    def _finish(self) -> None:
        assert self._measured is not None  # noqa: S101 - the part is measured
        measured, command = self._measured, self._command
        by_size = {size: times.allreduce_s for size, times in self.table.items()}
        self.profile = Profile(
            device_kind=command.device_kind,
            compute_s=dict(measured.compute_s),
            allreduce_s={size: allreduce_s(by_size, size, measured.grad_bytes) for size in command.sizes},
            grad_bytes=measured.grad_bytes,
            state_bytes=measured.state_bytes,
            divided_bytes=measured.divided_bytes,
            has_mirrors=measured.has_mirrors,
            samples_per_epoch=measured.samples_per_epoch,
            start_s=self._start_s or 0.0,
            group_launch_s={size: times.launch_s for size, times in self.table.items()},
            state_s_per_byte=send_s_per_byte(self.table),
            save_s=measured.save_s,
            crossing_s=crossing_s(self.crossing, by_size, measured.grad_bytes),
            max_local_batch=self._max_local_batch,
            num_shards=measured.num_shards,
            between=self._between(measured),
            findings=self._findings(measured),
            allreduce_sizes=self._summed_sizes(measured.grad_bytes),
            group_step_s=dict(self._group_step_s),
            least_workers=self._least.known,
        )
        self.is_over = True
        event = JobProfiled(
            at_s=self._now_s, job_id=command.job_id, profile=self.profile, attempt=command.attempt
        )
        self._effects.append(Report(event))

    @property
    def own_length(self) -> JobLength | None:
        """What the script takes for its batch and its end; None: that is not known."""
        return None if self._measured is None else self._measured.own_length

    def _summed_sizes(self, num_bytes: int) -> tuple[int, ...]:
        """Numbers of workers whose all-reduce of so many bytes follows from what was measured."""
        known = ((size, times.allreduce_s) for size, times in sorted(self.table.items()))
        return tuple(size for size, points in known if is_measured(points, num_bytes))

    def _findings(self, measured: messages.Profiled) -> tuple[JobFinding, ...] | None:
        """None: the job cannot have several workers."""
        if max(self._command.sizes) == 1:
            return None
        return (*self._not_compared, *map(told, measured.findings))

    def _between(self, measured: messages.Profiled) -> BetweenSteps | None:
        """None for a job in which no epoch ends, or whose script does not say how long one is."""
        spec = self._job.spec
        num_steps = spec.steps_to_epoch_end(measured.samples_per_epoch)
        if num_steps is None:
            return None
        is_seen = measured.between_s is not None
        time_s = max(self._between_s or 0.0, 0.0)
        return BetweenSteps(time_s=time_s, num_steps=num_steps, num_epochs=int(is_seen))

    def _fail(self, part: TrialPart) -> None:
        message = part.failure or "rank 0 told no result"
        if part.size is not None:
            message = f"the all-reduce of {part.size} workers was not measured: {message}"
        self.is_over = True
        event = ProfilingFailed(
            at_s=self._now_s,
            job_id=self._command.job_id,
            message=message,
            outcome=Outcome.FAILED if part.is_fault else Outcome.LOST,
            attempt=self._command.attempt,
        )
        self._effects.append(Report(event))

    def _give_up(self, part: TrialPart, why: str, is_fault: bool = False) -> None:
        part.fail(why, is_fault)
        for member in part.members.values():
            if not member.is_killed:
                member.is_killed = True
                self._effects.append(Kill(member.number, signal.SIGKILL))

    def _too_long(self, part: TrialPart, is_started: bool) -> str:
        limit_s = self._settings.trial_s
        if not is_started:
            return f"no process for a worker was there within {span(limit_s)}; see `zygote.log`"
        if part.size is not None:
            return f"it took longer than {span(limit_s)}"
        if self._start_s is None:
            return never_called(self._job.spec.entry, limit_s)
        return (
            f"the trial run of {self._job.spec.entry} took longer than {span(limit_s)}; a step at "
            "the full global batch must take seconds at most: raise the smallest number of workers, or lower "
            "the batch"
        )

    def _drain(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects


def _order(part: TrialPart, rank: int) -> messages.Regroup:
    """What a worker of a calibration is told."""
    assert part.size is not None  # noqa: S101 - it is a calibration
    each = part.size // part.num_hosts
    return messages.Regroup(
        generation=1,
        rank=rank,
        num_workers=part.size,
        source=None,
        has_news=False,
        local_rank=rank % each,
        local_world_size=each,
        group_rank=rank // each,
        num_hosts=part.num_hosts,
    )


def told(finding: ScriptFinding) -> JobFinding:
    """The finding as the head keeps it."""
    return JobFinding(**msgspec.structs.asdict(finding))


def _is_sound(compute_s: dict[int, float]) -> bool:
    """Whether these are step times by batch: they come from a user's process, and the head relies on them."""
    return bool(compute_s) and min(compute_s) >= 1 and min(compute_s.values()) >= 0
