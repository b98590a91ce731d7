"""Priorities: which jobs go first, of those that are alike otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import pick, share_of_examples
from tests.policies.fluid import follow
from tests.policies.snapshots import (
    CURVES,
    Job,
    best_effort,
    snapshot,
    snapshots,
    some_jobs,
)
from tests.policies.test_laws import every_policy, same

from swell.model.snapshot import BEST_EFFORT, STRICT, Snapshot
from swell.policies.elasticflow.elasticflow import ElasticFlow
from swell.policies.policy import Policy
from swell.policies.registry import POLICIES, new_policy
from swell_papers.variants import VARIANTS, variant_policy

fewer = settings(max_examples=share_of_examples(0.15))
BFTRAINERS = ("bftrainer", "bftrainer_corrected")
#: Of these the jobs with the highest priority hold devices, as far as leases allow and no deadline counts.
SERVING = ("chronus", "edf", "elasticflow", "fifo", "gandiva", "srtf", "themis", "tiresias")
serving = pytest.mark.parametrize("name", SERVING)


def with_priority(view: Snapshot, priority: int) -> Snapshot:
    return replace(view, priority=np.full(view.num_jobs, priority))


@pytest.mark.slow
@every_policy
@fewer
@given(view=snapshots(opens_batches=True), priority=pick(-1000, -1, 1, 1000))
def test_one_priority_for_all_is_none(policy: Policy, view: Snapshot, priority: int) -> None:
    assert same(policy.decide(with_priority(view, priority)), policy.decide(with_priority(view, 0)))


@pytest.mark.parametrize(
    "policy",
    [
        *(make() for make in POLICIES.values()),
        *map(variant_policy, VARIANTS),
        *(variant_policy(name, {"max_trainers": num}) for name in BFTRAINERS for num in (1, 2)),
    ],
    ids=lambda policy: f"{policy.name}-{getattr(policy, 'max_trainers', '')}".rstrip("-"),
)
@fewer
@given(view=snapshots(opens_batches=True), which=st.integers(0, 100), more=st.integers(1, 3))
def test_more_priority_never_means_less_and_nothing_that_decides_is_no_number(
    policy: Policy, view: Snapshot, which: int, more: int
) -> None:
    """Now: what a promise is planned to have may be more and begin later."""
    row = which % max(view.num_jobs, 1)
    priority = view.priority + more * (np.arange(view.num_jobs) == row)
    with np.errstate(invalid="raise"):
        before, after = policy.decide(view), policy.decide(replace(view, priority=priority, index=None))
    assert not np.isnan(after.account.forecast.finish_s).any()
    rates = [view.rates_at(answer.workers)[row : row + 1] for answer in (before, after)]
    assert policy.makes_promises or (rates[1] >= rates[0]).all()


@every_policy
@fewer
@given(
    others=some_jobs(4),
    rates=st.sampled_from(CURVES),
    num_devices=st.integers(0, 12),
    higher=pick("a", "z"),
    least=pick(-1, 0, 3),
)
def test_of_two_jobs_that_are_alike_the_one_with_the_higher_priority_starts_no_later(
    policy: Policy,
    others: list[Job],
    rates: dict[int, float],
    num_devices: int,
    higher: str,
    least: int,
) -> None:
    twins = [
        best_effort(one, rates, 20, start_cost=0.1, priority=least + (one == higher)) for one in ("a", "z")
    ]
    answer = policy.decide(snapshot([*others, *twins], num_devices))
    workers = dict(zip(("a", "z"), answer.workers.tolist()[-2:], strict=True))
    (lower,) = workers.keys() - {higher}
    assert workers[higher] > 0 or workers[lower] == 0
    ends_s = dict(zip(("a", "z"), answer.account.forecast.finish_s.tolist()[-2:], strict=True))
    assert workers[higher] > 0 or ends_s[higher] <= ends_s[lower]


@pytest.mark.slow
@serving
@given(jobs=some_jobs(7), num_devices=st.integers(1, 8))
def test_no_job_waits_for_one_of_lower_priority(name: str, jobs: Sequence[Job], num_devices: int) -> None:
    """Of best-effort jobs on one device each."""
    jobs = [
        replace(
            job, job_class=BEST_EFFORT, deadline=np.inf, promised=False, rates={1: 1.0}, held=job.held > 0
        )
        for job in jobs
    ]
    jobs = [replace(job, devices_per_worker=1, margins=None, open=None) for job in jobs]
    view = snapshot(jobs, num_devices)
    runs = new_policy(name).decide(view).workers > 0
    assert min(view.priority[runs], default=0) >= max(view.priority[~runs], default=-1000)


@settings(max_examples=share_of_examples(0.5))
@given(jobs=some_jobs(6), num_devices=pick(2, 4, 8), lost=pick(0.0, 1.0))
def test_promises_hold_whatever_priorities_come_later(jobs: list[Job], num_devices: int, lost: float) -> None:
    fresh = [replace(job, held=0, promised=False, submitted=-job.submitted) for job in jobs]
    run = follow(ElasticFlow(), fresh, num_devices, margin_share=0.0, min_hold_s=0.0, lost_steps=lost)
    deadlines_s = {job.id: job.deadline for job in fresh if job.job_class == STRICT}
    for job_id in run.promised:
        assert run.finished[job_id] <= deadlines_s[job_id] + 1e-6
