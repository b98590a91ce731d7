"""A run of jobs that shared a machine again, simulated: as fast, and learning as much, as without control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from swell.api.submission import parse
from swell.assemble import new_core
from swell.model.job import Profile
from swell.repro.colocated_measures import JobLearning, learning_of
from swell.repro.colocated_run import ColocatedJobRecord, ColocatedRun, Contender
from swell.settings import make_settings
from swell.sim.change_cost import AsMeasured
from swell.sim.contention import CpuShares
from swell.sim.gangs import GangTimings
from swell.sim.job import SimJob, TrueSpeed
from swell.sim.loss_curves import JobLoss, MeasuredCurve
from swell.sim.shared_cores import CoreDivision
from swell.sim.simulate import Scenario, cluster, simulate

#: A gang reports so often, as in the live world.
REPORT_S = 0.5
KIND = "cpu"


class Twin(NamedTuple):
    """One job of one run, live and simulated: seconds from its submission to its end."""

    label: str  #: of the policy
    live_s: float
    simulated_s: float

    @property
    def error_share(self) -> float:
        """Of the live time, > 0 where the simulated one is longer."""
        return self.simulated_s / self.live_s - 1.0


def twins_of(
    runs: Sequence[ColocatedRun], no_control: Contender, num_devices: int, cores: float
) -> list[Twin]:
    """Every job of every run beside its twin. Speeds, starts and cores in use are those without control.

    A job that did not succeed has none, nor has a repetition in which too little is known without control.
    """
    none = {run.repetition: run for run in runs if run.contender == no_control and _is_known(run)}
    twins = []
    for run in runs:
        if run.repetition not in none:
            continue
        simulated = _completions(run, none[run.repetition], num_devices, cores)
        for job in run.jobs:
            simulated_s = simulated[job.job.name]
            if job.completion_s is not None and simulated_s is not None:
                twins.append(Twin(run.label, job.completion_s, simulated_s))
    return twins


def _completions(
    run: ColocatedRun, none: ColocatedRun, num_devices: int, cores: float
) -> Mapping[str, float | None]:
    """By name of job."""
    chosen = run.contender
    settings = make_settings({f"{chosen.policy}.{name}": value for name, value in chosen.parameters})
    scenario = Scenario(
        nodes=cluster(1, num_devices, KIND, min(cores, _used_cores(none))),
        jobs=[_sim_job(job, _rate_per_cpu_s(job)) for job in none.jobs],
        cost=AsMeasured(unprofiled_start_s=_mean_start_s(none.jobs)),
        timings=GangTimings(report_s=REPORT_S, grain_steps=1.0),
        sharing=CoreDivision(cpu_shares=cast("CpuShares", chosen.limits)),
    )
    outcome = simulate(new_core(chosen.policy, settings), scenario, with_offers=False)
    return {job.id: job.jct_s for job in outcome.jobs}


def _sim_job(record: ColocatedJobRecord, rate_per_s: float) -> SimJob:
    job = record.job
    learning = learning_of([record])
    return SimJob(
        id=job.name,
        submit_s=record.submitted_s,
        spec=parse(job.fields()).to_spec(0.0),
        profile=Profile(
            device_kind=KIND,
            compute_s={job.fields()["global_batch"]: 1.0 / rate_per_s},
            allreduce_s={},
            grad_bytes=0,
            state_bytes=0,
            samples_per_epoch=0,
            start_s=0.0,
        ),
        speed=TrueSpeed(np.array([1]), np.array([rate_per_s])),
        num_steps=job.steps,
        loss=JobLoss(
            MeasuredCurve(tuple(zip(learning.steps.tolist(), learning.loss.tolist(), strict=True))),
            noise=_noise_of(record, learning),
        ),
    )


def _is_known(none: ColocatedRun) -> bool:
    """Whether the speed of each job can be told."""
    return all(len(_told(job)) > 1 and job.completion_s is not None for job in none.jobs)


def _told(record: ColocatedJobRecord) -> list[tuple[int, float]]:
    """(steps, CPU seconds) of each report that has both."""
    return [(sample.steps, sample.cpu_s) for sample in record.samples if sample.cpu_s is not None]


def _used_cores(none: ColocatedRun) -> float:
    """That jobs had without control: starts, the agent and others on the machine have the rest."""
    first_s = min(job.samples[0].at_s for job in none.jobs)
    return sum(map(_cpu_s, none.jobs)) / (none.makespan_s - first_s)


def _cpu_s(record: ColocatedJobRecord) -> float:
    """From the first report to the last."""
    told = _told(record)
    return told[-1][1] - told[0][1]


def _noise_of(record: ColocatedJobRecord, learning: JobLearning) -> float:
    """Standard deviation of a reported loss, in the half of the job in which it falls least."""
    reported = np.interp(
        learning.steps,
        [sample.steps for sample in record.samples],
        [sample.loss for sample in record.samples],
    )
    return float(np.std((reported - learning.loss)[len(learning.steps) // 2 :]))


def _rate_per_cpu_s(record: ColocatedJobRecord) -> float:
    """Steps for each second of CPU, from the first report to the last."""
    told = _told(record)
    return (told[-1][0] - told[0][0]) / _cpu_s(record)


def _mean_start_s(records: Sequence[ColocatedJobRecord]) -> float:
    """From the submission to the first report."""
    return float(np.mean([record.samples[0].at_s - record.submitted_s for record in records]))
