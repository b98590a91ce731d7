"""What the head believes about speed, and by how much it has been too hopeful."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.job import BatchProfile, JobSpec, Profile
from swell.throughput.batch_table import BatchTable
from swell.throughput.curve import SHORTEST_STEP_S, Curve

#: Reports fade with this time constant: seldom pauses (an evaluation each epoch, a checkpoint) count with
#: their share of the time, and a machine that has become slower is noticed.
MEMORY_S = 20.0
#: The prediction counts as so many steps already made at its speed.
NUM_PRIOR_STEPS = 2.0
#: After so many reports a measurement says how far off the prediction was.
NUM_REPORTS_NEEDED = 3
#: Speed of a job without a profile: w workers do w ** 0.8 seconds of one-worker work a second.
SCALING_EXPONENT = 0.8

NUM_CURVES = 1000  #: predictions remembered
NUM_ERRORS = 64  #: errors remembered, most recent first to stay
NUM_ERRORS_NEEDED = 5
ERROR_QUANTILE = 0.95
PRIOR_MARGIN, LEAST_MARGIN, LARGEST_MARGIN = 0.1, 0.05, 0.5


class Measured(msgspec.Struct, kw_only=True):
    """Step time of a job at one size: what it took over what it did, recent reports first."""

    predicted_s: float  #: what was believed when the first report came
    time_s: float  #: faded sum of the time reported on, the prior's included
    steps: float  #: faded sum of the steps made in it
    num_reports: int = 0

    @classmethod
    def predicted(cls, step_s: float) -> Measured:
        """The state before any report: a prior of `NUM_PRIOR_STEPS` steps at the predicted speed."""
        return cls(predicted_s=step_s, time_s=NUM_PRIOR_STEPS * step_s, steps=NUM_PRIOR_STEPS)

    def add(self, step_s: float, num_steps: int) -> None:
        """Add `num_steps` steps of `step_s` seconds each; earlier reports decay with `MEMORY_S`."""
        elapsed_s = max(step_s, SHORTEST_STEP_S) * num_steps
        kept_share = math.exp(-elapsed_s / MEMORY_S)
        counted_s = MEMORY_S * (1.0 - kept_share)  # the report's own beginning has faded by its end
        self.time_s = kept_share * self.time_s + counted_s
        self.steps = kept_share * self.steps + num_steps * counted_s / elapsed_s
        self.num_reports += 1

    @property
    def step_s(self) -> float:
        """Exponentially weighted mean of seconds a step."""
        return self.time_s / self.steps

    @property
    def error(self) -> float | None:
        """log(measured / predicted), > 0 where the belief was too fast; None while it is not settled."""
        return math.log(self.step_s / self.predicted_s) if self.num_reports >= NUM_REPORTS_NEEDED else None


class Learnt(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job's curve and its corrections."""

    curve: Curve
    measured: dict[int, Measured] = {}  #: by workers
    batches: BatchProfile | None = None  #: of a job whose batch is open
    noise_scale: float = math.inf

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
    """Error of the prediction for one job at one size."""

    job_id: str
    num_workers: int
    error: float  #: log(measured step / believed step)


