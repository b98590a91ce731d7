"""What is true of a job whose batch may change while it trains."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.job import BatchProfile
from swell.sim.profiles.statistics import GradientStatistics

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
        self._ends: FloatArray = np.cumsum(statistics.epoch_progress / statistics.gain(own_batch))

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
