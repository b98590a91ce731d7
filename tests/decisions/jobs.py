"""Jobs that are drawn from a seed, with every feature that a decision depends on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from swell.arrays import each
from swell.model.job import AfterRefusal, Elasticity, EndCondition, JobClass, JobSpec, Profile
from swell.sim.job import SimJob
from swell.sim.loss_curves import parse_loss
from swell.sim.true_speed import TrueRates
from swell.sim.what_if import BatchBelief
from swell.throughput.belief import FittedBelief

BATCH = 64
#: Workers -> steps a second: nearly linear, saturating, falling, only in pairs, never more than one.
CURVES: tuple[dict[int, float], ...] = (
    {1: 1.0, 2: 1.9, 4: 3.6, 8: 6.6, 16: 11.5},
    {1: 1.0, 2: 1.7, 4: 2.6, 8: 3.1},
    {1: 2.0, 2: 3.4, 4: 5.0, 8: 4.4},
    {2: 1.6, 4: 2.9, 8: 5.1, 16: 8.2},
    {1: 0.8},
)
TENANTS = ("", "ana", "ben", "cleo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What is drawn of each job. Shares are probabilities."""

    num_jobs: int
    span_s: float  #: between the first and the last submission
    median_s: float = 300.0  #: of the time that a job takes on its smallest gang
    tightness: tuple[float, float] = (0.25, 2.5)  #: of deadlines, as shares of that time
    best_effort_share: float = 0.2
    soft_share: float = 0.2
    accept_share: float = 0.25  #: of strict jobs: they take counter-offers
    retry_share: float = 0.25  #: of strict jobs: they run as soft ones if they are refused
    cancelled_share: float = 0.1
    buggy_share: float = 0.06
    open_batch_share: float = 0.1
    weak_share: float = 0.06  #: their batch grows with their workers
    restart_share: float = 0.08
    wide_share: float = 0.08  #: two devices for each worker
    loss_share: float = 0.3
    epoch_share: float = 0.2
    noise: float = 0.1  #: standard deviation of the logarithm of true rates
    misread: float = 0.1  #: the same, of what trial runs measure of them
    kinds: tuple[str, ...] = ("",)
    arrival_s: float = 0.001  #: jobs are submitted at multiples of it


