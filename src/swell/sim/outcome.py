"""What became of each job of a simulated run, piece by piece, and how the cluster was used."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from swell.arrays import FloatArray
from swell.model.booking import BookingRefusal
from swell.model.failure import why_failed
from swell.model.job import JobClass, Phase
from swell.model.options import Sizes
from swell.model.view import JobView
from swell.sim.gang import SimGang
from swell.sim.job import SimJob
from swell.sim.pool import Pool
from swell.sim.traces.entry import JobKind


class JobOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `--jobs OUT.csv`. Times are seconds since the trace's first submission."""

    id: str
    model: str
    tenant: str
    requested_devices: int | None  #: what a scheduler without elasticity would have given it
    job_class: JobClass
    job_kind: JobKind = "elastic"
    submit_s: float
    deadline_s: float | None
    phase: Phase  #: `queued` or `running`: the run ended before the job did
    is_promised: bool = False
    is_unpromised: bool = False  #: refused its deadline, and tried all the same
    counter_offer_s: float | None = None  #: the earliest deadline that a refused job was offered
    start_s: float | None = None
    end_s: float | None = None
    is_kept: bool | None  #: ended at or before its deadline; None for a job without one
    is_buggy: bool  #: its script raises before its end, whatever policy decides
    num_resizes: int = 0
    device_s: float = 0.0  #: device-seconds used
    single_device_s: float = 0.0  #: run time on one device, of jobs that succeeded; else 0
    sizes: tuple[tuple[float, int], ...] = ()  #: (since, workers)
    why: str  #: the head's last word on it
    num_steps: int = 0  #: that it really has to do
    global_batch: int = 0  #: its own
    segments: tuple[Segment, ...] = ()  #: what its gangs did, if that is logged
    cores_per_worker: float = 1.0  #: that each worker uses if it gets them

    @property
    def is_admitted(self) -> bool:
        """Whether it was not refused a promise, of a job with a deadline."""
        return self.phase is not Phase.REJECTED and not self.is_unpromised

    @property
    def jct_s(self) -> float | None:
        """Completion time: end - submission, of a job that succeeded."""
        has_ended = self.phase is Phase.SUCCEEDED and self.end_s is not None
        return self.end_s - self.submit_s if has_ended and self.end_s is not None else None


