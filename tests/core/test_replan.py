"""What a batch needs: a new plan, the rest of the last one, or nothing."""

from __future__ import annotations

import pytest
from tests.core.fakes import PowerBelief, node, profile, spec
from tests.core.records import steady

from swell.core.apply import apply
from swell.core.replan import Need, Replan
from swell.core.state import HeadState
from swell.model.event import (
    AnyEvent,
    GangEnded,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    Outcome,
)
from swell.model.options import Domain

LEAST_S = 10.0


@pytest.fixture
def state() -> HeadState:
    """Job `a` trains with two workers at the ten steps a second that are believed of it, since 100."""
    state = HeadState(belief=PowerBelief(), domain=Domain())
    for event in (
        NodeJoined(at_s=100.0, node=node()),
        JobSubmitted(at_s=100.0, job_id="a", spec=spec(1000)),
    ):
        apply(state, event)
    record = state.records["a"]
    record.learn_length(profile())
    record.gang, record.generation = steady("n0.0", "n0.1"), 1
    record.progress.as_of_s, record.progress.rate_per_s = 100.0, 10.0
    state.belief.learn_profile("a", record.spec, profile())
    state.relearn(record)
    state.write_rows()
    state.last_plan.begin(100.0)
    return state


def needs(state: HeadState, *events: AnyEvent) -> Need:
    replan = Replan(state, LEAST_S)
    for event in events:
        replan.hear(event)
        apply(state, event)
        replan.compare()
    return replan.need()


def ended() -> GangEnded:
    return GangEnded(at_s=101.0, job_id="a", generation=1, outcome=Outcome.SUCCEEDED, steps=1000)


@pytest.mark.parametrize(("is_sated", "need"), [(True, Need.GO_ON), (False, Need.PLAN)])
def test_devices_that_are_of_no_use_are_no_news(state: HeadState, is_sated: bool, need: Need) -> None:
    state.last_plan.is_sated = is_sated
    assert needs(state, ended()) is need


def test_a_job_of_which_policies_know_nothing_yet_needs_none(state: HeadState) -> None:
    submitted = JobSubmitted(at_s=101.0, job_id="b", spec=spec(100))
    assert needs(state, submitted) is Need.NOTHING
    state.records["b"].is_profiling = True
    assert needs(state, JobProfiled(at_s=102.0, job_id="b", profile=profile())) is Need.PLAN
