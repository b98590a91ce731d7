"""What a batch needs: a new plan, the rest of the last one, or nothing."""

from __future__ import annotations

import msgspec
import pytest
from tests.core.fakes import PowerBelief, node, profile, spec
from tests.core.records import steady

from swell.core.apply import apply
from swell.core.record import JobRecord
from swell.core.replan import Need, Replan
from swell.core.state import HeadState
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    Outcome,
    StepsReported,
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


def report(at_s: float, steps: int) -> StepsReported:
    return StepsReported(at_s=at_s, job_id="a", generation=1, steps=steps, num_workers=2)


def resized(record: JobRecord, steps: int) -> GangResized:
    record.generation = 2
    record.become(record.gang.ask(record.gang.members))
    return GangResized(at_s=101.0, job_id="a", generation=2, steps=steps, pids=())


def ended() -> GangEnded:
    return GangEnded(at_s=101.0, job_id="a", generation=1, outcome=Outcome.SUCCEEDED, steps=1000)


def test_progress_as_believed_needs_nothing(state: HeadState) -> None:
    record = state.records["a"]
    state.belief.learn_rate("a", 2, 0.1, 10)
    record.progress.rate_per_s = state.rate_per_s(record, 2)
    assert needs(state, report(105.0, int(5.0 * record.progress.rate_per_s))) is Need.NOTHING


@pytest.mark.parametrize(("at_s", "need"), [(105.0, Need.NOTHING), (111.0, Need.PLAN)])
def test_a_surprise_needs_a_plan_now_and_then(state: HeadState, at_s: float, need: Need) -> None:
    assert needs(state, report(at_s, 700)) is need


def test_a_job_that_would_have_changed_again_needs_a_plan(state: HeadState) -> None:
    state.last_plan.revisit = ("a",)
    assert needs(state, resized(state.records["a"], 10)) is Need.PLAN


@pytest.mark.parametrize(("is_sated", "need"), [(True, Need.GO_ON), (False, Need.PLAN)])
def test_devices_that_are_of_no_use_are_no_news(state: HeadState, is_sated: bool, need: Need) -> None:
    state.last_plan.is_sated = is_sated
    assert needs(state, ended()) is need


@pytest.mark.parametrize(("shares_cores", "need"), [(True, Need.PLAN), (False, Need.NOTHING)])
def test_the_first_value_is_news_for_a_policy_that_goes_by_learning(
    state: HeadState, shares_cores: bool, need: Need
) -> None:
    """Later ones are looked at when the policy has asked to be woken."""
    state.domain = Domain(shares_cores=shares_cores)
    first, second = (msgspec.structs.replace(report(105.0, 50), loss=loss) for loss in (2.0, 1.0))
    assert needs(state, report(105.0, 50)) is Need.NOTHING
    assert needs(state, first) is need
    assert needs(state, second) is Need.NOTHING


def test_a_job_of_which_policies_know_nothing_yet_needs_none(state: HeadState) -> None:
    submitted = JobSubmitted(at_s=101.0, job_id="b", spec=spec(100))
    assert needs(state, submitted) is Need.NOTHING
    state.records["b"].is_profiling = True
    assert needs(state, JobProfiled(at_s=102.0, job_id="b", profile=profile())) is Need.PLAN