@dataclass(frozen=True, slots=True)
class Usage:
    """Piecewise constant: entry i holds from `at_s[i]` to `at_s[i + 1]`."""

    at_s: FloatArray
    used_devices: FloatArray
    efficiency: FloatArray  #: sum over jobs of rate / rate on one device (ElasticFlow, Eq. 8, times M)
    devices: FloatArray  #: that are there
    kept_devices: FloatArray  #: that jobs hold after their nodes were reclaimed

    def mean(self, values: FloatArray, end_s: float) -> float:
        """Mean over time until `end_s`; 0 for no time."""
        total_s = float(np.diff(np.append(self.at_s, end_s)).clip(min=0.0).sum())
        return self.sum_s(values, end_s) / total_s if total_s > 0 else 0.0

    def sum_s(self, values: FloatArray, end_s: float) -> float:
        """Sum of values times seconds until `end_s`."""
        return float(values @ np.diff(np.append(self.at_s, end_s)).clip(min=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOutcome:
    """A whole run."""

    jobs: Sequence[JobOutcome]  #: in the order of the workload
    usage: Usage
    num_devices: int  #: owned ones, at the start
    end_s: float
    num_events: int  #: batches that the head handled
    decision_s: FloatArray  #: (num_events,) CPU seconds of each turn of the head; not reproducible
    cpu_s: float  #: of the whole run; not reproducible
    pool: Pool | None = None  #: nodes that were borrowed
    refused_bookings: Mapping[str, BookingRefusal] = field(default_factory=dict)  #: by id
    unnoticed_device_s: float = 0.0  #: likewise on devices that were gone, until the head heard of that

    @property
    def kept_device_s(self) -> float:
        """Device-seconds on nodes that had been reclaimed."""
        return self.usage.sum_s(self.usage.kept_devices, self.end_s)

    def mean_devices(self, from_s: float, until_s: float) -> float:
        """That were there in this time: owned ones, and on average borrowed ones."""
        if self.pool is None or until_s <= from_s:
            return self.num_devices
        return self.num_devices + self.pool.device_s(from_s, until_s) / (until_s - from_s)


def outcome_of(
    job: SimJob, view: JobView, run_end_s: float, segments: tuple[Segment, ...] = ()
) -> JobOutcome:
    """Return what became of a job; one that the run left open has the phase that it was in."""
    is_over = view.phase.is_end
    end_s = view.finished_s if is_over else None
    kept = None
    if view.deadline_s is not None:  # the one agreed upon, which may not be the one asked for at first
        kept = view.phase is Phase.SUCCEEDED and end_s is not None and end_s <= view.deadline_s
    single_s = job.num_steps / job.speed.one_device_rate_per_s if view.phase is Phase.SUCCEEDED else 0.0
    return _outcome(
        job,
        deadline_s=view.deadline_s,
        phase=view.phase,
        is_promised=view.is_promised,
        is_unpromised=view.is_unpromised,
        counter_offer_s=view.counter_offer_s,
        start_s=view.started_s,
        end_s=end_s,
        is_kept=kept,
        num_resizes=view.resizes,
        device_s=_device_s(view, run_end_s),
        single_device_s=single_s,
        sizes=view.sizes,
        why=why_failed(view),
        segments=segments,
    )


def too_large(job: SimJob, num_devices: int, sizes: Sizes) -> JobOutcome:
    """Return the outcome of a job that is rejected because no size of it fits this cluster."""
    num_needed = job.spec.min_workers * job.spec.devices_per_worker
    why = f"needs {num_needed} devices or more, and the cluster has {num_devices}"
    if num_needed <= num_devices:
        why += f": the policy gives {sizes.value}, and none that the job may have fits"
    return _outcome(
        job,
        deadline_s=job.spec.deadline_s,
        phase=Phase.REJECTED,
        is_kept=None if job.spec.deadline_s is None else False,
        why=why,
    )


def _outcome(job: SimJob, **became: Any) -> JobOutcome:
    """What was asked for, with what became of it."""
    return JobOutcome(
        id=job.id,
        model=job.model,
        tenant=job.spec.tenant,
        requested_devices=job.requested_devices,
        job_class=job.spec.job_class,
        job_kind=job.kind,
        submit_s=job.submit_s,
        is_buggy=job.dies_at_step is not None,
        num_steps=job.num_steps,
        global_batch=job.spec.global_batch,
        cores_per_worker=job.cores_per_worker,
        **became,
    )


def _device_s(view: JobView, run_end_s: float) -> float:
    if not view.sizes:
        return 0.0  # it has never run
    ends_s = [at_s for at_s, _ in view.sizes[1:]]
    ends_s.append(run_end_s if view.finished_s is None else view.finished_s)
    worker_s = sum((end - at) * size for (at, size), end in zip(view.sizes, ends_s, strict=True))
    return float(worker_s * view.devices_per_worker)


class Segment(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A stretch of time in which a gang holds the same devices and goes at the same rate."""

    from_s: float
    until_s: float
    trains_from_s: float  #: until then it pauses; inf: it starts, saves, or waits for word after a loss
    rate_per_s: float  #: steps/s of the job's own batch, from then on
    from_step: float
    until_step: float  #: less than it had come to, if work was lost at the end
    devices: tuple[str, ...]  #: of its workers, in rank order
    joining: tuple[str, ...] = ()  #: of workers that start while these train
    global_batch: int | None = None  #: samples of a step; None: the job's own batch
    end: str = ""  #: how the gang ended with it: `suspended`, or an outcome; empty: it goes on
    share: float | None = None  #: of the cores of its nodes; None: they are not divided

    @property
    def trains(self) -> bool:
        return math.isfinite(self.trains_from_s)


class SegmentLog:
    """Keeps the segments of each job until they are taken."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[SimGang, Segment]] = {}  #: those whose end is to come
        self._ended: dict[str, list[Segment]] = {}

    def note(self, training: SimGang, now_s: float) -> None:
        """The gang is new, or what it holds or does has changed."""
        self._close(training.job.id, now_s)
        trains, step = training.rate_per_s > 0.0, training.steps_at(now_s)
        coming = () if training.change is None else training.change.target.devices
        begun = Segment(
            from_s=now_s,
            until_s=now_s,
            trains_from_s=max(now_s, training.resumes_s) if trains else math.inf,
            rate_per_s=training.rate_per_s,
            from_step=step,
            until_step=step,
            devices=training.devices,
            joining=tuple(device for device in coming if device not in training.devices),
            global_batch=training.global_batch,
            share=training.configuration.share,
        )
        self._begun[training.job.id] = training, begun

    def end(self, training: SimGang, now_s: float, how: str) -> None:
        """The gang is no more."""
        self._close(training.job.id, now_s, how)

    def take(self, job_id: str, now_s: float) -> tuple[Segment, ...]:
        """All of the job so far, the one that is under way too; they are forgotten."""
        self._close(job_id, now_s)
        return tuple(self._ended.pop(job_id, ()))

    def _close(self, job_id: str, now_s: float, how: str = "") -> None:
        """One of no length is left out, unless it is a gang's start or end, or on other devices."""
        ended = self._ended.setdefault(job_id, [])
        if job_id not in self._begun:
            return
        training, begun = self._begun.pop(job_id)
        trains = begun.rate_per_s > 0.0
        is_start = trains and begun.from_s == training.formed_s
        is_move = trains and bool(ended) and begun.devices != ended[-1].devices
        if how or now_s > begun.from_s or is_start or is_move:
            until_step = training.steps_at(now_s)
            ended.append(msgspec.structs.replace(begun, until_s=now_s, until_step=until_step, end=how))


def gangs(segments: Sequence[Segment]) -> Iterator[Sequence[Segment]]:
    """Those of one gang after the other."""
    first = 0
    for number, segment in enumerate(segments, start=1):
        if segment.end or number == len(segments):
            yield segments[first:number]
            first = number


def holdings(segments: Sequence[Segment]) -> Iterator[tuple[float, tuple[str, ...]]]:
    """(since, devices with a worker of the job, those too that start) at each change; none between gangs."""
    held: tuple[str, ...] = ()
    for gang in gangs(segments):
        for segment in gang:
            if segment.devices + segment.joining != held:
                held = segment.devices + segment.joining
                yield segment.from_s, held
        held = ()
        yield gang[-1].until_s, held


def starts(segments: Sequence[Segment]) -> Iterator[tuple[float, float]]:
    """(launched, began its first step) of each gang that got so far."""
    for gang in gangs(segments):
        first = next((one for one in gang if one.trains and one.trains_from_s <= one.until_s), None)
        if first is not None:
            yield gang[0].from_s, first.trains_from_s


def pauses(segments: Sequence[Segment]) -> Iterator[tuple[float, float]]:
    """(since, length) of each time in which a gang that had begun to train did not."""
    for gang in gangs(segments):
        has_begun = False
        for segment in gang:
            length_s = min(segment.trains_from_s, segment.until_s) - segment.from_s
            if has_begun and length_s > 0.0:
                yield segment.from_s, length_s
            has_begun = has_begun or segment.trains_from_s < segment.until_s
