"""A run of jobs that shared a machine again, simulated with speeds that were measured without control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from swell.api.submission import parse
from swell.model.job import Profile
from swell.model.share_mode import ShareMode
from swell.scheduler import new_core
from swell.settings import make_settings
from swell.sim.change_cost import AsMeasured
from swell.sim.gangs import GangTimings
from swell.sim.job import SimJob
from swell.sim.loss_curves import JobLoss, MeasuredCurve
from swell.sim.shared_cores import CoreDivision
from swell.sim.simulate import Scenario, cluster, simulate
from swell.sim.true_speed import TrueSpeed
from swell_papers.colocated_measures import losses_of
from swell_papers.colocated_run import REPORT_S, ColocatedJobRecord, ColocatedRun, Contender
from swell_papers.colocated_speed import StepCosts, key_of, told_usage

KIND = "cpu"


class Twin(NamedTuple):
    """One job of one run, live and simulated: seconds from its submission to its end."""

    label: str  #: of the policy
    repetition: int
    live_s: float
    simulated_s: float

    @property
    def error_share(self) -> float:
        """Error of the simulated time as a share of the live one; > 0 where the simulated one is longer."""
        return self.simulated_s / self.live_s - 1.0


def mean_errors(twins: Sequence[Twin]) -> list[float]:
    """Error of the mean completion time of each run; see `error_together`."""
    runs: dict[tuple[str, int], list[Twin]] = {}
    for twin in twins:
        runs.setdefault((twin.label, twin.repetition), []).append(twin)
    return [error_together(one) for one in runs.values()]


def error_together(twins: Sequence[Twin]) -> float:
    """How far their mean completion time is from the live one, as a share of that."""
    return sum(twin.simulated_s for twin in twins) / sum(twin.live_s for twin in twins) - 1.0


def twins_of(runs: Sequence[ColocatedRun], costs: StepCosts, num_devices: int, cores: float) -> list[Twin]:
    """Every job of every run beside its twin.

    How long starts take and how many cores jobs have in all are measured in the run itself. The loss after a
    step is the real one. Shares, and so times, are what the policy decides in the simulation.

    A run has none if `costs` tell nothing of one of its jobs.

    Args:
        runs: each `is_known`.
    """
    twins = []
    for run in runs:
        if not all(key_of(run, job) in costs.alone_cpu_s for job in run.jobs):
            continue
        group = [other for other in runs if other.repetition == run.repetition]
        simulated = _completions(run.contender, _world(run, group, costs, num_devices, cores))
        for job in run.jobs:
            simulated_s = simulated[job.job.name]
            if job.completion_s is not None and simulated_s is not None:
                twins.append(Twin(run.label, run.repetition, job.completion_s, simulated_s))
    return twins


def _completions(contender: Contender, world: Scenario) -> Mapping[str, float | None]:
    """Simulate a contender and return the completion time of each job in seconds, by its name."""
    settings = make_settings({f"{contender.policy}.{name}": value for name, value in contender.parameters})
    sharing = msgspec.structs.replace(world.sharing, cpu_shares=ShareMode(contender.limits))
    scenario = replace(world, sharing=sharing)
    outcome = simulate(new_core(contender.policy, settings), scenario, with_offers=False)
    return {job.id: job.jct_s for job in outcome.jobs}


def _world(
    run: ColocatedRun, group: Sequence[ColocatedRun], costs: StepCosts, num_devices: int, cores: float
) -> Scenario:
    """Make the scenario that simulates a run of a repetition whose runs are `group`."""
    return Scenario(
        nodes=cluster(1, num_devices, KIND, min(cores, _used_cores(run))),
        jobs=[
            _sim_job(job, 1.0 / costs.alone_cpu_s[key_of(run, job)], losses_of(group, job.job.name))
            for job in run.jobs
        ],
        cost=AsMeasured(unprofiled_start_s=_mean_start_s(run.jobs)),
        timings=GangTimings(report_s=REPORT_S, grain_steps=1.0),
        sharing=CoreDivision(interference_share=costs.interference_share),
    )


def _sim_job(record: ColocatedJobRecord, rate_per_s: float, losses: Mapping[int, float]) -> SimJob:
    job = record.job
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
        loss=JobLoss(_nearest(losses, job.steps)),
    )


def _nearest(losses: Mapping[int, float], num_steps: int) -> MeasuredCurve:
    """After each step, the loss after the nearest step that was told: as noisy as losses are."""
    told = np.array(sorted(losses))
    steps = np.arange(num_steps + 1)
    after = np.clip(np.searchsorted(told, steps), 1, len(told) - 1)
    nearest = np.where(steps - told[after - 1] <= told[after] - steps, told[after - 1], told[after])
    return MeasuredCurve(
        tuple((float(at), losses[int(near)]) for at, near in zip(steps, nearest, strict=True))
    )


def is_known(run: ColocatedRun) -> bool:
    """Whether the speed of each job can be told: every one succeeded, and reported more than once."""
    return all(len(told_usage(job).steps) > 1 and job.completion_s is not None for job in run.jobs)


def _used_cores(run: ColocatedRun) -> float:
    """That steps had: starts, the agent and others on the machine have the rest."""
    first_s = min(job.samples[0].at_s for job in run.jobs)
    return sum(map(_cpu_s, run.jobs)) / (run.makespan_s - first_s)


def _cpu_s(record: ColocatedJobRecord) -> float:
    """CPU seconds of all steps of a job, at what they cost from its first report to its last."""
    told = told_usage(record)
    return float(record.job.steps * np.ptp(told.cpu_s) / np.ptp(told.steps))


def _mean_start_s(records: Sequence[ColocatedJobRecord]) -> float:
    """Mean seconds from the submission of a job to its first report."""
    return float(np.mean([record.samples[0].at_s - record.submitted_s for record in records]))
