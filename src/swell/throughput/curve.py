"""Step time of one job by number of workers: the two laws that a short profile is stretched with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import msgspec
import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray, each
from swell.model.job import JobSpec, Profile
from swell.script_facts import BetweenSteps

#: No step is believed to be faster than this: a rate stays finite whatever a profile says.
SHORTEST_STEP_S = 1e-6

#: Speed of a job without a trial run: w workers are w ** 0.8 times as fast as one, up to 2**16 of them.
SCALING_EXPONENT = 0.8
PLACES = 17
GUESSED_PARTS = 1 << PLACES - 1

#: Answers of a curve that are remembered; jobs ask for the same few sizes again and again.
NUM_ANSWERS = 4096
#: Hosts -> workers -> seconds more than on one host.
Crossing = Mapping[int, Mapping[int, float]]
NO_CROSSING: Crossing = MappingProxyType({})


class Curve(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True, weakref=True):
    """What is believed of a job before it runs.

    `step_s(w, h) = compute_s(ceil(global batch / w)) + allreduce_s(w) + crossing_s(w, h)` of w workers on h
    hosts, where a local batch that does not fit on a device is computed in passes. The *standing batch* of a
    size is what the job has there unless another batch is chosen: its own, or so many samples for each
    worker.
    """

    global_batch: int
    min_workers: int
    max_workers: int | None
    compute_s: dict[int, float]  #: samples in a worker's batch -> seconds
    allreduce_s: dict[int, float]  #: workers -> seconds
    max_local_batch: int | None = None  #: samples of a pass at most
    num_shards: int | None = None  #: parts of an own batch that no two workers can share
    range_of_batches: tuple[int, int] | None = None  #: of a job whose batch is open
    batch_per_worker: int | None = None  #: of a job whose batch grows with its workers
    between: BetweenSteps | None = None  #: time between epochs; None: not known
    end_per_step_s: float = 0.0  #: each step's part of what follows the last one
    crossing_s: dict[int, dict[int, float]] = {}  #: hosts -> workers -> seconds more than on one host
    allreduce_sizes: tuple[int, ...] | None = None  #: see `Profile`
    group_sizes: tuple[int, ...] = ()  #: workers of which a group has made whole steps in the trial run
    is_guess: bool = False  #: it had no trial run

    @classmethod
    def of(cls, spec: JobSpec, profile: Profile) -> Curve:
        """Raises ValueError if the profile holds no step time."""
        profile = _with_given_speed(spec, profile)
        if not profile.compute_s:
            raise ValueError(
                f"the profile of job {spec.name!r} has no step time; measure at least one local batch"
            )
        return cls(
            global_batch=spec.global_batch,
            min_workers=spec.min_workers,
            max_workers=spec.max_workers,
            compute_s=profile.compute_s,
            allreduce_s=profile.allreduce_s | _shared_s(spec, profile),
            max_local_batch=profile.max_local_batch,
            num_shards=profile.num_shards,
            range_of_batches=_range_of_batches(spec, profile.samples_per_epoch),
            batch_per_worker=spec.batch_per_worker,
            between=profile.between,
            end_per_step_s=_end_per_step_s(spec, profile),
            crossing_s=profile.crossing_s,
            allreduce_sizes=profile.allreduce_sizes,
            group_sizes=tuple(sorted(profile.group_step_s)),
        )

    @classmethod
    def guessed(cls, spec: JobSpec, one_worker_s: float) -> Curve:
        """The curve of a job that had no trial run, by the time of a step on one worker.

        Its script divides its batches itself: parts stand in the place of samples.
        """
        parts = {GUESSED_PARTS >> place: 2.0 ** (-SCALING_EXPONENT * place) for place in range(PLACES)}
        return cls(
            global_batch=GUESSED_PARTS,
            min_workers=spec.min_workers,
            max_workers=spec.max_workers,
            compute_s={num: one_worker_s * share for num, share in parts.items()},
            allreduce_s={},
            is_guess=True,
        )

    @property
    def may_change_batch(self) -> bool:
        """Whether a step may have other samples than `global_batch`."""
        return self.range_of_batches is not None or self.batch_per_worker is not None

    @property
    def batch_range(self) -> tuple[int, int]:
        """The smallest and the largest batch that may be chosen."""
        return self.range_of_batches or (self.global_batch, self.global_batch)

    def standing_batch(self, num_workers: int) -> int:
        """Samples of a step of so many workers, where no other batch is chosen."""
        each = self.batch_per_worker
        return self.global_batch if each is None else each * num_workers

    def standing_batches(self, workers: IntArray) -> IntArray | int:
        """The same of each number of workers; one number if it is the same for all."""
        each = self.batch_per_worker
        return self.global_batch if each is None else each * workers

    def allows(self, workers: IntArray, global_batch: IntArray | None = None) -> BoolArray:
        """Sizes the job may have: within its bounds, and at least one sample or shard for each worker.

        Args:
            global_batch: at each size; None: the standing one.
        """
        most = math.inf if self.max_workers is None else self.max_workers
        batch = self.standing_batches(workers) if global_batch is None else global_batch
        return (workers >= self.min_workers) & (workers <= most) & (workers <= self._parts(batch))

    def allows_one(self, num_workers: int) -> bool:
        """The same of one size at its standing batch."""
        is_within = self.min_workers <= num_workers <= (self.max_workers or num_workers)
        return is_within and bool(num_workers <= self._parts(self.standing_batch(num_workers)))

    def _parts(self, batch: IntArray | int) -> IntArray | int:
        """Samples of a batch, or its shards, none of which is larger than those of the own batch."""
        if self.num_shards is None:
            return batch
        shards = np.maximum(self.num_shards, -(-batch * self.num_shards // self.global_batch))
        parts: IntArray = np.minimum(shards, batch)
        return parts

    @cached_property
    def rates(self) -> dict[tuple[bytes, bytes], FloatArray]:
        """See `Learnt.rates_per_s`: what was asked of jobs of which no more is known."""
        return {}

    @cached_property
    def _answers(self) -> dict[tuple[int, int, int], float]:
        """Seconds of a step by workers, batch and hosts."""
        return {}

    def one_step_s(self, num_workers: int, num_hosts: int, global_batch: int | None = None) -> float:
        """Seconds a step of one size at this batch; None: the standing one."""
        key = num_workers, global_batch or self.standing_batch(num_workers), num_hosts
        if key not in self._answers:
            self.remember([key])
        return self._answers[key]

    def remember(self, asked: Sequence[tuple[int, int, int]]) -> None:
        """Work out `one_step_s` of these at once: workers, batch and hosts of each."""
        if any(key not in self._answers for key in asked):
            if len(self._answers) >= NUM_ANSWERS:
                self._answers.clear()
            self._answers.update(zip(asked, self.step_s(*np.array(asked).T).tolist(), strict=True))

    def step_s(
        self, workers: IntArray, global_batch: IntArray | None = None, hosts: IntArray | None = None
    ) -> FloatArray:
        """Seconds a step for each number of workers (any shape, > 0).

        Args:
            global_batch: of each; None: the standing one.
            hosts: that each number of workers is on; None: one.
        """
        batch = self.standing_batches(workers) if global_batch is None else global_batch
        local_batch = -(-batch // workers)
        compute_s = _in_passes_s(local_batch.astype(np.float64), self.compute_s, self.max_local_batch)
        shared_s = _allreduce_s(workers, self.allreduce_s)
        if hosts is not None and self.crossing_s:
            shared_s = shared_s + crossing_s(workers, hosts, self.crossing_s)
        return np.maximum(compute_s + shared_s, SHORTEST_STEP_S)


def _with_given_speed(spec: JobSpec, profile: Profile) -> Profile:
    """The profile, with steps that are as fast at the stated sizes as the owner says; between them the curve
    of a profile, and beyond them its continuation.

    What a stated speed counts already is left out: passes, time between epochs and between hosts.
    """
    if not spec.speed:
        return profile
    step_s = {size: spec.global_batch / rate_per_s for size, rate_per_s in spec.speed.items()}
    compute_s: dict[int, float] = {}
    for size, time_s in step_s.items():
        local_batch = -(-spec.global_batch // size)
        compute_s[local_batch] = min(time_s, compute_s.get(local_batch, time_s))
    return msgspec.structs.replace(
        profile,
        compute_s=compute_s,
        allreduce_s={
            size: time_s - compute_s[-(-spec.global_batch // size)] for size, time_s in step_s.items()
        },
        max_local_batch=None,
        between=None,
        crossing_s={},
        allreduce_sizes=None,
        group_step_s={},
    )


def _shared_s(spec: JobSpec, profile: Profile) -> dict[int, float]:
    """Workers -> seconds that a step of a group took longer than its part alone, where a group made steps.

    That counts as its all-reduce: what the workers take from each other is in it.
    """
    shared_s = {}
    for size, step_s in profile.group_step_s.items():
        local_batch = spec.batch_per_worker or -(-spec.global_batch // size)
        alone_s = _in_passes_s(np.array([float(local_batch)]), profile.compute_s, profile.max_local_batch)
        shared_s[size] = max(0.0, step_s - float(alone_s[0]))
    return shared_s


def _end_per_step_s(spec: JobSpec, profile: Profile) -> float:
    """0 for a job of unknown length."""
    total_steps = spec.end.total_steps(spec.global_batch, profile.samples_per_epoch)
    return profile.end_s / total_steps if total_steps else 0.0


def _range_of_batches(spec: JobSpec, samples_per_epoch: int) -> tuple[int, int] | None:
    """None if the batch is not open. No step has more samples than an epoch, if its length is known."""
    if spec.max_batch is None:
        return None
    largest = max(samples_per_epoch, spec.global_batch) if samples_per_epoch else spec.max_batch
    return spec.least_batch, min(spec.max_batch, largest)


def _in_passes_s(
    local_batch: FloatArray, measured: dict[int, float], max_local_batch: int | None
) -> FloatArray:
    """What was measured; between and beyond that, k equal passes of a size that fits, k as small as can be.

    A step of k passes is believed to take k steps of one: its one update is counted k times, so this errs
    on the slow side.
    """
    points = {float(batch): time_s for batch, time_s in measured.items()}
    if max_local_batch is None:
        return _compute_s(local_batch, points)
    num_passes = np.ceil(local_batch / max_local_batch)
    fitting = {batch: time_s for batch, time_s in points.items() if batch <= max_local_batch}
    time_s = num_passes * _compute_s(local_batch / num_passes, fitting or _per_pass(points, max_local_batch))
    for batch, measured_s in points.items():
        time_s = np.where(local_batch == batch, measured_s, time_s)
    return time_s


def _per_pass(measured: dict[float, float], max_local_batch: int) -> dict[float, float]:
    """What each measured step takes for one of its passes."""
    num_passes = {batch: math.ceil(batch / max_local_batch) for batch in measured}
    return {batch / num_passes[batch]: time_s / num_passes[batch] for batch, time_s in measured.items()}


def _compute_s(local_batch: FloatArray, measured: dict[float, float]) -> FloatArray:
    """Piecewise linear between measured batches, linear beyond them with an intercept >= 0.

    The intercept is what a step costs however small the batch. Noise can make it negative, and then
    small batches would come out as free: it is cut at 0, that is, time proportional to the batch.
    """
    batches = np.array(sorted(measured), dtype=np.float64)
    times_s = np.array([measured[batch] for batch in batches.tolist()])
    below_slope = _slope(batches[:2], times_s[:2], times_s[0] / batches[0])
    above_slope = _slope(batches[-2:], times_s[-2:], times_s[-1] / batches[-1])
    between_s = np.interp(local_batch, batches, times_s)
    below_s = below_slope * np.minimum(local_batch - batches[0], 0.0)
    above_s = above_slope * np.maximum(local_batch - batches[-1], 0.0)
    time_s: FloatArray = below_s + between_s + above_s
    return time_s


def _slope(batches: FloatArray, times_s: FloatArray, through_origin: float) -> float:
    """Slope of the line through two points, never negative and never with a negative intercept."""
    if len(batches) < 2:
        return through_origin
    return float(np.clip((times_s[1] - times_s[0]) / (batches[1] - batches[0]), 0.0, through_origin))


def _allreduce_s(workers: IntArray, measured: dict[int, float]) -> FloatArray:
    """Linear in log2(workers): 0 for one worker, between measured sizes, and a + b log2(w) beyond, b >= 0."""
    points = {1: 0.0} | {size: time_s for size, time_s in measured.items() if size > 1}
    levels = each(math.log2, np.array(sorted(points)))
    times_s = np.array([points[size] for size in sorted(points)])
    if len(points) == 1:
        return np.zeros(workers.shape)
    slope = max(0.0, float((times_s[-1] - times_s[-2]) / (levels[-1] - levels[-2])))
    wanted = each(math.log2, workers)
    between_s = np.interp(wanted, levels, times_s)
    time_s: FloatArray = between_s + slope * np.maximum(wanted - levels[-1], 0.0)
    return time_s


def crossing_s(workers: IntArray, hosts: IntArray, measured: Crossing) -> FloatArray:
    """Seconds more than on one host, for workers and hosts of one shape; 0 on one host, or if not measured.

    Hosts between two measured numbers are taken for the smaller one, so that what is not known makes a gang
    too fast and not too slow: a report corrects it as soon as there is such a gang. Workers between measured
    ones are on a line in log2(workers); beyond them it takes as long as at the nearest one.
    """
    extra_s = np.zeros(workers.shape)
    for num_hosts in np.unique(hosts[hosts > 1]).tolist():
        if points := _nearest(measured, num_hosts):
            levels = each(math.log2, np.array(sorted(points)))
            times_s = np.array([points[size] for size in sorted(points)])
            is_here = hosts == num_hosts
            extra_s[is_here] = np.interp(each(math.log2, workers[is_here]), levels, times_s)
    return extra_s


def _nearest(measured: Crossing, num_hosts: int) -> Mapping[int, float]:
    """Measured times for the largest number of hosts up to `num_hosts`, else for the smallest number."""
    known = sorted(num for num in measured if measured[num])
    if not known:
        return {}
    below = [num for num in known if num <= num_hosts]
    return measured[below[-1] if below else known[0]]
