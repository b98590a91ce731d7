"""Jobs of a simulated world: what users ask for, what is true of them, and how a workload makes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType

import msgspec
import numpy as np

from swell.arrays import each
from swell.model.job import (
    LOSS,
    AfterRefusal,
    Elasticity,
    EndCondition,
    FixedTerms,
    JobClass,
    JobSpec,
    Profile,
)
from swell.model.names import ANY
from swell.sim.change_cost import ChangeCost
from swell.sim.loss_curves import JobLoss, parse_loss
from swell.sim.profiles.curve import ProfileSet, ThroughputCurve
from swell.sim.traces.entry import JobKind, Workload, WorkloadJob
from swell.sim.true_speed import BatchTruth, KindTruth, TrueBatches, TrueRates

#: Of a job's draws: those of what it reports of its loss.
NOISE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SimJob:
    """What the head is told (`spec`, and on a trial run `profile`), and the truth that it is not told."""

    id: str
    submit_s: float
    spec: JobSpec
    profile: Profile
    speed: TrueRates
    batches: TrueBatches | None = None  #: of a job whose batch is open
    num_steps: int  #: that it really has to do; the spec's may be wrong
    dies_at_step: int | None = None  #: a buggy script raises there; 0: in its trial run
    cancel_s: float | None = None  #: its user gives it up then
    requested_devices: int | None = None  #: what a user of a scheduler without elasticity asked for
    model: str = ""
    cost: ChangeCost | None = None  #: of its own changes; None: the world's
    cores_per_worker: float = 1.0  #: that each worker uses if it gets them, > 0
    loss: JobLoss | None = None  #: what its steps do to its evaluation function; None: not told
    truths: Mapping[str, KindTruth] = field(default_factory=dict)  #: by kind of device; empty: all are alike

    def on(self, kind: str) -> SimJob:
        """The job as it is on this kind of device."""
        truth = self.truths.get(kind)
        if truth is not None:
            return replace(self, profile=truth.profile, speed=truth.speed, batches=truth.batches)
        if not self.spec.kinds:
            return self
        return replace(self, profile=msgspec.structs.replace(self.profile, device_kind=kind))

    @property
    def kind(self) -> JobKind:
        """How it runs."""
        if self.spec.fixed is None:
            return "elastic"
        return "session" if self.spec.fixed.is_session else "fixed"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of device that it may have; an empty one is that of the first node."""
        return self.spec.kinds if self.spec.kinds and not self.spec.kind else (self.spec.kind,)


def jobs_of(
    workload: Workload,
    profiles: ProfileSet,
    device_kind: str,
    noise_share: float = 0.0,
    profile_error_share: float = 0.0,
    seed: int = 0,
    after_refusal: AfterRefusal = AfterRefusal.END,
    kind_speeds: Mapping[str, float] = MappingProxyType({}),
    node_width: int = 1,
) -> list[SimJob]:
    """What each user asks for, and what is true of each job.

    Args:
        noise_share: how far true rates lie from the profile's: standard deviation of their logarithm,
            drawn for each job and size.
        profile_error_share: the same for what a trial run measures, of the truth.
        after_refusal: what strict jobs ask for in case they are refused.
        kind_speeds: how fast each kind is, in the profiles' rates, where there are several. A job that
            names no kind may have any, the fastest first.
        node_width: devices of the largest node; a fixed job is on as few nodes as hold it.

    Raises:
        UnknownProfile: the workload was filled from other profiles.
    """
    curve_of = cache(profiles.curve)
    profile_of = cache(lambda model, batch: curve_of(model, batch).profile(device_kind))
    speed_of = cache(lambda model, batch: true_speed(curve_of(model, batch)))
    is_certain = noise_share == 0.0 and profile_error_share == 0.0

    def job_of(index: int, job: WorkloadJob) -> SimJob:
        curve = curve_of(job.model, job.global_batch)
        profile = profile_of(job.model, job.global_batch)
        batches = _batches(job, curve)
        if batches is not None and batches is not curve.batches:
            profile = msgspec.structs.replace(profile, batches=batches.profile())
        speed = speed_of(job.model, job.global_batch)
        if not is_certain:
            generator = np.random.default_rng([seed, index])  # one job's draws do not depend on the others
            speed = true_speed(curve, noise_share, generator)
            profile = _misread(profile, profile_error_share, generator)
        spec = _spec(job, curve, batches, after_refusal)
        if job.time_limit_s is not None:
            spec, speed = _fixed(job, spec, speed, node_width)
        if kind_speeds:
            spec = _with_kinds(spec, job.kinds, kind_speeds)
        truth = KindTruth(profile=profile, speed=speed, batches=batches)
        return SimJob(
            id=job.id,
            submit_s=job.submit_s,
            spec=spec,
            truths={kind: truth.times(factor, kind) for kind, factor in kind_speeds.items()},
            profile=profile,
            speed=speed,
            batches=batches,
            num_steps=job.num_steps,
            dies_at_step=job.dies_at_step,
            cancel_s=job.cancel_s,
            requested_devices=job.num_devices,
            model=job.model,
            cores_per_worker=job.cores_per_worker or 1.0,
            loss=None if job.loss_curve is None else parse_loss(job.loss_curve, (seed, index, NOISE)),
        )

    return [job_of(index, job) for index, job in enumerate(workload.jobs)]


