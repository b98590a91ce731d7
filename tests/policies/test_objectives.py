"""What is promised where the cluster is too small for all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.policies.snapshots import CURVES, promised, snapshot, snapshots, strict

from swell.model.snapshot import Snapshot
from swell.policies.admission import admit
from swell.policies.elasticflow_count import ElasticFlowCount
from swell.policies.levels import useful_levels
from swell.policies.objective import Bid, ManyJobs

LINEAR = CURVES[1]
amounts = st.floats(0.001, 1.0)


@given(view=snapshots())
def test_a_counter_offer_would_be_promised(view: Snapshot) -> None:
    assume(view.is_undecided.sum() == 1)
    _, refusals = admit(view, useful_levels(view), ManyJobs())
    for row, refusal in refusals.items():
        if refusal.earliest_deadline_s is None:
            continue
        deadline_s, submitted_s = view.deadline_s.copy(), view.submitted_s.copy()
        deadline_s[row], submitted_s[row] = refusal.earliest_deadline_s, view.now_s
        again = replace(view, deadline_s=deadline_s, submitted_s=submitted_s)
        assert admit(again, useful_levels(again), ManyJobs())[1] == {}


@given(view=snapshots())
def test_nobody_is_promised_what_could_not_be_kept(view: Snapshot) -> None:
    assume(view.is_undecided.sum() == 1)
    picky, first_come = (admit(view, useful_levels(view), rule)[1] for rule in (ManyJobs(), ManyJobs(1.0)))
    _, any_that_fits = admit(view, useful_levels(view))
    assert any_that_fits.keys() <= first_come.keys() and any_that_fits.keys() <= picky.keys()


@given(free=amounts, taken=amounts, more=amounts)
def test_the_fuller_the_less_is_worth_it(free: float, taken: float, more: float) -> None:
    bid = Bid(free=free, taken=min(taken, free))
    assert ManyJobs().objection(bid) or not ManyJobs().objection(replace(bid, free=free + more))


def refused(*newcomers: tuple[str, dict[int, float], float, float], objective: ManyJobs) -> set[str]:
    """Jobs that come in this order to eight devices, of which four are promised away for 100 s."""
    held = promised("held", {4: 4.0}, 400.0, 100.0, held=4)
    jobs = [
        strict(name, rates, steps, deadline, submitted=number - 10.0)
        for number, (name, rates, steps, deadline) in enumerate(newcomers)
    ]
    view = snapshot([held, *jobs], 8)
    return {view.job_ids[row] for row in admit(view, useful_levels(view), objective)[1]}


def test_one_large_job_does_not_keep_many_small_ones_out() -> None:
    large = ("large", LINEAR, 400.0, 100.0)
    small = [(f"small-{number}", LINEAR, 50.0, 100.0) for number in range(4)]
    assert refused(large, *small, objective=ManyJobs(1.0)) == {name for name, *_ in small}
    assert refused(large, *small, objective=ManyJobs()) == {"large"}


def test_a_refusal_says_why() -> None:
    view = snapshot([strict("large", LINEAR, 700.0, 100.0)], 8)
    text = ElasticFlowCount().decide(view).refusals[0].text
    assert text == (
        "its deadline in 100 s is not promised: it would take 88% of what the promises made before "
        "leave, and one job gets 25%; the earliest that can be promised is in 350 s"
    )
    assert np.isclose(ElasticFlowCount().decide(view).refusals[0].earliest_deadline_s, view.now_s + 350)
