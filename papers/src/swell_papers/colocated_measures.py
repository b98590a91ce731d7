"""How soon jobs that share a machine have ended, and have learnt most of what they will."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from swell.arrays import FloatArray
from swell.model.errors import InvalidInput
from swell_papers.colocated_run import ColocatedJobRecord, ColocatedRun

#: A model is usable when so much of the drop of its loss is done.
USABLE_SHARE = 0.95
#: Losses of single batches are noisy: each is the median of so many neighbours.
NUM_SMOOTHED = 9
#: The last part of a job, in which its loss is what it ends with.
END_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class JobLearning:
    """The loss of one job by its steps, whatever it was given: the same under every policy."""

    steps: FloatArray  #: (S,) ascending
    loss: FloatArray  #: (S,) smoothed

    @property
    def usable_steps(self) -> float:
        """Steps after which `USABLE_SHARE` of the drop of the loss is done."""
        first, last = float(self.loss[0]), self._last
        is_there = self.loss <= first - USABLE_SHARE * (first - last)
        return float(self.steps[int(np.argmax(is_there))]) if is_there.any() else float(self.steps[-1])

    @property
    def _last(self) -> float:
        return float(np.median(self.loss[self.steps >= (1.0 - END_SHARE) * self.steps[-1]]))


def losses_of(runs: Iterable[ColocatedRun], name: str) -> dict[int, float]:
    """Return the losses of the job with this name by step, from all its runs.

    Runs make the same steps from the same seed.
    """
    return {sample.steps: sample.loss for record in _named(runs, name) for sample in record.samples}


def learning_of(losses: Mapping[int, float]) -> JobLearning:
    """Make the learning curve of one job from its losses by step."""
    steps = np.array(sorted(losses), dtype=np.float64)
    return JobLearning(steps, _smoothed(np.array([losses[int(at)] for at in steps])))


def _smoothed(loss: FloatArray) -> FloatArray:
    """Running median; the first value stands as it is, for nothing has been learnt there."""
    half = NUM_SMOOTHED // 2
    medians = [np.median(loss[max(at - half, 0) : at + half + 1]) for at in range(len(loss))]
    return np.array([loss[0], *medians[1:]]) if len(loss) else loss


def time_of_steps(record: ColocatedJobRecord, steps: float) -> float | None:
    """Seconds from the job's submission until it had made so many; None if it never did."""
    if not record.samples or record.samples[-1].steps < steps:
        return None
    at_s = [sample.at_s for sample in record.samples]
    made = [float(sample.steps) for sample in record.samples]
    return float(np.interp(steps, made, at_s)) - record.submitted_s


@dataclass(frozen=True, slots=True)
class RunMeasures:
    """Times of one run in seconds, by name of job where each has its own, and the daemon's CPU use."""

    completion_s: Mapping[str, float]
    usable_s: Mapping[str, float]  #: from the submission until the model was usable
    makespan_s: float
    control_share: float  #: CPU time of the daemon, as a share of one core

    @property
    def mean_completion_s(self) -> float:
        return float(np.mean(list(self.completion_s.values())))

    @property
    def mean_usable_s(self) -> float:
        return float(np.mean(list(self.usable_s.values())))

    def worst_against(self, other: RunMeasures) -> float:
        """The largest ratio of a job's completion time to that in the other run."""
        return max(time_s / other.completion_s[job] for job, time_s in self.completion_s.items())


def measures_of(runs: Sequence[ColocatedRun]) -> list[RunMeasures]:
    """Measure runs of one schedule. Raises InvalidInput if a job of them did not succeed, or told no loss."""
    for run in runs:
        for record in run.jobs:
            if record.completion_s is None or not record.samples:
                raise _not_succeeded(run, record)
    names = [record.job.name for record in runs[0].jobs]
    usable = {name: learning_of(losses_of(runs, name)).usable_steps for name in names}
    return [_measures(run, usable) for run in runs]


def _named(runs: Iterable[ColocatedRun], name: str) -> list[ColocatedJobRecord]:
    return [record for run in runs for record in run.jobs if record.job.name == name]


def _measures(run: ColocatedRun, usable_steps: Mapping[str, float]) -> RunMeasures:
    completion_s, usable_s = {}, {}
    for record in run.jobs:
        name, ended_s = record.job.name, record.completion_s
        usable = time_of_steps(record, usable_steps[name])
        if ended_s is None or usable is None:
            raise _not_succeeded(run, record)
        completion_s[name], usable_s[name] = ended_s, usable
    return RunMeasures(completion_s, usable_s, run.makespan_s, run.control_cpu_s / run.makespan_s)


def _not_succeeded(run: ColocatedRun, record: ColocatedJobRecord) -> InvalidInput:
    return InvalidInput(
        f"job {record.job.name!r} did not succeed under {run.label} in run {run.repetition + 1}, or never "
        "told its loss, so nothing is compared; run the schedule again"
    )


def are_losses_equal(runs: Sequence[ColocatedRun]) -> dict[str, bool]:
    """Whether each job, by its name, ended with the very same loss in all these runs."""
    names = [record.job.name for record in runs[0].jobs]
    return {name: len({record.final_loss for record in _named(runs, name)}) == 1 for name in names}
