"""What a platform expects of a job that has had its trial run and nothing else."""

from __future__ import annotations

from swell.core.cost_curves import expected_s
from swell.core.cost_table import CostTable
from swell.model.job import JobSpec, Profile
from swell.model.resize import CostKind
from swell.throughput.curve import Curve


class JobExpectations:
    """Expected times of one job, in seconds."""

    def __init__(self, spec: JobSpec, profile: Profile) -> None:
        self._spec, self._profile = spec, profile
        self._curve = Curve.of(spec, profile)
        self._costs = CostTable()
        self._costs.learn_trial(profile)

    def cost_s(self, change: CostKind, num_workers: int) -> float:
        """Time that a start or a resize to so many workers takes."""
        return expected_s(self._costs, change, self._spec, self._profile, num_workers)

    def step_s(self, num_workers: int) -> float:
        return self._curve.one_step_s(num_workers, 1)

    @property
    def save_s(self) -> float | None:
        """Time that a checkpoint takes from training; None: the trial run has not measured it."""
        return self._profile.save_s

    def all_reduce_s(self, num_workers: int) -> float | None:
        return self._profile.allreduce_s.get(num_workers)
