"""One run of an allocator on generated jobs of Hu et al., and what is measured of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import msgspec
import numpy as np

from swell.arrays import FloatArray
from swell.core.core import Core
from swell.core.planner import Planner
from swell.core.platform_core import PlatformCore
from swell.core.ports import Decides
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.placement.best_fit import BestFitPlacer
from swell.policies.policy import Policy
from swell.settings import make_settings
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.profiles.law import hu
from swell.sim.simulate import simulate
from swell.throughput.belief import FittedBelief
from swell_papers.hu_workload import MINUTE_S, Disturbed, workload
from swell_papers.variants import variant_policy

#: The policy that the paper compares with.
GREEDY = "hu_greedy"
#: Figure 11: when the other allocator has done so many jobs.
NUM_OF_OTHER = 100


class Allocator(msgspec.Struct, frozen=True, kw_only=True):
    """A policy with parameters."""

    policy: str
    parameters: tuple[tuple[str, float | str], ...] = ()

    @property
    def name(self) -> str:
        """What a table calls it."""
        return ", ".join([self.policy, *(f"{name}={value}" for name, value in self.parameters)])


class HuCase(msgspec.Struct, frozen=True, kw_only=True):
    """Under what an allocator runs."""

    nodes: int
    is_all: bool = False  #: all 1,252 jobs, not only those of 5 minutes or more
    disturbed: Disturbed = Disturbed()
    resize_cost: str = "none"


@dataclass(frozen=True, slots=True)
class AllocatorRun:
    """Means are over jobs."""

    queue_min: float  #: from the submission to the first step
    total_min: float  #: from the submission to the end, of jobs that succeeded
    done_s: FloatArray  #: (D,) ends of jobs that succeeded, ascending
    num_resizes: int
    plan_ms: FloatArray  #: (P,) CPU time of decisions that were due: the policy alone
    turn_ms: FloatArray  #: (T,) CPU time of turns of the scheduler

    def done_at(self, at_s: float) -> int:
        return int(np.searchsorted(self.done_s, at_s, side="right"))

    def more_than(self, other: AllocatorRun) -> float:
        """Jobs that are done in the time in which the other does 100, by the mean total times."""
        return NUM_OF_OTHER * (other.total_min / self.total_min - 1.0)

    def ahead_of(self, other: AllocatorRun) -> float:
        """Jobs that are done, beyond 100, at the moment when the other has done its 100th."""
        return float(self.done_at(float(other.done_s[NUM_OF_OTHER - 1])) - NUM_OF_OTHER)


class Timed:
    """A policy whose decisions are timed; else it is what the policy is."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.spent_ms: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def decide(self, snapshot: Snapshot) -> Allocation:
        began_s = time.thread_time()
        answer = self._policy.decide(snapshot)
        if snapshot.is_due:
            self.spent_ms.append(1e3 * (time.thread_time() - began_s))
        return answer


@cache
def measured(allocator: Allocator, case: HuCase, seed: int) -> AllocatorRun:
    """Nodes are devices here: a worker of a job is a node of eight GPUs there."""
    jobs = workload(seed, is_all=case.is_all, disturbed=case.disturbed)
    conditions = Conditions(nodes=case.nodes, devices_per_node=1, resize_cost=case.resize_cost, seed=seed)
    timed = Timed(variant_policy(allocator.policy, dict(allocator.parameters)))
    planner = Planner(cast(Decides, timed), BestFitPlacer())
    core = PlatformCore(lambda: Core(planner, FittedBelief(), make_settings(SETTINGS).core))
    outcome = simulate(core, set_up(jobs, hu(), conditions), with_offers=False)
    queues_s = [job.start_s - job.submit_s for job in outcome.jobs if job.start_s is not None]
    done = [(job.end_s, job.jct_s) for job in outcome.jobs if job.jct_s is not None]
    return AllocatorRun(
        queue_min=float(np.mean(queues_s)) / MINUTE_S,
        total_min=float(np.mean([jct_s for _, jct_s in done])) / MINUTE_S,
        done_s=np.sort(np.array([end_s for end_s, _ in done if end_s is not None])),
        num_resizes=sum(job.num_resizes for job in outcome.jobs),
        plan_ms=np.array(timed.spent_ms),
        turn_ms=1e3 * outcome.decision_s,
    )
