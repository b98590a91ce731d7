"""What a platform expects of a job that has had its trial run and nothing else."""

from __future__ import annotations

import math

import numpy as np

from swell.core.costs import ChangeCosts, ExpectedCosts
from swell.model.job import JobSpec, Profile
from swell.throughput.curve import Curve


class JobExpectations:
    """Expected times of one job, in seconds."""

    def __init__(self, spec: JobSpec, profile: Profile) -> None:
        self._profile = profile
        self._curve = Curve.of(spec, profile)

    def start_s(self, num_workers: int) -> float:
        """Time from the launch of a gang to its first step."""
        return float(self._costs(num_workers).start_s[0])

    def pause_s(self) -> float:
        """Time that a resize takes from training."""
        return float(self._costs(1).resize_s[0])

    def wait_s(self, num_workers: int) -> float:
        """Time from the order to grow until the new workers train; the others train meanwhile."""
        return float(self._costs(num_workers).wait_s[0])

    def step_s(self, num_workers: int) -> float:
        return self._curve.one_step_s(num_workers, 1)

    def all_reduce_s(self, num_workers: int) -> float | None:
        return self._profile.allreduce_s.get(num_workers)

    def _costs(self, num_workers: int) -> ExpectedCosts:
        none = np.full(1, math.nan)
        return ChangeCosts().expected(
            none,
            none,
            none,
            none,
            np.array([self._profile.start_s]),
            np.array([float(self._profile.most_copied_bytes)]),
            np.zeros(1, np.int64),
            np.array([num_workers]),
        )
