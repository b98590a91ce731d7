"""Does a simulated run come out as a live one does? The same jobs on real processes and simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swell.model.job import JobClass, Phase
from swell.model.view import JobView
from swell.repro.job_twin import JobTwin, moved_share
from swell.repro.live_run import LiveRun, PlannedJob
from swell.repro.simulated_rerun import measured_cost, measured_timings, simulate

#: Devices that train for real and take their time; few, so that a machine with two cores carries them.
DEVICES = "paced:1x4@64"
#: The mean error of completion times is to be no more.
BAR_SHARE = 0.03
#: How much completion times hang on chance is found by simulating so often with so much noise in speeds.
NOISE_SHARE, NUM_NOISY = 0.01, 5

#: A step of 64 samples takes one such device a second. Only jobs whose evaluation is quick reach the end of
#: an epoch: what a script does between epochs no trial run measures. Of 70 workloads drawn this is one whose
#: outcome hangs little on chance, by simulation alone: see `Comparison.chance_share`. With jobs of perfect
#: elasticity on few devices it does, for which job is to shrink is decided between equals.
WORKLOAD = (
    PlannedJob(at_s=0, name="vae-a", script="vae.py", steps=28, workers="1:"),
    PlannedJob(
        at_s=9.1,
        name="cnn-b",
        script="cnn.py",
        steps=25,
        workers="2",
        job_class=JobClass.STRICT,
        deadline_after_s=50,
    ),
    PlannedJob(
        at_s=16.2,
        name="gru-c",
        script="gru.py",
        steps=31,
        workers="2",
        job_class=JobClass.SOFT,
        deadline_after_s=57,
    ),
    PlannedJob(at_s=24.5, name="transformer-d", script="transformer.py", steps=16, workers="1:2"),
    # Four devices need 7.5 s and a start: in vain.
    PlannedJob(
        at_s=33.6,
        name="cnn-e",
        script="cnn.py",
        steps=30,
        workers="1:",
        job_class=JobClass.STRICT,
        deadline_after_s=5,
    ),
    PlannedJob(
        at_s=42.7,
        name="gru-f",
        script="gru.py",
        steps=23,
        workers="1",
        job_class=JobClass.STRICT,
        deadline_after_s=71,
    ),
    PlannedJob(at_s=49.8, name="vae-g", script="vae.py", steps=35, workers="2:4"),
    PlannedJob(
        at_s=56,
        name="transformer-h",
        script="transformer.py",
        steps=32,
        workers="2:",
        job_class=JobClass.STRICT,
        deadline_after_s=50,
    ),
    PlannedJob(
        at_s=62.2,
        name="cnn-i",
        script="cnn.py",
        steps=11,
        workers="1",
        job_class=JobClass.SOFT,
        deadline_after_s=40,
    ),
    PlannedJob(
        at_s=69.3,
        name="gru-j",
        script="gru.py",
        steps=26,
        workers="1:",
        job_class=JobClass.STRICT,
        deadline_after_s=72,
    ),
    PlannedJob(at_s=78.4, name="vae-k", script="vae.py", steps=41, workers="2:4"),
    PlannedJob(
        at_s=84.6,
        name="cnn-l",
        script="cnn.py",
        steps=53,
        workers="2:",
        job_class=JobClass.STRICT,
        deadline_after_s=74,
    ),
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
