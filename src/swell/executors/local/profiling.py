"""The choreography of a trial run: what a job's step takes alone, and what its all-reduce would take.

First, once for each kind of device, groups of two, four and eight workers measure all-reduces by size.
Then one worker runs the script through its own loop with every local batch that a gang size would give it;
where memory runs out another one does, with passes half as large.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import singledispatchmethod

from swell.executors.local.allreduce import allreduce_s, sizes_to_measure
from swell.executors.local.effects import Effect, Kill, Report, Send, Spawn
from swell.executors.local.member import Member, State
from swell.executors.local.patience import describe_exit, ended_early, never_called, unmeasured
from swell.executors.local.room import half, too_few_shards
from swell.executors.local.stage import Stage
from swell.model.command import ProfileJob
from swell.model.event import JobProfiled, ProfilingFailed
from swell.model.job import Profile
from swell.wire import messages

CALIBRATE_ENTRY = "swell.train.calibrate:main"
#: A worker of a calibration may die of somebody else's trouble: try again so often.
MAX_TRIES = 3


@dataclass(slots=True)
class Part:
    """One set of processes: a calibration, or (no `size`) the script's own run."""

    size: int | None
    since_s: float
    members: dict[int, Member] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)  #: by rank
    is_grouped: bool = False
    is_measured: bool = False
    is_too_large: bool = False  #: memory ran out: to be done again, with smaller passes
    failure: str = ""