class Draw:
    """One job's numbers, which depend on its seed and place alone."""

    def __init__(self, mix: Mix, seed: int, place: int) -> None:
        self._mix, self._seed, self._place = mix, seed, place
        self._random = np.random.default_rng([seed, place])
        submit_s = mix.span_s * place / max(1, mix.num_jobs - 1) * self._uniform(0.9, 1.0)
        self._submit_s = round(submit_s / mix.arrival_s) * mix.arrival_s
        self._rates = CURVES[int(self._random.integers(len(CURVES)))]
        self._alone_s = mix.median_s * math.exp(0.8 * float(self._random.standard_normal()))
        self._steps = max(20, round(self._alone_s * min(self._rates.values())))

    def _uniform(self, low: float, high: float) -> float:
        return float(self._random.uniform(low, high))

    def _is(self, share: float) -> bool:
        return self._uniform(0.0, 1.0) < share

    def _factors(self, spread: float, num: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        return each(math.exp, spread * self._random.standard_normal(num))

    def job(self) -> SimJob:
        mix, name = self._mix, f"job{self._place:03d}"
        sizes = np.array(sorted(self._rates), dtype=np.int64)
        measured = np.array([self._rates[size] for size in sizes.tolist()])
        true = TrueRates(sizes, measured, mix.noise, self._random)
        seen = dict(zip(sizes.tolist(), measured * self._factors(mix.misread, len(sizes)), strict=True))
        spec, profile = self._spec(name, sizes.tolist()), self._profile(seen)
        is_open, is_weak = self._is(mix.open_batch_share), self._is(mix.weak_share)
        fields: dict[str, Any] = self._fate()
        if is_open or is_weak:
            batches = {"max_batch": 4 * BATCH} if is_open else {"batch_per_worker": BATCH}
            spec = msgspec.structs.replace(spec, min_workers=1, devices_per_worker=1, **batches)
            profile = _stretched(self._alone_s / self._steps)
            belief = FittedBelief()
            belief.learn_profile(name, spec, profile)
            true = TrueRates(sizes, belief.of(name).rates_per_s(sizes).clip(1e-3), mix.noise, self._random)
            fields["batches"] = BatchBelief(name, belief) if is_open else None
        return SimJob(
            id=name,
            submit_s=self._submit_s,
            spec=spec,
            profile=profile,
            speed=true,
            num_steps=self._steps,
            model=name,
            requested_devices=spec.requested_workers,
            **fields,
        )

    def _spec(self, name: str, sizes: list[int]) -> JobSpec:
        mix = self._mix
        job_class, deadline_s = self._deadline()
        is_strict = job_class is JobClass.STRICT
        accept_until_s = None
        if is_strict and self._is(mix.accept_share) and deadline_s is not None:
            accept_until_s = deadline_s + self._uniform(0.0, 1.5) * self._alone_s
        is_restart = self._is(mix.restart_share)
        return JobSpec(
            name=name,
            entry=name,
            workdir="/",
            global_batch=BATCH,
            end=EndCondition(steps=self._steps),
            job_class=job_class,
            deadline_s=deadline_s,
            after_refusal=AfterRefusal.SOFT if is_strict and self._is(mix.retry_share) else AfterRefusal.END,
            accept_until_s=accept_until_s,
            min_workers=sizes[0],
            max_workers=sizes[-1],
            requested_workers=sizes[int(self._random.integers(len(sizes)))],
            devices_per_worker=2 if self._is(mix.wide_share) and sizes[-1] <= 8 else 1,
            elasticity=Elasticity.RESTART if is_restart else Elasticity.LIVE,
            tenant=TENANTS[int(self._random.integers(len(TENANTS)))],
            kind=mix.kinds[int(self._random.integers(len(mix.kinds)))],
        )

    def _deadline(self) -> tuple[JobClass, float | None]:
        if self._is(self._mix.best_effort_share):
            return JobClass.BEST_EFFORT, None
        is_soft = self._is(self._mix.soft_share)
        deadline_s = self._submit_s + 10.0 + self._uniform(*self._mix.tightness) * self._alone_s
        return JobClass.SOFT if is_soft else JobClass.STRICT, deadline_s

    def _profile(self, seen: dict[int, float]) -> Profile:
        return Profile(
            device_kind="gpu",
            compute_s={BATCH // size: 1.0 / float(rate) for size, rate in seen.items()},
            allreduce_s={},
            grad_bytes=1_000_000,
            state_bytes=50_000_000,
            samples_per_epoch=BATCH,
            start_s=self._uniform(0.5, 3.0),
            crossing_s={2: {size: 0.02 for size in seen if size > 1}} if self._is(0.3) else {},
        )

    def _fate(self) -> dict[str, Any]:
        mix, fields = self._mix, dict[str, Any]()
        if self._is(mix.cancelled_share):
            fields["cancel_s"] = self._submit_s + self._uniform(0.0, 1.0) * self._alone_s
        if self._is(mix.buggy_share):
            fields["dies_at_step"] = int(self._random.integers(0, self._steps))
        if self._is(mix.epoch_share):
            self._uniform(0.5, 15.0)
        if self._is(mix.loss_share):
            scale = self._steps * self._uniform(0.1, 0.6)
            fields["loss"] = parse_loss(f"exp:2.5:0.3:{scale}+noise:0.02", (self._seed, self._place))
        fields["cores_per_worker"] = round(self._uniform(0.5, 3.0), 2)
        return fields


def _stretched(step_s: float) -> Profile:
    """Of a job whose batch may change: a step of its own batch on one worker takes so long."""
    return Profile(
        device_kind="gpu",
        compute_s={BATCH // 4: 0.4 * step_s, BATCH: step_s, 4 * BATCH: 3.6 * step_s},
        allreduce_s={2: 0.05 * step_s, 4: 0.06 * step_s, 8: 0.08 * step_s},
        grad_bytes=1_000_000,
        state_bytes=50_000_000,
        samples_per_epoch=20 * BATCH,
        start_s=1.0,
    )


def crowd(mix: Mix, seed: int) -> list[SimJob]:
    """By submission."""
    jobs = (Draw(mix, seed, place).job() for place in range(mix.num_jobs))
    return sorted(jobs, key=lambda job: (job.submit_s, job.id))
