"""Restart jobs that count their steps: measured once they run, promised, and charged for their starts."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.sim.test_unpromised import by_id
from tests.sim.worlds import job, run

from swell.model.job import AfterRefusal, Elasticity, Phase
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob

POLICIES = ("elasticflow", "unified")
REPORTED = GangTimes(report_s=5.0)


def restarted(one: SimJob, estimate_s: float | None = None) -> SimJob:
    """The same job, of which nothing is known before it runs."""
    spec = msgspec.structs.replace(
        one.spec,
        elasticity=Elasticity.RESTART,
        global_batch=1,
        estimate_s=estimate_s,
        after_refusal=AfterRefusal.SOFT,
    )
    return replace(one, spec=spec)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("timings", [GangTimes(), REPORTED])
@pytest.mark.parametrize("estimate_s", [None, 1.0, 1e6])
def test_it_is_promised_by_what_was_measured_however_wrong_its_estimate(
    policy: str, timings: GangTimes, estimate_s: float | None
) -> None:
    [kept] = run([restarted(job("a", steps=400, deadline_s=450.0), estimate_s)], policy, timings=timings).jobs
    assert kept.is_promised and kept.is_kept


@pytest.mark.parametrize("policy", POLICIES)
def test_a_promise_counts_on_no_size_that_was_not_measured(policy: str) -> None:
    """Its script takes whole batches: more workers make no more steps."""
    flat = job("a", steps=400, deadline_s=250.0, rates={1: 1.0, 2: 1.0, 4: 0.9})
    [late] = run([restarted(flat)], policy, timings=REPORTED).jobs
    assert late.phase is Phase.SUCCEEDED and not late.is_promised
    assert late.counter_offer_s is not None and late.counter_offer_s >= 400.0


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.3), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 600),
            st.integers(60, 900),
            st.floats(1.02, 5.0),
            st.booleans(),
            st.sampled_from([{1: 1.0, 2: 1.8, 4: 3.0}, {1: 1.0, 2: 0.95, 4: 0.9}, {1: 1.0, 2: 0.5, 4: 0.3}]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(POLICIES),
    st.sampled_from([GangTimes(), REPORTED]),
)
def test_no_promise_is_broken_by_what_the_planner_chose(
    crowd: list[tuple[int, int, float, bool, dict[int, float]]], policy: str, timings: GangTimes
) -> None:
    jobs = []
    for num, (submit_s, steps, slack, is_restart, rates) in enumerate(crowd):
        deadline_s = submit_s + 60.0 + slack * steps
        one = job(f"j{num}", float(submit_s), steps, deadline_s, rates)
        jobs.append(restarted(one) if is_restart else one)
    ended = by_id(run(jobs, policy, cost="profile", timings=timings))
    assert all(one.is_kept for one in ended.values() if one.is_promised), ended
