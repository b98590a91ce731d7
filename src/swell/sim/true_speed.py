"""How fast a simulated job really goes, on each kind of device, which the head is not told."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray, each
from swell.model.job import BatchProfile, Profile
from swell.throughput.curve import NO_CROSSING, Crossing, crossing_s


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
