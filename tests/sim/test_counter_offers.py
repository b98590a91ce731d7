"""Counter-offers that are taken at once, where the owner of a job has said until when."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.examples import share_of_examples
from tests.sim.test_unpromised import by_id, crowds, tried
from tests.sim.worlds import job, run

from swell.model.job import Phase
from swell.sim.job import SimJob
from swell.sim.outcome import JobOutcome

POLICIES = ("elasticflow", "unified")


def accepting(one: SimJob, until_s: float) -> SimJob:
    """The job, which takes an offer until then."""
    return replace(one, spec=msgspec.structs.replace(one.spec, accept_until_s=until_s))


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.3), deadline=None)
@given(crowds(), st.sampled_from(POLICIES), st.floats(0.0, 50.0))
def test_the_offer_is_taken_just_if_it_is_early_enough(
    crowd: list[SimJob], policy: str, more_s: float
) -> None:
    refused = [one for one in run(crowd, policy).jobs if one.phase is Phase.REJECTED]
    assume(refused)
    first = min(refused, key=lambda one: (one.submit_s, one.id))
    offer_s = first.counter_offer_s
    assert offer_s is not None and first.deadline_s is not None

    def answer(until_s: float) -> JobOutcome:
        jobs = [accepting(one, until_s) if one.id == first.id else one for one in crowd]
        return by_id(run(jobs, policy))[first.id]

    taken, missed = answer(offer_s + more_s), answer(offer_s - 0.5)
    assert taken.is_promised and taken.deadline_s == offer_s
    assert taken.is_kept
    assert missed.phase is Phase.REJECTED
    assert (missed.deadline_s, missed.counter_offer_s) == (first.deadline_s, offer_s)


def test_of_two_that_take_offers_at_one_moment_the_second_takes_one_behind_the_first() -> None:
    """The first offer to it did not know of the other one's."""
    jobs = [
        accepting(job(name, steps=300, deadline_s=60.0, rates={8: 3.0}), 1000.0) for name in ("a", "b", "c")
    ]
    ends_s = [one.deadline_s or 0.0 for one in run(jobs).jobs if one.is_promised and one.is_kept]
    assert len(ends_s) == 3 and ends_s == sorted(set(ends_s))


def test_who_finds_the_offer_too_late_may_be_tried_without_a_promise() -> None:
    late = accepting(tried(job("late", steps=300, deadline_s=60.0, rates={8: 3.0})), 61.0)
    (only,) = run([late]).jobs
    assert only.is_unpromised and only.deadline_s == 60.0 and only.end_s == pytest.approx(100.0)
