"""Whole runs under the policy of Saxena et al. and its baselines, on their four jobs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from swell.core.cost_table import TRIED_FAMILY, CostRow, CostTable
from swell.model.command import AnyCommand
from swell.model.event import AnyEvent
from swell.model.job import Phase
from swell.sim.conditions import Conditions, set_up
from swell.sim.metrics import metrics_of
from swell.sim.outcome import SimOutcome
from swell.sim.profiles.saxena import saxena
from swell.sim.simulate import simulate
from swell_papers.saxena_workload import Pattern, workload
from swell_papers.variants import variant_core

BURSTY = Pattern(name="bursty", minutes=120.0, high=1.5, low=0.2, phase_minutes=30.0)


def run(
    policy: str,
    seed: int = 0,
    cost: str = "none",
    told: list[tuple[AnyCommand, ...]] | None = None,
    **parameters: float,
) -> SimOutcome:
    """On eight devices.

    Args:
        told: is given the commands of each turn; the head then expects changes to be free from the beginning.
    """
    jobs = workload(BURSTY, 8, (0, 1, 2, 3), seed)
    scenario = set_up(jobs, saxena(), Conditions(nodes=4, devices_per_node=2, resize_cost=cost))
    core = variant_core(policy, {"min_hold_s": 0.0, "report_plan_s": 60.0}, parameters)
    if told is not None:
        free = CostRow()
        free.try_out("growth", {1: 0.0})
        core._cores[0]._state.costs = CostTable(families={TRIED_FAMILY: free})
        handle = core.handle

        def listening(batch: Sequence[AnyEvent]) -> list[AnyCommand]:
            commands = handle(batch)
            told.append(tuple(commands))
            return commands

        core.handle = listening  # type: ignore[method-assign]
    return simulate(core, scenario)


@pytest.mark.parametrize("policy", ["saxena", "saxena_max_batch", "saxena_min_batch", "saxena_random_batch"])
def test_where_jobs_queue_all_of_them_end(policy: str) -> None:
    outcome = run(policy)
    assert outcome.jobs and all(job.phase is Phase.SUCCEEDED for job in outcome.jobs)


def test_a_job_without_a_deadline_is_dropped_and_told_why() -> None:
    outcome = run("saxena", drops=1.0)
    dropped = [job for job in outcome.jobs if job.phase is Phase.REJECTED]
    assert dropped and all("jobs do not queue" in job.why for job in dropped)
    others = [job for job in outcome.jobs if job.phase is not Phase.REJECTED]
    assert all(job.phase is Phase.SUCCEEDED for job in others)
    assert metrics_of(outcome).drop_ratio == len(dropped) / len(outcome.jobs)


def test_a_dropped_job_was_told_at_the_next_decision() -> None:
    """Once a period, or when enough jobs have ended."""
    for ended_share, most_s in ((1.0, 600.0), (0.0, 0.0)):
        outcome = run("saxena", drops=1.0, ended_share=ended_share)
        waits_s = [
            job.end_s - job.submit_s
            for job in outcome.jobs
            if job.phase is Phase.REJECTED and job.end_s is not None
        ]
        assert waits_s and max(waits_s) <= most_s + 1e-6


def test_an_open_batch_serves_more_jobs_than_a_drawn_one() -> None:
    """Section IV-F, bursty arrivals."""
    served = {
        policy: metrics_of(run(policy, drops=1.0, ended_share=0.0))
        for policy in ("saxena", "saxena_random_batch")
    }
    elastic, baseline = served["saxena"], served["saxena_random_batch"]
    assert elastic.completed > baseline.completed
    assert (elastic.sjs_efficiency or 0.0) > (baseline.sjs_efficiency or 1.0)


def test_a_run_is_the_same_twice() -> None:
    assert run("saxena_random_batch", seed=3).jobs == run("saxena_random_batch", seed=3).jobs


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters", [{}, {"ended_share": 0.0}, {"ended_share": 0.0, "drops": 1.0}], ids=str
)
def test_where_changes_are_free_the_aware_one_gives_the_same_commands(parameters: dict[str, float]) -> None:
    """Turn by turn, through the whole head."""
    plain: list[tuple[AnyCommand, ...]] = []
    aware: list[tuple[AnyCommand, ...]] = []
    run("saxena", 1, "none", plain, **parameters)
    run("saxena_aware", 1, "none", aware, **parameters)
    assert any(plain) and aware == plain


def test_where_changes_are_dear_the_aware_one_makes_fewer_and_jobs_end_sooner() -> None:
    plain, aware = (
        metrics_of(run(policy, cost="60", ended_share=0.0)) for policy in ("saxena", "saxena_aware")
    )
    assert aware.resizes < plain.resizes
    assert (aware.avg_jct_s or 1e9) < (plain.avg_jct_s or 0.0)
