"""A trace with nothing missing: what a simulation runs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from swell.model.job import JobClass
from swell.sim.traces.entry import Trace, TraceJob
from swell.sim.traces.record import plural

#: Ids that are shown of jobs left out for one reason.
NUM_SHOWN = 3


class WorkloadJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job; its throughput curve is that of (`model`, `global_batch`) in the set it was filled from."""

    id: str
    submit_s: float  #: 0 is the first submission of the trace
    model: str
    global_batch: int
    num_steps: int  #: >= 1
    deadline_s: float | None  #: None exactly for best-effort jobs
    job_class: JobClass
    requested_devices: int  #: from the least to the most of its curve; what it has without elasticity
    duration_s: float  #: at the size it asked for
    tenant: str | None = None
    is_elastic: bool = True  #: False: it runs on what it asked for or not at all
    dies_at_step: int | None = None  #: a buggy script raises there
    cancel_s: float | None = None  #: its user gives it up then, on the clock of `submit_s`

    def as_trace_job(self) -> TraceJob:
        """Without its fate and its elasticity, of which traces know nothing."""
        return TraceJob(
            id=self.id,
            submit_s=self.submit_s,
            num_devices=self.requested_devices,
            duration_s=self.duration_s,
            model=self.model,
            global_batch=self.global_batch,
            num_steps=float(self.num_steps),
            deadline_s=self.deadline_s,
            is_best_effort=True if self.job_class is JobClass.BEST_EFFORT else None,
            is_soft=True if self.job_class is JobClass.SOFT else None,
            tenant=self.tenant,
        )


class Dropped(msgspec.Struct, frozen=True, gc=False):
    """A job of the trace that cannot be simulated."""

    id: str
    why: str


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a trace, filled; every job of the trace is in `jobs` or in `dropped`."""

    jobs: tuple[WorkloadJob, ...]  #: in the order of the trace
    dropped: tuple[Dropped, ...]
    filled: tuple[str, ...]  #: each rule that was applied, and to how many jobs
    profiles: str  #: name of the set
    source: str
    epoch_s: float = 0.0

    def left_out(self) -> Iterator[str]:
        """A line for each reason: how many jobs, why, and which, as far as they fit."""
        by_reason: dict[str, list[str]] = {}
        for job in self.dropped:
            by_reason.setdefault(job.why, []).append(job.id)
        for why, ids in by_reason.items():
            shown = ", ".join(ids[:NUM_SHOWN]) + (" ..." if len(ids) > NUM_SHOWN else "")
            yield f"{plural(len(ids), 'job')}: {why} ({shown})"

    def as_trace(self) -> Trace:
        return Trace(
            jobs=tuple(job.as_trace_job() for job in self.jobs),
            format="plain",
            source=self.source,
            epoch_s=self.epoch_s,
            notes=self.filled,
        )
