"""The trainers of BFTrainer's evaluation in the platform's own simulator: head, gangs and placement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from swell.core.platform_core import PlatformCore
from swell.model.job import EndCondition, JobSpec, Phase, Profile
from swell.sim.change_cost import Constant, Cost, GangChange, PaidByChanges
from swell.sim.checkpoint_cycle import WastedTime
from swell.sim.conditions import REPORT_S
from swell.sim.gangs import GangTimings
from swell.sim.job import SimJob
from swell.sim.metrics import metrics_of
from swell.sim.pool import Pool
from swell.sim.profiles.curve import ThroughputCurve
from swell.sim.simulate import Scenario, simulate
from swell.sim.true_speed import TrueSpeed
from swell_papers.bftrainer_inputs import Trainer
from swell_papers.variants import variant_core

#: Images of a step: 64 for each of a node's six GPUs, on 64 nodes. It only says how work is cut into steps.
BATCH = 64 * 6 * 64
KIND = "summit"


@dataclass(frozen=True, slots=True)
class UpAndDown(PaidByChanges):
    """One amount for starts and growths, another for shrinks and for survivors that go on by themselves."""

    growth_s: float
    shrink_s: float

    def of(self, change: GangChange) -> Cost:
        if change.before == 0:
            return Cost(self.growth_s, 0.0)
        return Cost(0.0, self.growth_s if change.after > change.before else self.shrink_s)


@dataclass(frozen=True)
class SimulatedImages:
    """What came of it, and what the platform measured of itself."""

    images: float
    num_ended: int
    num_turns: int
    kept_device_s: float  #: on nodes that had been reclaimed
    waste: WastedTime


def simulated(
    pool: Pool,
    trainers: Iterable[Trainer],
    policy: str,
    parameters: Mapping[str, float | str],
    checkpoint_interval_s: float | None,
    from_s: float,
    until_s: float,
    save_s: float = 0.0,
) -> SimulatedImages:
    """Run until all nodes are reclaimed then. A gang that is lost whole goes back to its checkpoint.

    Args:
        checkpoint_interval_s: None: the platform chooses it for each gang.
        save_s: that training stands still for a checkpoint.
    """
    core = variant_core(policy, {}, parameters)
    jobs = [_job(trainer, from_s) for trainer in trainers if trainer.submit_s < until_s]
    scenario = Scenario(
        nodes=(),
        jobs=jobs,
        cost=Constant(0.0),
        timings=GangTimings(
            checkpoint_interval_s=checkpoint_interval_s,
            save_s=save_s,
            report_s=REPORT_S if save_s else math.inf,
        ),
        pool=replace(pool.within(from_s, until_s), kind=KIND),
    )
    outcome = simulate(core, scenario, with_offers=False)
    metrics = metrics_of(outcome)
    done = sum(job.num_steps for job, end in zip(jobs, outcome.jobs, strict=True) if _is_done(end.phase))
    return SimulatedImages(
        images=BATCH * (done + _open_steps(core)),
        num_ended=metrics.completed,
        num_turns=outcome.num_events,
        kept_device_s=outcome.kept_device_s,
        waste=outcome.waste,
    )


def _is_done(phase: Phase) -> bool:
    return phase is Phase.SUCCEEDED


def _open_steps(core: PlatformCore) -> int:
    return sum(view.steps for view in core.views())


def _profile(curve: ThroughputCurve, trainer: Trainer) -> Profile:
    """A trial run that measured everything, the costs of changes too."""
    return msgspec.structs.replace(curve.profile(KIND), growth_s=trainer.growth_s, shrink_s=trainer.shrink_s)


def _job(trainer: Trainer, from_s: float) -> SimJob:
    sizes = trainer.sizes
    rates = trainer.rates[sizes] / BATCH
    curve = ThroughputCurve(model=trainer.model, global_batch=BATCH, sizes=sizes, rate_per_s=rates)
    num_steps = round(trainer.images / BATCH)
    return SimJob(
        id=trainer.id,
        submit_s=trainer.submit_s - from_s,
        spec=JobSpec(
            name=trainer.model,
            entry=trainer.model,
            workdir="/",
            global_batch=BATCH,
            end=EndCondition(steps=num_steps),
            min_workers=trainer.least,
            max_workers=trainer.most,
        ),
        profile=_profile(curve, trainer),
        speed=TrueSpeed(sizes, rates),
        num_steps=num_steps,
        model=trainer.model,
        cost=UpAndDown(trainer.growth_s, trainer.shrink_s),
    )
