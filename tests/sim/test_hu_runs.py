"""Whole runs under the allocators of Hu et al."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

import msgspec
import pytest

from swell.core.core import Core
from swell.core.planner import Planner
from swell.core.platform_core import PlatformCore
from swell.model.job import Phase
from swell.placement.best_fit import BestFitPlacer
from swell.policies.hu import Hu
from swell.policies.policy import Policy
from swell.settings import make_settings
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.outcome import SimOutcome
from swell.sim.profiles.built_in import hu
from swell.sim.simulate import simulate
from swell.throughput.belief import FittedBelief
from swell_papers.hu_workload import Disturbed, workload
from swell_papers.policies.hu_greedy import HuGreedy

#: The first jobs of the log.
NUM_JOBS, NUM_NODES = 20, 12
#: Plans of so many steps are quick.
HORIZON_STEPS = 3

HuT = TypeVar("HuT", bound=Hu)


def run(policy: Policy, disturbed: Disturbed | None = None, cost: str = "none") -> SimOutcome:
    jobs = workload(0, disturbed=disturbed)
    jobs = msgspec.structs.replace(jobs, jobs=tuple(jobs.jobs)[:NUM_JOBS])
    conditions = Conditions(nodes=NUM_NODES, devices_per_node=1, resize_cost=cost)
    planner = Planner(policy, BestFitPlacer())
    core = PlatformCore(lambda: Core(planner, FittedBelief(), make_settings(SETTINGS).core))
    return simulate(core, set_up(jobs, hu(), conditions))


def quick(kind: type[HuT], **parameters: int) -> HuT:
    return kind(horizon_steps=HORIZON_STEPS, **parameters)


@pytest.fixture(scope="module")
def plain() -> SimOutcome:
    """As the paper decides, where changes cost nothing."""
    return run(quick(Hu))


@pytest.mark.parametrize(
    "policy", [quick(Hu), quick(Hu, horizon_end=1), HuGreedy()], ids=lambda policy: policy.name
)
def test_all_jobs_end_although_what_users_state_is_wrong(policy: Policy) -> None:
    """Sections 5.4 and 5.5: errors of estimates, bugs, jobs that are given up, and a delay of 15 s."""
    disturbed = Disturbed(eta_share=0.1, buggy_share=0.15, cancelled_share=0.1)
    outcome = run(policy, disturbed, cost="delay:15")
    phases = Counter(job.phase for job in outcome.jobs)
    assert set(phases) == {Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED}
    assert phases[Phase.SUCCEEDED] > NUM_JOBS / 2


def test_gangs_change_once_a_period_or_when_they_get_their_first_nodes(plain: SimOutcome) -> None:
    for job in plain.jobs:
        later_s = [at_s for at_s, _ in job.sizes[1:-1]]
        assert all(at_s % 300.0 == pytest.approx(0.0, abs=1e-6) for at_s in later_s)
