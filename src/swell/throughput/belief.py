"""What the head believes about speed, and by how much it has been too hopeful."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import msgspec
import numpy as np

from swell.model.job import JobSpec, Profile
from swell.model.snapshot import FloatArray, IntArray
from swell.throughput.curve import SHORTEST_STEP_S, Curve

#: A report is judged together with its two predecessors, so that a lone slow one (the first after a
#: change of size: caches are cold, memory is being allocated) moves nothing.
NUM_JUDGED = 3
EWMA_WEIGHT = 0.3
#: Speed of a job without a profile: w workers do w ** 0.8 seconds of one-worker work a second.
SCALING_EXPONENT = 0.8

NUM_ERRORS = 64  #: errors remembered, most recent first to stay
NUM_ERRORS_NEEDED = 5
ERROR_QUANTILE = 0.9
PRIOR_MARGIN, LEAST_MARGIN, LARGEST_MARGIN = 0.05, 0.02, 0.5


class Measured(msgspec.Struct, kw_only=True):
    """Step time of a job at one size, as reported."""

    predicted_s: float  #: what was believed when the first report came
    step_s: float  #: what is believed now
    recent_s: list[float] = []  #: the last reports, at most NUM_JUDGED
    num_reports: int = 0

    def add(self, step_s: float) -> None:
        """Take the median of the last three reports into a moving average.

        The prediction stands in for reports that have not come yet: one report alone changes
        nothing, two that agree decide.
        """
        self.recent_s = [*self.recent_s, max(step_s, SHORTEST_STEP_S)][-NUM_JUDGED:]
        self.num_reports += 1
        missing = [self.predicted_s] * (NUM_JUDGED - len(self.recent_s))
        judged_s = median([*missing, *self.recent_s])
        weight = 1.0 if self.num_reports <= NUM_JUDGED else EWMA_WEIGHT
        self.step_s *= (judged_s / self.step_s) ** weight

    @property
    def error(self) -> float | None:
        """log(measured / predicted), > 0 where the belief was too fast; None while it is not settled."""
        return math.log(self.step_s / self.predicted_s) if self.num_reports >= NUM_JUDGED else None


class Learnt(msgspec.Struct, kw_only=True):
    """A job's curve and its corrections."""

    curve: Curve
    measured: dict[int, Measured] = {}  #: by workers

    def step_s(self, workers: IntArray) -> FloatArray:
        """(K,) measured where there are reports, else predicted times the ratio seen at other sizes."""
        believed_s = self.curve.step_s(workers) * self._ratio()
        for index, size in enumerate(workers.tolist()):
            if size in self.measured:
                believed_s[index] = self.measured[size].step_s
        return believed_s

    def _ratio(self) -> float:
        """Geometric mean of measured / predicted over the sizes that were measured; 1 if none was."""
        if not self.measured:
            return 1.0
        sizes = np.array(sorted(self.measured), dtype=np.int64)
        measured_s = np.array([self.measured[size].step_s for size in sizes.tolist()])
        return float(np.exp(np.mean(np.log(measured_s / self.curve.step_s(sizes)))))


class SizeError(msgspec.Struct, frozen=True):
    job_id: str
    num_workers: int
    error: float  #: log(measured step / believed step)


class BeliefState(msgspec.Struct, kw_only=True):
    jobs: dict[str, Learnt] = {}
    errors: list[SizeError] = []  #: oldest first, one for each job and size


class FittedBelief:
    """Curves from profiles, corrected by reports; implements `core.ports.Belief`.

    A size past the peak of its curve keeps its lower rate: it is for the policy to stop at the peak.

    References: ElasticFlow, section 5, "Throughput profiling".
    Deviates: also learns how far its own predictions were off, which the paper leaves out; a promise
        can be planned with that margin.
    """

    def __init__(self) -> None:
        self._state = BeliefState()

    def learn_profile(self, job_id: str, spec: JobSpec, profile: Profile) -> None:
        """A later profile replaces the curve; what running taught stays."""
        known = self._state.jobs.get(job_id)
        measured = known.measured if known else {}
        self._state.jobs[job_id] = Learnt(curve=Curve.of(spec, profile), measured=measured)

    def learn_rate(self, job_id: str, num_workers: int, step_s: float) -> None:
        """Correct the job's curve at this size. Of a job without a profile there is nothing to correct."""
        if job_id not in self._state.jobs:
            return
        job = self._state.jobs[job_id]
        if num_workers not in job.measured:
            predicted_s = float(job.step_s(np.array([num_workers], dtype=np.int64))[0])
            job.measured[num_workers] = Measured(predicted_s=predicted_s, step_s=predicted_s)
        measured = job.measured[num_workers]
        measured.add(step_s)
        if measured.error is not None:
            self._note_error(SizeError(job_id, num_workers, measured.error))

    def _note_error(self, error: SizeError) -> None:
        # One error for each job and size, not for each report: a long job must not drown the others.
        key = (error.job_id, error.num_workers)
        others = [other for other in self._state.errors if (other.job_id, other.num_workers) != key]
        self._state.errors = [*others, error][-NUM_ERRORS:]

    def rates_per_s(self, job_id: str, sizes: IntArray) -> FloatArray:
        """(K,) steps/s at each size; 0 where the job may not have that size.

        A job without a profile is one whose script Swell cannot see into (a restart job): its work is
        counted in seconds on one worker, of which `w` workers do `w ** 0.8` a second.
        """
        if job_id not in self._state.jobs:
            return sizes.astype(np.float64) ** SCALING_EXPONENT
        job = self._state.jobs[job_id]
        return np.where(job.curve.allows(sizes), 1.0 / job.step_s(sizes), 0.0)

    @property
    def margin_share(self) -> float:
        """A high quantile of how much too fast predictions were, within [0.02, 0.5]; 0.05 at first.

        A prediction that was too slow counts as no error: it never breaks a promise.
        """
        errors = [max(0.0, entry.error) for entry in self._state.errors]
        if len(errors) < NUM_ERRORS_NEEDED:
            return PRIOR_MARGIN
        quantile = float(np.quantile(errors, ERROR_QUANTILE))
        return float(np.clip(math.expm1(quantile), LEAST_MARGIN, LARGEST_MARGIN))

    def forget(self, job_id: str) -> None:
        """Drop the job's curve. Its errors stay: they speak of the belief, not of the job."""
        self._state.jobs.pop(job_id, None)

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = msgspec.to_builtins(self._state, str_keys=True)
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Raises msgspec.ValidationError if this is no state of a belief."""
        self._state = msgspec.convert(state, BeliefState, strict=False)
