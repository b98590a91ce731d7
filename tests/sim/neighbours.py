"""Small runs on nodes whose jobs share cores, under a policy that gives fixed shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from tests.sim.worlds import job

from swell.core.core import Core
from swell.core.planner import Planner
from swell.core.platform_core import PlatformCore
from swell.model.event import AnyEvent
from swell.model.options import Domain
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.model.target import ShareKind
from swell.placement.best_fit import BestFitPlacer
from swell.policies.unpromised import Fifo
from swell.settings import Settings
from swell.sim.change_cost import change_cost
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.outcome import SegmentLog, SimOutcome
from swell.sim.simulate import cluster, simulate
from swell.sim.world import Scenario
from swell.throughput.belief import FittedBelief

#: Job id -> (since, share), ...
Schedule = Mapping[str, Sequence[tuple[float, float]]]


class FixedShares(Fifo):
    """Devices as `fifo` gives them; shares by a schedule, of jobs that have one."""

    name = "fixed_shares"
    domain = Domain(shares_cores=True)
    schedule: ClassVar[Schedule] = {}
    seen: ClassVar[list[Snapshot]] = []

    def decide(self, snapshot: Snapshot) -> Allocation:
        self.seen.append(snapshot)
        now_s = snapshot.now_s
        shares = [
            [share for at_s, share in self.schedule.get(name, ()) if at_s <= now_s]
            for name in snapshot.job_ids
        ]
        later_s = [at_s for steps in self.schedule.values() for at_s, _ in steps if at_s > now_s]
        return replace(
            super().decide(snapshot),
            share=np.array([known[-1] if known else np.nan for known in shares], dtype=np.float64),
            wake_s=min(later_s, default=np.inf),
        )


def lone(name: str, steps: int = 100, **fields: Any) -> SimJob:
    """A job on one device, with one step a second and core."""
    return job(name, steps=steps, rates={1: 1.0}, **fields)


def share_cores(
    jobs: Sequence[SimJob],
    schedule: Schedule | None = None,
    *,
    cores: float | None = 2.0,
    nodes: int = 1,
    devices: int = 10,
    cpu_shares: ShareKind = ShareKind.WEIGHT,
    cost: str = "none",
    timings: GangTimes | None = None,
    others: Sequence[AnyEvent] = (),
    log: SegmentLog | None = None,
    listen: Callable[[PlatformCore], None] = lambda core: None,
) -> SimOutcome:
    scenario = Scenario(
        nodes=cluster(nodes, devices, "cpu", cores),
        jobs=jobs,
        cost=change_cost(cost, nodes * devices),
        timings=timings or GangTimes(),
        cpu_shares=cpu_shares,
        others=others,
    )
    FixedShares.schedule, FixedShares.seen = schedule or {}, []
    policy = FixedShares()
    planner = Planner(policy, BestFitPlacer(), {policy.name: policy})
    settings = Settings(given={"min_hold_s": 10.0, "report_plan_s": 60.0}).core
    core = PlatformCore(lambda: Core(planner, FittedBelief(), settings))
    return simulate(core, scenario, log=log, listen=listen)


def ends_s(outcome: SimOutcome) -> dict[str, float]:
    return {one.id: one.end_s or np.nan for one in outcome.jobs}
