"""What is true of a job whose batch may change, and how far steps of each batch get it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.job import BatchProfile

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
