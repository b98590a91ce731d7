"""Small jobs and clusters for simulated runs that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from swell.core.platform_core import PlatformCore
from swell.model.event import AnyEvent
from swell.model.job import Elasticity, EndCondition, FixedTerms, JobClass, JobSpec, Profile
from swell.scheduler import new_core
from swell.settings import Settings
from swell.sim.change_cost import change_cost
from swell.sim.faults import NOTHING_FAILS, FaultSource
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.outcome import SimOutcome
from swell.sim.simulate import cluster, simulate
from swell.sim.true_speed import TrueRates
from swell.sim.world import Scenario

#: Workers -> steps/s, of which more than 4 are of no use.
RATES = {1: 1.0, 2: 1.8, 4: 3.0, 8: 2.5}
BATCH = 64


def job(
    name: str,
    submit_s: float = 0.0,
    steps: int = 100,
    deadline_s: float | None = None,
    rates: dict[int, float] = RATES,
    believed: dict[int, float] | None = None,
    **fields: Any,
) -> SimJob:
    """A job that really goes at `rates` and is believed to go at `believed`."""
    sizes = np.array(sorted(rates), dtype=np.int64)
    spec = JobSpec(
        name=name,
        entry=name,
        workdir="/",
        global_batch=BATCH,
        end=EndCondition(steps=steps),
        job_class=JobClass.BEST_EFFORT if deadline_s is None else JobClass.STRICT,
        deadline_s=deadline_s,
        min_workers=int(sizes[0]),
        max_workers=int(sizes[-1]),
    )
    profile = Profile(
        device_kind="gpu",
        compute_s={BATCH // size: 1.0 / rate for size, rate in (believed or rates).items()},
        allreduce_s={},
        grad_bytes=0,
        state_bytes=0,
        samples_per_epoch=BATCH,
        start_s=0.0,
    )
    speed = TrueRates(sizes, np.array([rates[size] for size in sizes.tolist()]))
    plain: dict[str, Any] = {"num_steps": steps, "model": name}
    return SimJob(id=name, submit_s=submit_s, spec=spec, profile=profile, speed=speed, **{**plain, **fields})


def fixed(
    name: str,
    submit_s: float,
    devices: int,
    length_s: int,
    time_s: float = 1000.0,
    deadline_s: float | None = None,
    parts: int = 1,
    dies_at_step: int | None = None,
    **terms: Any,
) -> SimJob:
    """A fixed job that really takes so long, and is ended after `time_s` and 10 s of grace."""
    made = job(name, submit_s, length_s, deadline_s, rates={parts: 1.0}, dies_at_step=dies_at_step)
    spec = msgspec.structs.replace(
        made.spec,
        elasticity=Elasticity.FIXED,
        fixed=FixedTerms(time_s=time_s, grace_s=10.0, **terms),
        end=EndCondition(),
        devices_per_worker=devices // parts,
    )
    return replace(made, spec=spec)


def head(
    policy: str = "elasticflow",
    min_hold_s: float = 10.0,
    parameters: Mapping[str, float | str] = MappingProxyType({}),
    half_life_s: float = 0.0,
) -> PlatformCore:
    given = {"min_hold_s": min_hold_s, "report_plan_s": 60.0, "half_life_s": half_life_s}
    settings = Settings(given=given, parameters=dict(parameters))
    return new_core(policy, settings)


def run(
    jobs: Sequence[SimJob],
    policy: str = "elasticflow",
    nodes: int = 1,
    cost: str = "none",
    others: Sequence[AnyEvent] = (),
    timings: GangTimes | None = None,
    faults: FaultSource = NOTHING_FAILS,
    listen: Callable[[PlatformCore], None] = lambda core: None,
    parameters: Mapping[str, float | str] = MappingProxyType({}),
    half_life_s: float = 0.0,
) -> SimOutcome:
    """On nodes of 8 devices."""
    scenario = Scenario(
        nodes=cluster(nodes, 8, "gpu"),
        jobs=jobs,
        cost=change_cost(cost, 8 * nodes),
        timings=timings or GangTimes(),
        others=others,
        faults=faults,
    )
    return simulate(head(policy, parameters=parameters, half_life_s=half_life_s), scenario, listen=listen)
