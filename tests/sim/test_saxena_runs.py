"""Whole runs under the policy of Saxena et al. and its baselines, on their four jobs."""

from __future__ import annotations

from swell.model.job import Phase
from swell.sim.conditions import Conditions, set_up
from swell.sim.metrics import metrics_of
from swell.sim.outcome import SimOutcome
from swell.sim.profiles.built_in import saxena
from swell.sim.simulate import simulate
from swell_papers.saxena_workload import Pattern, workload
from swell_papers.variants import variant_core

BURSTY = Pattern(name="bursty", minutes=120.0, high=1.5, low=0.2, phase_minutes=30.0)


def run(
    policy: str,
    seed: int = 0,
    cost: str = "none",
    **parameters: float,
) -> SimOutcome:
    """On eight devices."""
    jobs = workload(BURSTY, 8, (0, 1, 2, 3), seed)
    scenario = set_up(jobs, saxena(), Conditions(nodes=4, devices_per_node=2, resize_cost=cost))
    core = variant_core(policy, {"min_hold_s": 0.0, "report_plan_s": 60.0}, parameters)
    return simulate(core, scenario)


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
