"""Strict jobs that are refused and tried all the same."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.sim.worlds import job, run

from swell.model.job import AfterRefusal, Phase
from swell.sim.job import SimJob
from swell.sim.metrics import metrics_of
from swell.sim.outcome import JobOutcome, SimOutcome

POLICIES = ("elasticflow", "edf_admission", "chronus")


def tried(one: SimJob) -> SimJob:
    """The job, which is tried without a promise if it is refused."""
    return replace(one, spec=msgspec.structs.replace(one.spec, after_refusal=AfterRefusal.SOFT))


def by_id(outcome: SimOutcome) -> dict[str, JobOutcome]:
    return {one.id: one for one in outcome.jobs}


@st.composite
def crowds(draw: st.DrawFn) -> list[SimJob]:
    """Strict jobs whose windows are from hopeless to roomy."""
    return [
        job(
            f"j{number}",
            submit_s=(submit_s := draw(st.floats(0.0, 300.0))),
            steps=draw(st.integers(10, 900)),
            deadline_s=submit_s + draw(st.floats(10.0, 900.0)),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


def test_a_hopeless_job_is_done_late_and_one_whose_luck_turns_is_met_without_a_promise() -> None:
    first = job("first", steps=300, deadline_s=145.0, rates={8: 3.0}, dies_at_step=30)  # gone after 10 s
    lucky = tried(job("lucky", submit_s=1.0, steps=150, deadline_s=140.0, rates={8: 3.0}))
    hopeless = tried(job("hopeless", submit_s=2.0, steps=300, deadline_s=12.0, rates={8: 3.0}))
    outcome = run([first, lucky, hopeless])
    found, metrics = by_id(outcome), metrics_of(outcome)
    assert found["lucky"].is_unpromised and found["lucky"].is_kept and not found["lucky"].is_promised
    assert found["hopeless"].is_unpromised and found["hopeless"].phase is Phase.SUCCEEDED
    assert (metrics.admitted, metrics.rejected, metrics.admitted_late) == (1, 0, 0)
    assert (metrics.unpromised, metrics.met_unpromised) == (2, 1)
    assert metrics.deadline_satisfaction == pytest.approx(1 / 3)


@settings(max_examples=share_of_examples(0.25), deadline=None)
@given(crowds(), st.sampled_from(POLICIES))
def test_nobody_ends_by_a_refusal_and_every_deadline_is_counted_once(
    crowd: list[SimJob], policy: str
) -> None:
    outcome = run([tried(one) for one in crowd], policy)
    metrics = metrics_of(outcome)
    assert all(one.phase is Phase.SUCCEEDED for one in outcome.jobs)
    assert metrics.rejected == 0 and metrics.admitted + metrics.unpromised == len(crowd)
    kept = sum(bool(one.is_kept) for one in outcome.jobs if not one.is_unpromised)
    assert metrics.deadline_satisfaction == pytest.approx((kept + metrics.met_unpromised) / len(crowd))
    assert not any(one.is_promised and one.is_unpromised for one in outcome.jobs)
    if policy == "elasticflow":
        assert metrics.admitted_late == 0


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.2), deadline=None)
@given(crowds(), st.sampled_from(POLICIES))
def test_the_wish_changes_nothing_before_the_first_refusal(crowd: list[SimJob], policy: str) -> None:
    plain, wished = run(crowd, policy), run([tried(one) for one in crowd], policy)
    refused_s = min((one.submit_s for one in plain.jobs if one.phase is Phase.REJECTED), default=None)
    if refused_s is None:
        assert plain.jobs == wished.jobs
        return
    for before, after in zip(plain.jobs, wished.jobs, strict=True):
        if before.submit_s <= refused_s:
            assert before.is_promised == after.is_promised
            assert (before.phase is Phase.REJECTED) == after.is_unpromised


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.15), deadline=None)
@given(crowds())
def test_a_job_that_is_tried_knows_what_could_have_been_promised(crowd: list[SimJob]) -> None:
    """The first refusal names the same offer, whatever becomes of the job."""
    plain, wished = run(crowd), run([tried(one) for one in crowd])
    refused = [one for one in plain.jobs if one.phase is Phase.REJECTED]
    if refused:
        first = min(refused, key=lambda one: (one.submit_s, one.id))
        same = [one for one in refused if one.submit_s == first.submit_s]
        if len(same) == 1:
            assert by_id(wished)[first.id].counter_offer_s == first.counter_offer_s


def test_jobs_of_seconds_wait_for_promises_and_not_for_a_refused_job() -> None:
    """A change takes 2 s, and the promise keeps all devices for its minute."""
    rates = {1: 1.0, 2: 1.9, 4: 3.4, 8: 5.2}
    kept = job("kept", steps=300, deadline_s=120.0, rates=rates)
    refused = tried(job("refused", 1.0, steps=600, deadline_s=200.0, rates=rates))
    tiny = [job(f"tiny{number}", 5.0 + number, steps=5, rates=rates) for number in range(3)]
    ended = by_id(run([kept, refused, *tiny], "unified", cost="2"))
    assert ended["kept"].is_kept and ended["refused"].is_unpromised
    assert all(ended[one.id].start_s - one.submit_s < 60.0 for one in tiny)  # type: ignore[operator]
