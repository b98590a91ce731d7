"""A trace with nothing missing: what a simulation runs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from swell.model.job import JobClass
from swell.sim.traces.entry import TraceJob
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
    batch_range: tuple[int, int] | None = None  #: that its user allows; None: all that its model has
    is_elastic: bool = True  #: False: it runs on what it asked for or not at all
    dies_at_step: int | None = None  #: a buggy script raises there
    cancel_s: float | None = None  #: its user gives it up then, on the clock of `submit_s`
    stated_steps: int | None = None  #: that its user states, where that is not what it has to do
    loss_curve: str | None = None  #: see `loss_curves`
    metric: str | None = None  #: name of what that curve is of; None: the loss
    cores_per_worker: float | None = None  #: that each worker uses if it gets them; None: one
    priority: int = 0
    weight: float = 1.0
    min_devices: int = 1  #: that its state needs, at most `requested_devices`
    kinds: tuple[str, ...] = ()  #: of devices that it may have; empty: any

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
            min_batch=None if self.batch_range is None else self.batch_range[0],
            max_batch=None if self.batch_range is None else self.batch_range[1],
            loss_curve=self.loss_curve,
            metric=self.metric,
            cores_per_worker=self.cores_per_worker,
            priority=self.priority or None,
            weight=None if self.weight == 1.0 else self.weight,
            min_devices=None if self.min_devices == 1 else self.min_devices,
            kind=",".join(self.kinds) or None,
        )


class JobsLeftOut(msgspec.Struct):
    """Jobs of the trace that cannot be simulated: how many, why, and the first ids of each reason."""

    counts: dict[str, int] = {}  #: by reason
    ids: dict[str, list[str]] = {}

    def add(self, job_id: str, why: str) -> None:
        self.counts[why] = self.counts.get(why, 0) + 1
        ids = self.ids.setdefault(why, [])
        if len(ids) < NUM_SHOWN:
            ids.append(job_id)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def lines(self) -> Iterator[str]:
        """One for each reason."""
        for why, count in self.counts.items():
            shown = ", ".join(self.ids[why]) + (" ..." if count > NUM_SHOWN else "")
            yield f"{plural(count, 'job')}: {why} ({shown})"


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a trace, filled; every job of the trace is in `jobs` or counted in `dropped`."""

    jobs: tuple[WorkloadJob, ...]  #: in the order of the trace
    dropped: JobsLeftOut
    filled: tuple[str, ...]  #: each rule that was applied, and to how many jobs
    profiles: str  #: name of the set
    source: str
    epoch_s: float = 0.0
    tells_losses: bool = False  #: some job does

    def left_out(self) -> Iterator[str]:
        """A line for each reason: how many jobs, why, and which, as far as they fit."""
        return self.dropped.lines()
