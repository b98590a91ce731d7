"""Does a simulated run come out as a live one does? The same jobs on real processes and simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from swell.model.job import JobClass, Phase
from swell.model.view import JobView
from swell.policies.registry import POLICIES
from swell_papers.job_twin import JobTwin, moved_share
from swell_papers.live_run import LiveRun, PlannedJob
from swell_papers.simulated_rerun import measured_cost, measured_timings, simulate

#: Devices that train for real and take their time; few, so that a machine with two cores carries them.
DEVICES = "paced:1x4@64"
#: The mean error of completion times is to be no more.
BAR_SHARE = 0.03
#: How much completion times hang on chance is found by simulating so often with so much noise in speeds.
NOISE_SHARE, NUM_NOISY = 0.01, 5

STRICT, SOFT = JobClass.STRICT, JobClass.SOFT


def _job(
    at_s: float,
    name: str,
    steps: int,
    workers: str,
    job_class: JobClass = JobClass.BEST_EFFORT,
    deadline_after_s: float | None = None,
) -> PlannedJob:
    """Its script has the first part of its name."""
    script = f"{name.split('-', maxsplit=1)[0]}.py"
    return PlannedJob(
        at_s=at_s,
        name=name,
        script=script,
        steps=steps,
        workers=workers,
        job_class=job_class,
        deadline_after_s=deadline_after_s,
    )


#: A step of 64 samples takes one such device a second. What a script does between two epochs is measured by
#: trial runs, but not paced: of these jobs only those whose evaluation is quick reach the end of an epoch. Of
#: 70 workloads drawn this is one whose outcome hangs little on chance, by simulation alone: see
#: `Comparison.chance_share`. With jobs of perfect elasticity on few devices it does, for which job is to
#: shrink is decided between equals.
WORKLOAD = (
    _job(0, "vae-a", 28, "1:"),
    _job(9.1, "cnn-b", 25, "2", STRICT, 50),
    _job(16.2, "gru-c", 31, "2", SOFT, 57),
    _job(24.5, "transformer-d", 16, "1:2"),
    _job(33.6, "cnn-e", 30, "1:", STRICT, 5),  # four devices need 7.5 s and a start: in vain
    _job(42.7, "gru-f", 23, "1", STRICT, 71),
    _job(49.8, "vae-g", 35, "2:4"),
    _job(56, "transformer-h", 32, "2:", STRICT, 50),
    _job(62.2, "cnn-i", 11, "1", SOFT, 40),
    _job(69.3, "gru-j", 26, "1:", STRICT, 72),
    _job(78.4, "vae-k", 41, "2:4"),
    _job(84.6, "cnn-l", 53, "2:", STRICT, 74),
)


#: The same jobs for a policy that chooses batches: a small batch of their own, and a range above it. On four
#: devices a step of the own one takes a sixteenth of a second, of which all-reduce and update are a part that
#: counts; on one device they are none, so the best batch hangs on the size.
OPEN_BATCH, OPEN_RANGE = 16, "16:256"


def workload_of(policy: str) -> tuple[PlannedJob, ...]:
    """The twelve jobs, of which each has as many samples under every policy."""
    if not POLICIES[policy].domain.opens_batches:
        return WORKLOAD
    return tuple(
        replace(
            job,
            steps=job.steps * job.global_batch // OPEN_BATCH,
            global_batch=OPEN_BATCH,
            batch=OPEN_RANGE,
        )
        for job in WORKLOAD
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One policy's live run beside its twin."""

    run: LiveRun
    pairs: tuple[JobTwin, ...]
    chance_share: float  #: by how much noise in speeds alone moves completion times, on average

    @property
    def errors(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """(J,) absolute, of jobs that succeeded in both."""
        return np.abs([pair.error_share for pair in self.pairs if pair.error_share is not None])

    @property
    def admitted_live(self) -> frozenset[str]:
        return _admitted([pair.live.view for pair in self.pairs])

    @property
    def admitted_simulated(self) -> frozenset[str]:
        return _admitted([pair.simulated for pair in self.pairs])

    @property
    def is_same_set(self) -> bool:
        """Whether the same jobs were admitted live and simulated."""
        return self.admitted_live == self.admitted_simulated


def compare(run: LiveRun) -> Comparison:
    """A live run beside its twin, whose changes cost what they did in this run on average."""
    cost, timings = measured_cost(run), measured_timings(run)
    simulated = simulate(run, cost, timings)
    disturbed = [
        simulate(run, cost, timings, noise_share=NOISE_SHARE, seed=seed) for seed in range(NUM_NOISY)
    ]
    return Comparison(
        run=run,
        pairs=tuple(JobTwin(live=job, simulated=simulated[job.view.id]) for job in run.jobs),
        chance_share=float(np.mean([moved_share(simulated, views) for views in disturbed])),
    )


def _admitted(views: Sequence[JobView]) -> frozenset[str]:
    return frozenset(view.name for view in views if view.phase is not Phase.REJECTED)
