"""How fast a simulated job really goes, on each kind of device and at each batch: the head is not told."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray, each
from swell.model.job import BatchProfile, Profile
from swell.throughput.curve import NO_CROSSING, Crossing, crossing_s

#: Batches that a trial run tries, in equal ratios from the smallest to the largest.
NUM_TRIED = 24


class BatchTimes(Hashable, Protocol):
    """How long a step takes at any batch."""

    def step_s(self, workers: int, global_batch: FloatArray) -> FloatArray:
        """(B,) seconds a step; inf where it is not possible."""

    def most_workers(self, global_batch: int) -> int:
        """Return the most workers that can compute a step of so many samples."""


class BatchTruth:
    """Progress is counted in steps of the job's own batch, or as much of what other batches get as far.

    Epochs are as long as they are at the own batch. Within one a step at another batch is worth the ratio of
    the gains there (`GradientStatistics.gain`).

    Args:
        own_batch: what the job asked for; within those of the statistics.
        tried: batches of a trial run; None: some over the whole range.
        allowed: the smallest and the largest batch; None: all of the statistics.
    """

    def __init__(
        self,
        times: BatchTimes,
        statistics: GradientStatistics,
        own_batch: int,
        tried: IntArray | None = None,
        allowed: tuple[int, int] | None = None,
    ) -> None:
        self._times = times
        self._tried = tried
        self._statistics = statistics
        self.own_batch = own_batch
        self.least_batch, self.most_batch = allowed or (statistics.least_batch, statistics.most_batch)
        of_epochs = np.diff(statistics.progress, prepend=0.0)
        self._ends: FloatArray = np.cumsum(of_epochs / statistics.gain(own_batch))

    @property
    def num_steps(self) -> int:
        """Steps at the own batch until the model is as good as the measured runs made it."""
        return max(1, round(float(self._ends[-1])))

    def narrowed(self, least: int, most: int) -> BatchTruth:
        """The same of a job that allows these batches only, its own among them."""
        return BatchTruth(self._times, self._statistics, self.own_batch, self._tried, (least, most))

    @property
    def max_workers(self) -> int:
        """That some batch has enough samples for."""
        return self._times.most_workers(self.most_batch)

    def rate_per_s(self, workers: int, global_batch: int, steps: float) -> float:
        """Own steps a second once so many are done."""
        epoch = self._epoch(steps)
        worth = self._statistics.gain(global_batch)[epoch] / self._statistics.gain(self.own_batch)[epoch]
        return float(worth / self._times.step_s(workers, np.array([global_batch], dtype=np.float64))[0])

    def noise_scale(self, global_batch: int, steps: float) -> float:
        """Samples; as training at this batch measures it."""
        return float(self._statistics.noise_scale(global_batch)[self._epoch(steps)])

    def epoch_end(self, steps: float) -> float:
        """The number of steps at which the epoch ends that is under way; inf in the last one."""
        epoch = self._epoch(steps)
        return float(self._ends[epoch]) if epoch < len(self._ends) - 1 else np.inf

    def profile(self) -> BatchProfile:
        """What a trial run reports: step times at batches over the whole range, the own one among them."""
        tried = self._tried
        if tried is None:
            tried = np.geomspace(self.least_batch, self.most_batch, NUM_TRIED).round().astype(np.int64)
        within = tried[(tried >= self.least_batch) & (tried <= self.most_batch)]
        batches = np.unique(np.append(within, [self.least_batch, self.own_batch, self.most_batch]))
        step_s: dict[int, dict[int, float]] = {batch: {} for batch in batches.tolist()}
        for workers in range(1, self.max_workers + 1):
            times_s = self._times.step_s(workers, batches.astype(np.float64))
            for batch, time_s in zip(batches.tolist(), times_s.tolist(), strict=True):
                if np.isfinite(time_s):
                    step_s[batch][workers] = time_s
        return BatchProfile(
            step_s={batch: times for batch, times in step_s.items() if times},
            noise_scale=self.noise_scale(self.own_batch, 0.0),
        )

    def _epoch(self, steps: float) -> int:
        return min(int(np.searchsorted(self._ends, steps, side="right")), len(self._ends) - 1)


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """One training run at a fixed batch, a row an epoch."""

    global_batch: int
    progress: FloatArray  #: (E,) at the end of each, in steps of the smallest batch that are worth as much
    grad_sqr: FloatArray  #: (E,) squared norm of the true gradient
    grad_var: FloatArray  #: (E,) variance of the smallest batch's gradient


class GradientStatistics:
    """The gain of a step at each batch and epoch, from runs at several batches.

    A step at batch M gets as far as `gain(M)` steps at the smallest batch m, with the gradients' variance v
    and squared norm s at that epoch: `(v + s) / (v m / M + s)`. Between the batches of the runs v and s are
    on a line.

    References: Qiao et al., "Pollux", OSDI 2021, sections 3.1 and 5.3; Johnson et
        al., "AdaScale SGD", ICML 2020 (the gain).
    """

    def __init__(self, runs: Sequence[MeasuredRun]) -> None:
        runs = sorted(runs, key=lambda run: run.global_batch)
        num_epochs = min(len(run.progress) for run in runs)
        self.batches = tuple(run.global_batch for run in runs)
        self._sqr = np.array([run.grad_sqr[:num_epochs] for run in runs])
        self._var = np.array([run.grad_var[:num_epochs] for run in runs])
        self.progress: FloatArray = np.min([run.progress[:num_epochs] for run in runs], axis=0)
        self._gains: dict[float, FloatArray] = {}

    @property
    def least_batch(self) -> int:
        return self.batches[0]

    @property
    def most_batch(self) -> int:
        return self.batches[-1]

    def gain(self, global_batch: float) -> FloatArray:
        """(E,) steps of the smallest batch that one step at this batch is worth, in each epoch."""
        known = self._gains.get(global_batch)
        if known is None:
            sqr, var = self._at(global_batch)
            known = self._gains[global_batch] = _gain(sqr, var, self.least_batch / global_batch)
        return known

    def noise_scale(self, global_batch: float) -> FloatArray:
        """(E,) samples: the batch from which on more samples bring little; inf where nothing but noise is."""
        sqr, var = self._at(global_batch)
        is_some = sqr > 0.0
        return np.where(is_some, self.least_batch * var / np.where(is_some, sqr, 1.0), np.inf)

    def _at(self, global_batch: float) -> tuple[FloatArray, FloatArray]:
        """(E,) squared norm and variance."""
        above = int(np.clip(np.searchsorted(self.batches, global_batch), 1, max(len(self.batches) - 1, 1)))
        if len(self.batches) == 1:
            return self._sqr[0], self._var[0]
        low, high = self.batches[above - 1], self.batches[above]
        share = min(max((global_batch - low) / (high - low), 0.0), 1.0)
        sqr = (1.0 - share) * self._sqr[above - 1] + share * self._sqr[above]
        var = (1.0 - share) * self._var[above - 1] + share * self._var[above]
        return sqr, var


def _gain(sqr: FloatArray, var: FloatArray, least_share: float | FloatArray) -> FloatArray:
    """Args: least_share: the smallest batch over the batch that it is of."""
    least = var * least_share + sqr
    return np.where(least > 0.0, (var + sqr) / np.where(least > 0.0, least, 1.0), 1.0)


class TrueBatches(Protocol):
    """What is true of a job at each batch that it may have; steps are of its own batch."""

    def rate_per_s(self, workers: int, global_batch: int, steps: float) -> float:
        """Steps a second once so many are done."""

    def noise_scale(self, global_batch: int, steps: float) -> float:
        """Samples; as training at this batch measures it."""

    def epoch_end(self, steps: float) -> float:
        """The number of steps at which rates become others; inf if they do not."""


class TrueRates:
    """How fast a job really goes at each number of workers.

    Args:
        sizes: (K,) workers that were measured, ascending.
        rate_per_s: (K,) steps/s, > 0.
        noise_share: standard deviation of the log of each size's factor on the measured rate.
        generator: draws the factors, once a job and size.
        crossing: seconds that a step takes longer on several hosts.
    """

    def __init__(
        self,
        sizes: IntArray,
        rate_per_s: FloatArray,
        noise_share: float = 0.0,
        generator: np.random.Generator | None = None,
        crossing: Crossing = NO_CROSSING,
    ) -> None:
        self._crossing = crossing
        rates = rate_per_s.astype(np.float64)
        self._log_sizes = each(math.log, sizes)
        self._log_factors: FloatArray | None = None
        if noise_share > 0 and generator is not None:
            self._log_factors = noise_share * generator.standard_normal(len(rates))
            rates = rates * each(math.exp, self._log_factors)
        self._log_rates = each(math.log, rates)
        self._known: dict[int, float] = dict(zip(sizes.tolist(), rates.tolist(), strict=True))
        #: Steps/s of one worker; where memory allows no single one, the smallest gang's a worker.
        self.one_device_rate_per_s = float(rates[0]) / int(sizes[0])

    def rate_per_s(self, num_workers: int) -> float:
        """Steps/s; between measured sizes on a line in logarithms, beyond the last as fast as that."""
        rate = self._known.get(num_workers)
        if rate is None:
            rate = math.exp(float(np.interp(math.log(num_workers), self._log_sizes, self._log_rates)))
            self._known[num_workers] = rate
        return rate

    @property
    def depends_on_hosts(self) -> bool:
        return bool(self._crossing)

    def crossing_factor(self, num_workers: int, num_hosts: int) -> float:
        """Rate of a gang on so many hosts / that of one on a single host, in (0, 1]."""
        extra_s = crossing_s(np.array([num_workers]), np.array([num_hosts]), self._crossing)
        return 1.0 / (1.0 + float(extra_s[0]) * self.rate_per_s(num_workers))

    def times(self, factor: float) -> TrueRates:
        """The same job, so much faster at every size."""
        faster = copy(self)
        faster._crossing = {
            num_hosts: {size: extra_s / factor for size, extra_s in by_workers.items()}
            for num_hosts, by_workers in self._crossing.items()
        }
        log_factors = np.zeros_like(self._log_rates) if self._log_factors is None else self._log_factors
        faster._log_factors = log_factors + math.log(factor)
        faster._log_rates = self._log_rates + math.log(factor)
        faster._known = {size: factor * rate for size, rate in self._known.items()}
        faster.one_device_rate_per_s = factor * self.one_device_rate_per_s
        return faster

    def factor(self, num_workers: int) -> float:
        """True rate / measured rate, at whatever batch."""
        if self._log_factors is None:
            return 1.0
        return math.exp(float(np.interp(math.log(num_workers), self._log_sizes, self._log_factors)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTruth:
    """How fast a job really goes on one kind of device, and what a trial run there shows."""

    profile: Profile
    speed: TrueRates
    batches: TrueBatches | None = None

    def times(self, factor: float, kind: str) -> KindTruth:
        """The same job on a kind whose devices are so much faster, the network included.

        Its rates at other batches are those of its own times `TrueRates.factor`.
        """
        profile = msgspec.structs.replace(self.profile, device_kind=kind)
        if factor == 1.0:
            return replace(self, profile=profile)
        return replace(self, profile=_faster(profile, factor), speed=self.speed.times(factor))


def _faster(profile: Profile, factor: float) -> Profile:
    def times(by_key: dict[int, float]) -> dict[int, float]:
        return {key: time_s / factor for key, time_s in by_key.items()}

    batches = profile.batches
    if batches is not None:
        step_s = {batch: times(by_workers) for batch, by_workers in batches.step_s.items()}
        batches = BatchProfile(step_s=step_s, noise_scale=batches.noise_scale)
    return msgspec.structs.replace(
        profile,
        compute_s=times(profile.compute_s),
        allreduce_s=times(profile.allreduce_s),
        group_step_s=times(profile.group_step_s),
        crossing_s={hosts: times(by_workers) for hosts, by_workers in profile.crossing_s.items()},
        batches=batches,
    )
