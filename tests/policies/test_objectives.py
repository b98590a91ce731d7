"""What is promised where the cluster is too small for all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.policies.snapshots import CURVES, promised, snapshot, snapshots, strict

from swell.model.snapshot import Snapshot
from swell.policies.admission import admit
from swell.policies.elasticflow_objectives import ElasticFlowCount
from swell.policies.levels import useful_levels
from swell.policies.objective import Bid, ManyJobs, MuchWork, Objective

LINEAR = CURVES[1]
BADLY = {1: 1.0, 2: 1.1, 4: 1.2, 8: 1.3}
OBJECTIVES = pytest.mark.parametrize("objective", [ManyJobs(), MuchWork()], ids=["count", "work"])

amounts = st.floats(0.001, 1.0)


@OBJECTIVES
@given(view=snapshots())
def test_a_counter_offer_would_be_promised(objective: Objective, view: Snapshot) -> None:
    assume(view.is_undecided.sum() == 1)
    _, refusals = admit(view, useful_levels(view), objective)
    for row, refusal in refusals.items():
        if refusal.earliest_deadline_s is None:
            continue
        deadline_s, submitted_s = view.deadline_s.copy(), view.submitted_s.copy()
        deadline_s[row], submitted_s[row] = refusal.earliest_deadline_s, view.now_s
        again = replace(view, deadline_s=deadline_s, submitted_s=submitted_s)
        assert admit(again, useful_levels(again), objective)[1] == {}


@OBJECTIVES
@given(view=snapshots())
def test_nobody_is_promised_what_could_not_be_kept(objective: Objective, view: Snapshot) -> None:
    assume(view.is_undecided.sum() == 1)
    picky, first_come = (admit(view, useful_levels(view), rule)[1] for rule in (objective, ManyJobs(1.0)))
    _, any_that_fits = admit(view, useful_levels(view))
    assert any_that_fits.keys() <= first_come.keys() and any_that_fits.keys() <= picky.keys()


@given(capacity=amounts, free=amounts, taken=amounts, least=amounts, more=amounts)
def test_the_fuller_the_less_is_worth_it(
    capacity: float, free: float, taken: float, least: float, more: float
) -> None:
    free = min(free, capacity)
    bid = Bid(capacity=capacity, free=free, taken=min(taken, free), least=least)
    emptier = replace(bid, free=min(capacity, free + more))
    for objective in (ManyJobs(), MuchWork()):
        assert objective.objection(bid) or not objective.objection(emptier)


def refused(*newcomers: tuple[str, dict[int, float], float, float], objective: Objective) -> set[str]:
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


def test_haste_that_wastes_devices_waits_where_they_are_scarce() -> None:
    hasty, patient = ("hasty", BADLY, 110.0, 100.0), ("patient", BADLY, 90.0, 100.0)
    assert (
        refused(hasty, patient, objective=MuchWork()) == set()
    )  # half of the devices are free: 0.6 is enough
    wasteful = ("wasteful", BADLY, 130.0, 100.0)
    assert refused(wasteful, objective=MuchWork()) == {"wasteful"}


def test_a_refusal_says_why() -> None:
    view = snapshot([strict("large", LINEAR, 700.0, 100.0)], 8)
    text = ElasticFlowCount().decide(view).refusals[0].text
    assert text == (
        "its deadline in 100 s is not promised: it would take 88% of what is free until then, "
        "and one job gets 25%; the earliest that can be promised is in 350 s"
    )
    assert np.isclose(ElasticFlowCount().decide(view).refusals[0].earliest_deadline_s, view.now_s + 350)