class BeliefState(msgspec.Struct, kw_only=True):
    """State of a `FittedBelief`, in the form in which it is saved."""

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
        # Worked out from the state when asked for.
        self._tables: dict[str, BatchTable] = {}
        self._best: dict[str, tuple[IntArray, FloatArray, IntArray]] = {}
        self._margin_share: float | None = PRIOR_MARGIN  #: None: to be worked out anew
        self._predicted: dict[tuple[bytes, bytes], FloatArray] = {}  #: many jobs train the same model

    def learn_profile(self, job_id: str, spec: JobSpec, profile: Profile) -> None:
        """A later profile replaces the curve; what running taught stays."""
        known = self._state.jobs.get(job_id)
        measured = known.measured if known else {}
        batches = profile.batches if spec.max_batch is not None else None
        self._state.jobs[job_id] = Learnt(
            curve=Curve.of(spec, profile),
            measured=measured,
            batches=batches,
            noise_scale=math.inf if batches is None else batches.noise_scale,
        )
        self._tables.pop(job_id, None)
        self._best.pop(job_id, None)

    def learn_rate(self, job_id: str, num_workers: int, step_s: float, num_steps: int) -> None:
        """Correct the job's curve at this size. Of a job without a profile there is nothing to correct."""
        if job_id not in self._state.jobs:
            return
        job = self._state.jobs[job_id]
        if num_workers not in job.measured:
            predicted_s = float(job.step_s(np.array([num_workers], dtype=np.int64))[0])
            job.measured[num_workers] = Measured.predicted(predicted_s)
        measured = job.measured[num_workers]
        measured.add(step_s, num_steps)
        if measured.error is not None:
            self._note_error(SizeError(job_id, num_workers, measured.error))

    def learn_noise(self, job_id: str, noise_scale: float) -> None:
        """From now on the best batches are those of this noise scale."""
        if job_id in self._state.jobs:
            self._state.jobs[job_id].noise_scale = noise_scale
            self._best.pop(job_id, None)

    def best_batches(self, job_id: str, sizes: IntArray) -> tuple[FloatArray, IntArray] | None:
        """See `core.ports.Belief`."""
        table = self._table(job_id)
        if table is None:
            return None
        known = self._best.get(job_id)
        if known is None or known[0] is not sizes:
            best = table.best(sizes, self._state.jobs[job_id].noise_scale)
            known = self._best[job_id] = (sizes, *best)
        return known[1:]

    def rates_at_batch(self, job_id: str, sizes: IntArray, global_batch: int) -> FloatArray | None:
        """See `core.ports.Belief`."""
        table = self._table(job_id)
        if table is None:
            return None
        return table.rates_at(sizes, global_batch, self._state.jobs[job_id].noise_scale)

    def rate_at_batch(self, job_id: str, num_workers: int, global_batch: int) -> float:
        """See `core.ports.Belief`."""
        table = self._table(job_id)
        if table is None:
            return float(self.rates_per_s(job_id, np.array([num_workers], dtype=np.int64))[0])
        return table.rate_per_s(num_workers, global_batch, self._state.jobs[job_id].noise_scale)

    def _table(self, job_id: str) -> BatchTable | None:
        job = self._state.jobs.get(job_id)
        if job is None or job.batches is None:
            return None
        if job_id not in self._tables:
            self._tables[job_id] = BatchTable(job.batches, job.curve.global_batch)
        return self._tables[job_id]

    def _note_error(self, error: SizeError) -> None:
        # One error for each job and size, not for each report: a long job must not drown the others.
        key = (error.job_id, error.num_workers)
        others = [other for other in self._state.errors if (other.job_id, other.num_workers) != key]
        self._state.errors = [*others, error][-NUM_ERRORS:]
        self._margin_share = None

    def rates_per_s(self, job_id: str, sizes: IntArray) -> FloatArray:
        """(K,) steps/s at each size; 0 where the job may not have that size.

        A job without a profile is one whose script Swell cannot see into (a restart job): its work is
        counted in seconds on one worker, of which `w` workers do `w ** 0.8` a second.
        """
        if job_id not in self._state.jobs:
            return sizes.astype(np.float64) ** SCALING_EXPONENT
        job = self._state.jobs[job_id]
        if job.measured:
            return _rates_per_s(job, sizes)
        key = (msgspec.msgpack.encode(job.curve), sizes.tobytes())
        if key not in self._predicted:
            if len(self._predicted) >= NUM_CURVES:
                self._predicted.clear()
            self._predicted[key] = _rates_per_s(job, sizes)
        return self._predicted[key].copy()

    @property
    def margin_share(self) -> float:
        """A high quantile of how much too fast predictions were, within [0.05, 0.5]; 0.1 at first.

        A prediction that was too slow counts as no error: it never breaks a promise.
        """
        if self._margin_share is None:
            self._margin_share = self._margin()
        return self._margin_share

    def _margin(self) -> float:
        errors = [max(0.0, entry.error) for entry in self._state.errors]
        if len(errors) < NUM_ERRORS_NEEDED:
            return PRIOR_MARGIN
        quantile = float(np.quantile(errors, ERROR_QUANTILE))
        return float(np.clip(math.expm1(quantile), LEAST_MARGIN, LARGEST_MARGIN))

    def forget(self, job_id: str) -> None:
        """Drop the job's curve. Its errors stay: they speak of the belief, not of the job."""
        self._state.jobs.pop(job_id, None)
        self._tables.pop(job_id, None)
        self._best.pop(job_id, None)

    def state(self) -> dict[str, Any]:
        """The state as JSON values; `restore` reads it back."""
        state: dict[str, Any] = msgspec.to_builtins(self._state, str_keys=True)
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Raises msgspec.ValidationError if this is no state of a belief."""
        self._state = msgspec.convert(state, BeliefState, strict=False)
        self._tables, self._best = {}, {}
        self._margin_share = None


def _rates_per_s(job: Learnt, sizes: IntArray) -> FloatArray:
    return np.where(job.curve.allows(sizes), 1.0 / job.step_s(sizes), 0.0)
