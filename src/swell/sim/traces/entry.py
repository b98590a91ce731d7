"""A log of jobs: the one form that every format is read into, and the same with nothing missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from swell.model.errors import InvalidInput
from swell.model.job import JobClass


class TraceError(InvalidInput):
    """The file as a whole cannot be used; the text names it, the rule and the remedy."""


class InvalidLine(ValueError):
    """A line that breaks a rule of its format: the text says which, then perhaps a colon and the detail."""


class NoJob(ValueError):
    """A sound line about something that is no job for devices: a job that asks none, or never ran."""


Status = Literal["completed", "failed", "killed"]
JobKind = Literal["elastic", "fixed", "session"]


class TraceJob(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """What a log says of one job; None where it says nothing."""

    id: str
    submit_s: float  #: on the clock of the trace: 0 is its first submission
    num_devices: int | None = None  #: that it asked for
    duration_s: float | None = None  #: that it ran, at the size it asked for, or would have
    model: str | None = None
    global_batch: int | None = None
    num_steps: float | None = None
    deadline_s: float | None = None  #: on the same clock as `submit_s`
    is_best_effort: bool | None = None  #: True: the deadline, if there is one, does not count
    is_soft: bool | None = None  #: True: finishing after the deadline still counts
    user: str | None = None
    tenant: str | None = None  #: a virtual cluster, an account, a group
    status: Status | None = None  #: how it ended
    ended_after_s: float | None = None  #: from its submission to its end in the log, waiting included
    min_batch: int | None = None  #: of an open batch; None: `global_batch`
    max_batch: int | None = None
    loss_curve: str | None = None  #: see `loss_curves`
    metric: str | None = None  #: name of what that curve is of; None: the loss
    cores_per_worker: float | None = None  #: that each worker uses if it gets them
    priority: int | None = None  #: of its class the jobs with the highest go first
    weight: float | None = None  #: factor of what the job gains
    min_devices: int | None = None  #: that its state needs: fewer cannot hold it
    kind: str | None = None  #: of devices that it may have; commas between several; `any`: each
    job_kind: JobKind | None = None  #: the last two run on what they ask for, and no longer than their limit
    time_limit_s: float | None = None  #: of a fixed job or a session
    booking: str | None = None  #: id of the booking on whose devices it runs


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """A line that became no job."""

    line: int  #: from 1
    why: str
    is_malformed: bool = True  #: False: sound, but about no job that ran on devices

    @property
    def rule(self) -> str:
        """The reason without its detail: the same for all lines that break the same rule."""
        return self.why.partition(":")[0]


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A whole log in memory, 400 to 700 bytes a job."""

    jobs: tuple[TraceJob, ...]  #: by `submit_s`, then shorter ids first, then by id: 9 before 10
    format: str
    source: str  #: the file
    epoch_s: float = 0.0  #: of the first submission on the log's own clock: often seconds since 1970
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()  #: how the format was understood, and what is odd about the jobs
    warnings: tuple[str, ...] = ()  #: those of the notes that people should know of unasked


def since(job: TraceJob, start_s: float) -> TraceJob:
    """The same on a clock that is 0 at `start_s`."""
    if start_s == 0.0:
        return job
    return msgspec.structs.replace(
        job,
        submit_s=job.submit_s - start_s,
        deadline_s=None if job.deadline_s is None else job.deadline_s - start_s,
    )


def order(job: TraceJob) -> tuple[float, int, str]:
    """Key by which jobs of a trace are sorted."""
    return job.submit_s, len(job.id), job.id


#: Ids that are shown of jobs left out for one reason.
NUM_SHOWN = 3


def plural(number: int, noun: str) -> str:
    """`1 job`, `2,400 jobs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class WorkloadJob(TraceJob, frozen=True, kw_only=True, gc=False):
    """A job; its throughput curve is that of (`model`, `global_batch`) in the set it was filled from."""

    num_devices: int  #: from the least to the most of its curve; what it has without elasticity
    duration_s: float  #: at the size it asked for
    model: str
    global_batch: int
    num_steps: int  #: >= 1
    is_elastic: bool = True  #: False: it runs on what it asked for or not at all
    dies_at_step: int | None = None  #: a buggy script raises there
    cancel_s: float | None = None  #: its user gives it up then, on the clock of `submit_s`
    stated_steps: int | None = None  #: that its user states, where that is not what it has to do

    @property
    def job_class(self) -> JobClass:
        if self.is_best_effort:
            return JobClass.BEST_EFFORT
        return JobClass.SOFT if self.is_soft else JobClass.STRICT

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of device that it may have; empty: any."""
        return tuple(self.kind.split(",")) if self.kind else ()


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a trace, filled; every job of the trace is in `jobs` or counted in `dropped`."""

    jobs: tuple[WorkloadJob, ...]  #: in the order of the trace
    dropped: dict[str, str]  #: id -> why
    filled: tuple[str, ...]  #: each rule that was applied, and to how many jobs
    profiles: str  #: name of the set
    source: str
    epoch_s: float = 0.0
    tells_losses: bool = False  #: some job does

    def left_out(self) -> Iterator[str]:
        """A line for each reason: how many jobs, why, and which, as far as they fit."""
        reasons: dict[str, list[str]] = {}
        for job_id, why in self.dropped.items():
            reasons.setdefault(why, []).append(job_id)
        for why, ids in reasons.items():
            shown = ", ".join(ids[:NUM_SHOWN]) + (" ..." if len(ids) > NUM_SHOWN else "")
            yield f"{plural(len(ids), 'job')}: {why} ({shown})"
