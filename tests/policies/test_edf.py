"""Earliest deadline first, and the two halves of ElasticFlow on top of it."""

from __future__ import annotations

from hypothesis import given
from tests.policies.fluid import follow
from tests.policies.snapshots import (
    Job,
    best_effort,
    in_fine_steps,
    snapshot,
    soft,
    some_jobs,
    strict,
)

from swell.model.snapshot import STRICT
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.policy import Policy
from swell_papers.policies.edf import Edf
from swell_papers.policies.edf_admission import EdfAdmission

LINEAR = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0}
CONCAVE = {1: 1.0, 2: 1.5, 4: 2.0}
PEAK_AT_2 = {1: 1.0, 2: 1.8, 4: 1.5}


def kept(policy: Policy, jobs: list[Job], num_devices: int) -> set[str]:
    """Jobs that end in time if the policy is followed to the letter."""
    run = follow(policy, jobs, num_devices, margin_share=0.0, min_hold_s=0.0)
    return {job.id for job in jobs if run.finished.get(job.id, float("inf")) <= job.deadline + 1e-6}


def test_the_earliest_deadline_takes_all_that_speeds_it_up() -> None:
    jobs = [
        strict("later", LINEAR, 8, 30),
        soft("soon", PEAK_AT_2, 8, 10),
        best_effort("whenever", LINEAR, 8, submitted=-99),
        strict("soonest", CONCAVE, 8, 5),
    ]
    assert Edf().decide(snapshot(jobs, 8)).workers.tolist() == [2, 2, 0, 4]
    assert Edf().decide(snapshot(jobs, 5)).workers.tolist() == [0, 1, 0, 4]


def test_the_published_rule_gives_the_largest_size_even_if_it_is_slower() -> None:
    jobs = [strict("a", PEAK_AT_2, 8, 10), strict("b", {1: 1.0, 4: 3.0}, 8, 20)]
    assert Edf(largest=1).decide(snapshot(jobs, 8)).workers.tolist() == [4, 4]
    assert Edf(largest=1).decide(snapshot(jobs, 3)).workers.tolist() == [2, 1]


def test_with_one_device_and_a_feasible_set_nobody_is_late() -> None:
    """The optimality of EDF on one machine, and what a hopeless job does to it."""
    one = {1: 1.0}
    jobs = [strict(name, one, work, end) for name, work, end in (("a", 3, 3), ("b", 4, 8), ("c", 5, 12))]
    assert kept(Edf(), jobs, 1) == {"a", "b", "c"}
    hopeless = strict("hopeless", one, 9, 1)
    assert kept(Edf(), [*jobs, hopeless], 1) == set()
    assert kept(EdfAdmission(), [*jobs, hopeless], 1) == {"a", "b", "c"}


def test_sub_linear_jobs_waste_devices_at_their_peak_and_elastic_sizes_do_not() -> None:
    """ElasticFlow, section 3.2, Figure 3: two jobs of which EDF at full size makes one late."""
    jobs = [in_fine_steps(job) for job in (strict("a", CONCAVE, 6, 4), strict("b", CONCAVE, 6, 4.5))]
    assert kept(Edf(), jobs, 4) == {"a"}
    assert kept(Edf(elastic=1), jobs, 4) == {"a", "b"}


def test_only_both_halves_together_serve_a_mix_with_a_hopeless_job() -> None:
    """Section 6.4: adding only one of them to EDF performs worse than ElasticFlow."""
    jobs = [
        strict("hopeless", CONCAVE, 60, 1, submitted=0.25),
        strict("a", CONCAVE, 6, 4.5, submitted=0.0),
        strict("b", CONCAVE, 6, 4.5, submitted=0.0),
    ]
    jobs = [in_fine_steps(job) for job in jobs]
    assert kept(EdfAdmission(), jobs, 4) == {"a"}
    assert len(kept(Edf(elastic=1), jobs, 4)) == 0
    assert kept(ElasticFlow(), jobs, 4) == {"a", "b"}


@given(jobs=some_jobs(6))
def test_whom_edf_admits_it_serves_in_time(jobs: list[Job]) -> None:
    """Without costs of changes, the order being fixed, what was foreseen at the gate comes true."""
    fresh = [
        Job(id=job.id, rates=job.rates, steps=job.steps, job_class=job.job_class, deadline=job.deadline)
        for job in jobs
    ]
    run = follow(EdfAdmission(), fresh, 6, margin_share=0.0, min_hold_s=0.0)
    for job in fresh:
        if job.job_class == STRICT:
            assert (job.id in run.refused) != (run.finished.get(job.id, 1e9) <= job.deadline + 1e-6)


def test_with_the_largest_sizes_the_gate_refuses_whom_a_smaller_size_would_serve() -> None:
    jobs = [strict("a", PEAK_AT_2, 8, 8 / PEAK_AT_2[2])]
    assert not EdfAdmission().decide(snapshot(jobs, 8)).refusals
    assert set(EdfAdmission(largest=1).decide(snapshot(jobs, 8)).refusals) == {0}


def test_elastic_scaling_alone_refuses_nobody_and_serves_the_late_in_their_turn() -> None:
    jobs = [strict("late", LINEAR, 800, 10), strict("b", LINEAR, 16, 11)]
    answer = Edf(elastic=1).decide(snapshot(jobs, 8))
    assert answer.refusals == {}
    assert answer.workers.tolist() == [8, 0]