def _with_kinds(spec: JobSpec, named: tuple[str, ...], speeds: Mapping[str, float]) -> JobSpec:
    if len(named) == 1 and named != (ANY,):
        return msgspec.structs.replace(spec, kind=named[0])
    is_any = not named or named == (ANY,)
    fastest_first = tuple(sorted(speeds, key=lambda kind: -speeds[kind]))
    return msgspec.structs.replace(spec, kinds=fastest_first if is_any else named)


def true_speed(
    curve: ThroughputCurve, noise_share: float = 0.0, generator: np.random.Generator | None = None
) -> TrueRates:
    return TrueRates(curve.sizes, curve.rate_per_s, noise_share, generator, curve.crossing_s)


def _batches(job: WorkloadJob, curve: ThroughputCurve) -> BatchTruth | None:
    """That it may have, where its batch is open."""
    if not job.is_elastic or job.time_limit_s is not None or curve.batches is None:
        return None
    if job.max_batch is None:
        return curve.batches
    return curve.batches.narrowed(job.min_batch or job.global_batch, job.max_batch)


def _spec(
    job: WorkloadJob, curve: ThroughputCurve, batches: BatchTruth | None, after_refusal: AfterRefusal
) -> JobSpec:
    least, most = max(curve.min_workers, job.min_devices or 1), curve.max_workers
    if not job.is_elastic:
        least = most = job.num_devices
    if batches is not None:
        most = max(most, batches.max_workers)
    return JobSpec(
        name=job.model,
        entry=job.model,
        workdir="/",
        global_batch=job.global_batch,
        end=EndCondition(steps=job.stated_steps or job.num_steps),
        job_class=job.job_class,
        deadline_s=job.deadline_s,
        after_refusal=after_refusal if job.job_class is JobClass.STRICT else AfterRefusal.END,
        min_workers=least,
        max_workers=most,
        requested_workers=job.num_devices,
        tenant=job.tenant or "",
        booking=job.booking or "",
        priority=job.priority or 0,
        weight=job.weight or 1.0,
        min_batch=None if batches is None else batches.least_batch,
        max_batch=None if batches is None else batches.most_batch,
        metric=job.metric or LOSS,
        metric_rises=_rises(job),
    )


def _fixed(job: WorkloadJob, spec: JobSpec, speed: TrueRates, node_width: int) -> tuple[JobSpec, TrueRates]:
    """What is asked for and true of a job of one size: a part of it is on each of its nodes."""
    num_devices = job.num_devices
    least = -(-num_devices // node_width)
    num_parts = next(parts for parts in range(least, num_devices + 1) if num_devices % parts == 0)
    at_size = TrueRates(np.array([num_parts]), np.array([speed.rate_per_s(num_devices)]))
    at_size.one_device_rate_per_s = speed.one_device_rate_per_s
    spec = msgspec.structs.replace(
        spec,
        elasticity=Elasticity.FIXED,
        fixed=FixedTerms(time_s=job.time_limit_s or 0.0, is_session=job.job_kind == "session"),
        global_batch=1,
        end=EndCondition(),
        min_workers=num_parts,
        max_workers=num_parts,
        requested_workers=None,
        devices_per_worker=num_devices // num_parts,
    )
    return spec, at_size


def _rises(job: WorkloadJob) -> bool:
    """Whether learning raises its metric: where it is not said, it lowers it."""
    if job.loss_curve is None:
        return False
    curve = parse_loss(job.loss_curve).curve
    return curve.value(float(job.num_steps)) > curve.value(0.0)


def _misread(profile: Profile, error_share: float, generator: np.random.Generator) -> Profile:
    if error_share == 0.0:
        return profile
    factors = each(math.exp, error_share * generator.standard_normal(len(profile.compute_s)))
    compute_s = {
        batch: time_s * float(factor)
        for (batch, time_s), factor in zip(profile.compute_s.items(), factors, strict=True)
    }
    misread = msgspec.structs.replace(profile, compute_s=compute_s)
    if profile.batches is None:
        return misread
    sizes = sorted({size for times in profile.batches.step_s.values() for size in times})
    by_size = dict(
        zip(sizes, each(math.exp, error_share * generator.standard_normal(len(sizes))), strict=True)
    )
    step_s = {
        batch: {size: time_s * float(by_size[size]) for size, time_s in times.items()}
        for batch, times in profile.batches.step_s.items()
    }
    batches = msgspec.structs.replace(profile.batches, step_s=step_s)
    return msgspec.structs.replace(misread, batches=batches)
