"""What is measured of jobs that shared the cores of a machine: how soon they end and learn, and CPU use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray
from swell.model.errors import InvalidInput
from swell.model.job import Profile
from swell.model.target import ShareKind
from swell.sim.change_cost import MeasuredCost
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.loss_curves import JobLoss, MeasuredCurve
from swell.sim.true_speed import TrueRates
from swell_papers.fidelity import Rerun, completion_s, rerun
from swell_papers.live_run import LiveJob, LiveRun

#: Jobs report so often: a shorter interval of a policy has nothing new to see.
REPORT_S = 0.5
#: A model is usable when so much of the drop of its loss is done.
USABLE_SHARE = 0.95
#: Losses of single batches are noisy: each is the median of so many neighbours.
NUM_SMOOTHED = 9
#: The last part of a job, in which its loss is what it ends with.
END_SHARE = 0.1
#: A job that has used less CPU time between two moments has no growth efficiency there.
LEAST_CPU_S = 0.01


class Course(NamedTuple):
    """What a job has told, (R,) in order. Times are seconds since its submission."""

    at_s: FloatArray
    steps: FloatArray
    loss: FloatArray  #: smoothed
    cpu_s: FloatArray

    @classmethod
    def of(cls, job: LiveJob) -> Course:
        told = [(one.at_s - job.view.submitted_s, one.steps, one.loss, one.cpu_s) for one in job.samples]
        at_s, steps, loss, cpu_s = np.array(told, dtype=np.float64).T
        half = NUM_SMOOTHED // 2
        medians = [np.median(loss[max(at - half, 0) : at + half + 1]) for at in range(1, len(loss))]
        return cls(at_s, steps, np.array([loss[0], *medians]), cpu_s)  # nothing has been learnt at the first

    @property
    def usable_steps(self) -> float:
        """Steps after which `USABLE_SHARE` of the drop of the loss is done."""
        last = float(np.median(self.loss[self.steps >= (1.0 - END_SHARE) * self.steps[-1]]))
        is_there = self.loss <= self.loss[0] - USABLE_SHARE * (self.loss[0] - last)
        return float(self.steps[int(np.argmax(is_there))]) if is_there.any() else float(self.steps[-1])

    @property
    def done_shares(self) -> FloatArray:
        """(R,) shares of the whole drop of the loss that are done."""
        drop = self.loss[0] - self.loss.min()
        return (self.loss[0] - self.loss) / drop if drop > 0.0 else np.zeros_like(self.loss)

    @property
    def step_cpu_s(self) -> float:
        """CPU seconds of a step, from the first report to the last."""
        return float(np.ptp(self.cpu_s) / np.ptp(self.steps))


class Span(NamedTuple):
    """A job in a part of a run."""

    cores: float  #: that it used on average
    done_share: float  #: of the whole drop of its loss, at the end
    growth: float | None  #: its growth efficiency (Equation 2): the share of the drop that a CPU second does


class SharedRun:
    """One schedule under one policy. Times are seconds.

    Args:
        none: the same without control, in the same repetition; None: this is it.
        limits: what a CPU share means.

    Raises:
        InvalidInput: a job did not succeed, or hardly told its loss.
    """

    def __init__(self, run: LiveRun, none: SharedRun | None = None, limits: str = "weight") -> None:
        self.run, self.none, self._limits = run, none, limits
        for job in run.jobs:
            if completion_s(job.view) is None or len(job.samples) < 2:
                raise InvalidInput(
                    f"job {job.part.name!r} did not succeed under {run.policy}, or hardly told its loss, so "
                    "nothing is compared; run the schedule again, or make it less short"
                )
        self.begun_s = min(job.view.submitted_s for job in run.jobs)
        self.ended_s = [job.view.finished_s or 0.0 for job in run.jobs]
        self.completions_s = {job.part.name: completion_s(job.view) or 0.0 for job in run.jobs}
        self.courses = {job.part.name: Course.of(job) for job in run.jobs}

    @property
    def mean_completion_s(self) -> float:
        return float(np.mean(list(self.completions_s.values())))

    @property
    def makespan_s(self) -> float:
        """The time from the first submission to the last end."""
        return max(self.ended_s) - self.begun_s

    @property
    def all_at_once_s(self) -> float:
        """How long all jobs were there, from submission to end."""
        return max(0.0, min(self.ended_s) - max(job.view.submitted_s for job in self.run.jobs))

    @property
    def mean_usable_s(self) -> float:
        """Mean time from a submission until the model was usable.

        The loss after a step is the same under every policy: that without control tells which step it is.
        """
        steps = {name: one.usable_steps for name, one in (self.none or self).courses.items()}
        return float(
            np.mean([np.interp(steps[name], one.steps, one.at_s) for name, one in self.courses.items()])
        )

    def ratio(self, of: Callable[[SharedRun], float]) -> float | None:
        """A measure as a ratio to that without control."""
        return None if self.none is None else of(self) / of(self.none)

    def sooner(self, name: str) -> float | None:
        """Return by how many percent a job's completion time is shorter than without control."""
        ratio = self.ratio(lambda one: one.completions_s[name])
        return None if ratio is None else 100.0 * (1.0 - ratio)

    @property
    def worst(self) -> float | None:
        """Largest ratio of a job's completion time to that without control."""
        if self.none is None:
            return None
        return max(time_s / self.none.completions_s[name] for name, time_s in self.completions_s.items())

    @property
    def control_share(self) -> float:
        """CPU time of the daemon, as a share of one core."""
        return self.run.control_cpu_s / self.makespan_s

    @property
    def further_control(self) -> float | None:
        """CPU time of the daemon beyond that without control, as a share of one core."""
        return None if self.none is None else self.control_share - self.none.control_share

    @property
    def num_equal(self) -> int:
        """Jobs that ended with the very same loss as without control, to the last bit."""
        pairs = zip(self.run.jobs, (self.none or self).run.jobs, strict=True)
        return sum(one.view.loss == other.view.loss for one, other in pairs)

    def spans(self, job: LiveJob, edges_s: FloatArray) -> list[Span | None]:
        """The job between each two moments of the run; None before its submission and after its end."""
        course, since_s = self.courses[job.part.name], edges_s - (job.view.submitted_s - self.begun_s)
        cpu_s = np.interp(since_s, course.at_s, course.cpu_s)
        done = np.interp(since_s, course.at_s, course.done_shares)
        used_s, grown = np.diff(cpu_s), np.diff(done)
        is_there = (since_s[1:] > 0.0) & (since_s[:-1] < self.completions_s[job.part.name])
        return [
            Span(
                cores=float(used_s[at] / (edges_s[at + 1] - edges_s[at])),
                done_share=float(done[at + 1]),
                growth=float(grown[at] / used_s[at]) if used_s[at] >= LEAST_CPU_S else None,
            )
            if is_there[at]
            else None
            for at in range(len(used_s))
        ]

    @cached_property
    def simulated(self) -> Rerun:
        """The same run, simulated: the loss after a step is the real one, shares are what the policy decides.

        A step takes its CPU time on the cores that all jobs had together: starts, the agent and others on the
        machine have the rest.
        """
        used_s = sum(self.courses[job.part.name].step_cpu_s * job.part.steps for job in self.run.jobs)
        first_s = min(job.samples[0].at_s for job in self.run.jobs)
        used_cores = min(1.0, used_s / (max(self.ended_s) - first_s))
        return rerun(
            self.run,
            [_sim_job(job, self.courses[job.part.name].step_cpu_s / used_cores) for job in self.run.jobs],
            MeasuredCost(unprofiled_start_s=float(np.mean([one.at_s[0] for one in self.courses.values()]))),
            GangTimes(report_s=REPORT_S, grain_steps=1.0),
            cpu_shares=ShareKind(self._limits),
        )


def _sim_job(job: LiveJob, step_s: float) -> SimJob:
    """The job, each step of which takes so long alone, and of which the loss is as it was told."""
    losses = {float(sample.steps): sample.loss for sample in job.samples}
    return SimJob(
        id=job.view.id,
        submit_s=job.view.submitted_s,
        spec=job.spec,
        profile=Profile(
            device_kind=job.view.kind,
            compute_s={job.spec.global_batch: step_s},
            allreduce_s={},
            grad_bytes=0,
            state_bytes=0,
            samples_per_epoch=0,
            start_s=0.0,
        ),
        speed=TrueRates(np.array([1]), np.array([1.0 / step_s])),
        num_steps=job.part.steps,
        loss=JobLoss(MeasuredCurve(tuple(sorted(losses.items())))),
    )