class Trial:
    """Answers one `ProfileJob`. `table` grows by what its calibrations measure."""

    def __init__(
        self,
        stage: Stage,
        command: ProfileJob,
        first_worker: int,
        pool: Sequence[str],
        table: dict[int, dict[int, float]],
        limit_s: float,
    ) -> None:
        """`pool`: devices of the kind, the idlest first; `limit_s`: for a run or a calibration."""
        self._limit_s = limit_s
        self.table = table
        self.profile: Profile | None = None
        self.is_over = False
        self._stage = stage
        self._command = command
        self._next_worker = first_worker
        self._pool = pool
        self._sizes = [size for size in sizes_to_measure(command.sizes, len(pool)) if size not in table]
        self._num_tries = 0
        self._part: Part | None = None
        self._effects: list[Effect] = []
        self._now_s = 0.0
        self._is_stopped = False
        self._max_local_batch: int | None = None
        self._start_s: float | None = None
        self._measured: messages.Profiled | None = None

    @property
    def devices(self) -> tuple[str, ...]:
        members = self._part.members.values() if self._part else ()
        return tuple(device for member in members for device in member.slot)

    # ------------------------------------------------------------ what happens
    def begin(self, now_s: float) -> list[Effect]:
        self._now_s = now_s
        self._start_next_part()
        return self._drain()

    def stop(self, now_s: float) -> list[Effect]:
        """Nobody wants the answer any more; `is_over` once the processes are gone."""
        self._now_s = now_s
        self._is_stopped = True
        self._give_up("the job was cancelled")
        return self._drain()

    def forked(self, worker: int, pid: int, now_s: float) -> list[Effect]:
        self._now_s = now_s
        if self._part and (member := self._part.members.get(worker)):
            member.pid, member.since_s = pid, now_s
        return self._drain()

    def said(self, worker: int, message: messages.FromWorker, now_s: float) -> list[Effect]:
        self._now_s = now_s
        if self._part and (member := self._part.members.get(worker)):
            self._hear(message, member, self._part)
        return self._drain()

    def exited(self, worker: int, status: int, log_tail: str, now_s: float) -> list[Effect]:
        self._now_s = now_s
        part = self._part
        if part and (member := part.members.pop(worker, None)):
            if status and not part.is_measured:
                part.failure = part.failure or describe_exit(member, status, log_tail)
                self._give_up(part.failure)
            elif not part.is_measured and part.size is None:
                part.failure = part.failure or ended_early(self._stage.spec.entry)
            if not part.members:
                self._end_part(part)
        return self._drain()

    def tick(self, now_s: float) -> list[Effect]:
        self._now_s = now_s
        if self._part and now_s - self._part.since_s > self._limit_s and not self._part.failure:
            self._give_up(self._too_long(self._part))
        return self._drain()

    # ------------------------------------------------------------ what workers say
    @singledispatchmethod
    def _hear(self, message: messages.FromWorker, member: Member, part: Part) -> None:
        """The rest is a sign of life."""

    @_hear.register
    def _(self, message: messages.Hello, member: Member, part: Part) -> None:
        spec = self._stage.spec
        batches = sorted({-(-spec.global_batch // size) for size in self._command.sizes}, reverse=True)
        if part.size is None:
            welcome = self._stage.welcome(member.slot, "profile", tuple(batches), self._max_local_batch)
        else:
            welcome = self._stage.welcome(member.slot, "calibrate")
        self._effects.append(Send(member.number, welcome))

    @_hear.register
    def _(self, message: messages.Ready, member: Member, part: Part) -> None:
        member.state = State.READY
        if part.size is None:
            self._start_s = self._now_s - member.since_s
        elif all(m.state is State.READY for m in part.members.values()) and not part.is_grouped:
            part.is_grouped = True
            for rank, number in enumerate(part.numbers):
                order = messages.Regroup(
                    generation=1,
                    rank=rank,
                    num_workers=part.size,
                    source=None,
                    has_news=False,
                    local_rank=rank,
                    local_world_size=part.size,
                )
                self._effects.append(Send(number, order))

    @_hear.register
    def _(self, message: messages.Bound, member: Member, part: Part) -> None:
        address = messages.Address(generation=message.generation, address=message.address)
        self._effects += [Send(number, address) for number in part.numbers if number != member.number]

    @_hear.register
    def _(self, message: messages.Calibrated, member: Member, part: Part) -> None:
        if part.size is not None:
            self.table[part.size] = dict(message.allreduce_s)
            part.is_measured = True

    @_hear.register
    def _(self, message: messages.Profiled, member: Member, part: Part) -> None:
        if not _is_sound(message.compute_s):
            part.failure = unmeasured(self._stage.spec.entry)
            return
        fewest = min(self._command.sizes)
        if message.num_shards is not None and message.num_shards < fewest:
            part.failure = too_few_shards(message.num_shards, fewest)
            return
        self._measured, part.is_measured = message, True
        if self._start_s is None:
            self._start_s = self._now_s - member.since_s

    @_hear.register
    def _(self, message: messages.OutOfMemory, member: Member, part: Part) -> None:
        bound = half(message.num_samples, self._max_local_batch)
        if part.size is None and bound != self._max_local_batch:
            self._max_local_batch, part.is_too_large = bound, True
        part.failure = part.failure or message.message

    @_hear.register(messages.JoinFailed)
    @_hear.register(messages.Broken)
    def _(self, message: messages.JoinFailed | messages.Broken, member: Member, part: Part) -> None:
        self._give_up(message.message)

    @_hear.register
    def _(self, message: messages.Failed, member: Member, part: Part) -> None:
        part.failure = part.failure or message.message

    # ------------------------------------------------------------ part by part
    def _start_next_part(self) -> None:
        size = self._sizes[0] if self._sizes else None
        self._part = Part(size, self._now_s)
        for rank in range(size or 1):
            count = 1 if size else self._stage.spec.devices_per_worker
            slot = tuple(self._pool[(rank + i) % len(self._pool)] for i in range(count))
            member = Member(self._next_worker, slot, since_s=self._now_s)
            self._next_worker += 1
            self._part.members[member.number] = member
            self._part.numbers.append(member.number)
            self._effects.append(Spawn(member.number, slot, entry=CALIBRATE_ENTRY if size else None))

    def _end_part(self, part: Part) -> None:
        self._num_tries += 1
        self._part = None
        if self._is_stopped:
            self.is_over = True
        elif part.is_measured:
            self._num_tries = 0
            if part.size is None:
                self._finish()
            else:
                self._sizes.remove(part.size)
                self._start_next_part()
        elif part.is_too_large or (part.size is not None and self._num_tries < MAX_TRIES):
            self._start_next_part()
        else:
            self._fail(part.failure or never_called(self._stage.spec.entry, self._limit_s), part.size)

    def _finish(self) -> None:
        assert self._measured is not None  # noqa: S101 - the part is measured
        measured, command = self._measured, self._command
        self.profile = Profile(
            device_kind=command.device_kind,
            compute_s=dict(measured.compute_s),
            allreduce_s={size: allreduce_s(self.table, size, measured.grad_bytes) for size in command.sizes},
            grad_bytes=measured.grad_bytes,
            state_bytes=measured.state_bytes,
            samples_per_epoch=measured.samples_per_epoch,
            start_s=self._start_s or 0.0,
            max_local_batch=self._max_local_batch,
            num_shards=measured.num_shards,
        )
        self.is_over = True
        event = JobProfiled(at_s=self._now_s, job_id=command.job_id, profile=self.profile)
        self._effects.append(Report(event))

    def _fail(self, message: str, size: int | None) -> None:
        if size is not None:
            message = f"measuring the all-reduce of {size} workers failed {MAX_TRIES} times: {message}"
        self.is_over = True
        event = ProfilingFailed(at_s=self._now_s, job_id=self._command.job_id, message=message)
        self._effects.append(Report(event))

    def _give_up(self, why: str) -> None:
        if self._part is None:
            self.is_over = True
            return
        self._part.failure = self._part.failure or why
        for member in self._part.members.values():
            if not member.is_killed:
                member.is_killed = True
                self._effects.append(Kill(member.number, signal.SIGKILL))

    def _too_long(self, part: Part) -> str:
        if part.size is not None or self._start_s is None:
            return never_called(self._stage.spec.entry, self._limit_s)
        return (
            f"the trial run of {self._stage.spec.entry} took longer than {self._limit_s:g} s; a step at "
            "the full global batch must take seconds at most: raise the smallest number of workers, or lower "
            "the batch"
        )

    def _drain(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects


def _is_sound(compute_s: dict[int, float]) -> bool:
    """Whether these are step times by batch: they come from a user's process, and the head relies on them."""
    return bool(compute_s) and min(compute_s) >= 1 and min(compute_s.values()) >= 0
