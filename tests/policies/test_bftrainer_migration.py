"""Whole simulated runs of BFTrainer against its integer program with node identities (Eqs. 1 to 16)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest
from tests.decisions.jobs import Mix, crowd
from tests.policies.bftrainer_milp import NodeProblem, solve_nodes

from swell.core.explanations import Standing
from swell.core.planner import Planner
from swell.model.cluster import Cluster
from swell.model.plan import Allocation, Plan
from swell.model.snapshot import Snapshot
from swell.sim.change_cost import change_cost
from swell.sim.gangs import GangTimes
from swell.sim.pool import NodeInterval, Pool
from swell.sim.simulate import cluster
from swell.sim.world import Scenario, SimulatedWorld
from swell_papers.variants import variant_core


class Planned(NamedTuple):
    """A decision of a run."""

    snapshot: Snapshot
    allocation: Allocation
    cluster: Cluster
    held: Mapping[str, tuple[str, ...]]
    plan: Plan

    @property
    def after(self) -> dict[str, tuple[str, ...]]:
        """Devices of each job by the plan."""
        changed = {job: one.target.devices for job, one in self.plan.changes.items()}
        return {**self.held, **changed}


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Planned]:
    """What is planned from now on."""
    plans, plan = list[Planned](), Planner.plan

    def noted(self: Planner, snapshot: Snapshot, allocation: Allocation, standing: Standing) -> Plan:
        made = plan(self, snapshot, allocation, standing)
        plans.append(Planned(snapshot, allocation, standing.cluster, dict(standing.held), made))
        return made

    monkeypatch.setattr(Planner, "plan", noted)
    return plans


def pool(seed: int, num_nodes: int, num_devices: int) -> Pool:
    """Nodes that come and go."""
    generator, intervals = np.random.default_rng([11, seed]), []
    for node in range(num_nodes):
        at_s = float(generator.uniform(0.0, 60.0))
        while at_s < 500.0:
            until_s = at_s + float(generator.exponential(120.0)) + 1.0
            intervals.append(NodeInterval(f"b{node}", at_s, until_s, num_devices))
            at_s = until_s + float(generator.exponential(40.0)) + 1.0
    return Pool(tuple(intervals), "drawn", kind="gpu")


def run(policy: str, seed: int, lent: Pool, owned: tuple[int, int] | None) -> None:
    jobs = crowd(Mix(num_jobs=8, span_s=200.0, median_s=250.0, soft_share=0.5), seed)
    nodes = cluster(*owned, "gpu") if owned else ()
    timings = GangTimes(profiling_s=4.0, save_s=1.5, exit_s=0.5, report_s=45.0)
    world = SimulatedWorld(
        Scenario(nodes=nodes, jobs=jobs, cost=change_cost("changed", 16), timings=timings, pool=lent)
    )
    core = variant_core(policy, {"min_hold_s": 10.0})
    for _ in range(600):
        if not (batch := world.next_events()):
            return
        for command in core.handle(batch):
            world.perform(command)


def migrated(one: Planned) -> list[str]:
    """Jobs that break Equation (6): of the nodes that are there, more change than their number does."""
    there, after = set(one.cluster.devices), one.after
    found = []
    for job, devices in one.held.items():
        before, has = there.intersection(devices), there.intersection(after[job])
        if len(before ^ has) != abs(len(has) - len(before)):
            found.append(job)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["bftrainer", "bftrainer_corrected"])
@pytest.mark.parametrize("owned", [None, (4, 8)], ids=["borrowed", "4x8"])
def test_no_gang_moves_in_a_whole_run(
    policy: str, owned: tuple[int, int] | None, planned: list[Planned]
) -> None:
    """Runs with nodes of several devices, on which the placer would move gangs to make room."""
    for seed in range(3):
        run(policy, seed, pool(seed, 4, 4), owned)
    assert sum(len(one.plan.changes) for one in planned) > 20
    assert [migrated(one) for one in planned if migrated(one)] == []


def node_problem(one: Planned, forward_s: float) -> NodeProblem:
    """The program of the paper for what the policy saw, and for the nodes that jobs really hold."""
    view, devices = one.snapshot, one.cluster.devices
    options, num = view.options, len(one.cluster.devices)
    held = [[device in one.held.get(job, ()) for device in devices] for job in view.job_ids]
    metric = np.zeros((view.num_jobs, num + 1))
    per_step = view.samples_per_step[options.rows]
    metric[options.rows, options.workers] = per_step * options.rate_per_s
    sizes = [options.workers[options.starts[row] : options.starts[row + 1]] for row in range(view.num_jobs)]
    return NodeProblem(
        held=np.array(held, dtype=bool).reshape(view.num_jobs, num),
        least=tuple(int(size.min(initial=num + 1)) for size in sizes),
        most=tuple(int(size.max(initial=0)) for size in sizes),
        metric=tuple(metric),
        up_s=tuple(view.growth_cost_s.tolist()),
        down_s=tuple(view.shrink_cost_s.tolist()),
        forward_s=forward_s,
    )


def worth_of(problem: NodeProblem, owned: np.ndarray) -> float:
    """Equation (16) of a map (J, N)."""
    total = 0.0
    for job, metric in enumerate(problem.metric):
        before, after = int(problem.held[job].sum()), int(owned[job].sum())
        cost_s = problem.up_s[job] * (after > before) + problem.down_s[job] * (after < before)
        total += problem.forward_s * metric[after] - metric[before] * cost_s
    return float(total)


@pytest.mark.slow
def test_placements_of_a_run_are_optimal_maps_of_the_integer_program(planned: list[Planned]) -> None:
    """On nodes of one device. Where a gang is changing, the decision waits for it, and is left out."""
    for seed in range(2):
        run("bftrainer", seed, pool(seed, 7, 1), None)
    num_compared = 0
    for one in planned:
        view, after = one.snapshot, one.after
        num = np.array([len(after.get(job, ())) for job in view.job_ids])
        is_made = (num == one.allocation.workers).all() and (view.devices_per_worker == 1).all()
        is_known = all(set(one.cluster.devices).issuperset(devices) for devices in one.held.values())
        if not (view.num_jobs and one.cluster.devices and is_made and is_known):
            continue
        problem = node_problem(one, 120.0)
        given = [[device in after.get(job, ()) for device in one.cluster.devices] for job in view.job_ids]
        optimum = solve_nodes(problem, big_m=2 * len(one.cluster.devices) + 2).value
        assert worth_of(problem, np.array(given)) == pytest.approx(optimum, rel=1e-6, abs=1e-6)
        num_compared += 1
    assert num_compared > 10
