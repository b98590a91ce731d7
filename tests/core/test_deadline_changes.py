"""Another deadline for a job that is there already: promised, or nothing changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import core_of, node, profile, spec, strict

from swell.core.core import Core
from swell.model.command import AnyCommand
from swell.model.event import (
    DeadlineChangeAsked,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    ScriptVerified,
    Woke,
)
from swell.model.job import AfterRefusal, JobClass, JobSpec
from swell.model.view import JobView
from swell.policies.registry import new_policy
from swell.script_facts import ScriptFinding


def begun(job: JobSpec, policy: str = "elasticflow") -> Core:
    """Four devices since 0 s, and a job `a` since 1 s, which is profiled."""
    core = core_of(new_policy(policy))
    core.handle([NodeJoined(at_s=0.0, node=node())])
    core.handle([JobSubmitted(at_s=1.0, job_id="a", spec=job)])
    core.handle([JobProfiled(at_s=1.0, job_id="a", profile=profile())])
    return core


def ask(core: Core, deadline_s: float, at_s: float = 2.0, **more: Any) -> list[AnyCommand]:
    commands = core.handle([DeadlineChangeAsked(at_s=at_s, job_id="a", deadline_s=deadline_s, **more)])
    core.ended_views()
    return commands


def job(core: Core) -> JobView:
    (view,) = core.views()
    return view


@pytest.mark.parametrize(
    "before",
    [strict(100.0, steps=300), spec(300), spec(300, job_class=JobClass.SOFT, deadline_s=50.0)],
    ids=["promised", "best effort", "soft"],
)
def test_a_deadline_that_can_be_kept_is_promised_whatever_the_job_was(before: JobSpec) -> None:
    for deadline_s in (60.0, 500.0):
        core = begun(before)
        ask(core, deadline_s)
        view = job(core)
        assert (view.deadline_s, view.is_promised, view.job_class) == (deadline_s, True, JobClass.STRICT)
        assert (view.refusal, view.counter_offer_s, view.asked_deadline_s) == ("", None, None)
        assert "promised" in [code for _, code in told(core)]


def told(core: Core) -> list[tuple[str, str]]:
    return [(job_id, story.code) for job_id, story in core.stories()]


@given(
    st.sampled_from(["elasticflow", "edf_admission", "chronus"]),
    st.sampled_from(
        [strict(100.0, steps=300), spec(300), spec(300, job_class=JobClass.SOFT, deadline_s=50.0)]
    ),
    st.floats(-10.0, 9.0),
)
def test_one_that_cannot_be_kept_changes_nothing(policy: str, before: JobSpec, deadline_s: float) -> None:
    """300 steps take 9.9 s with 4 workers. The other core is made to plan at the same moment."""
    core, other = begun(before, policy), begun(before, policy)
    kept = job(core)
    asked = DeadlineChangeAsked(at_s=2.0, job_id="a", deadline_s=deadline_s)
    assert core.handle([Woke(at_s=2.0), asked]) == other.handle([Woke(at_s=2.0)])
    core.ended_views()
    view = job(core)
    assert view.refusal
    if policy == "elasticflow":
        assert view.counter_offer_s is not None and view.counter_offer_s > deadline_s
    assert (view.deadline_s, view.is_promised, view.job_class) == (
        kept.deadline_s,
        kept.is_promised,
        kept.job_class,
    )
    assert (view.devices, view.asked_deadline_s) == (job(other).devices, None)
    assert [code for code in told(core) if code[1] == "change_refused"]


@pytest.mark.slow
@given(st.sampled_from(["elasticflow", "unified"]), st.floats(2.5, 9.0), st.floats(0.0, 30.0))
def test_the_offer_to_a_change_is_promised_when_it_is_asked_for_or_accepted(
    policy: str, deadline_s: float, more_s: float
) -> None:
    core = begun(spec(300), policy)
    ask(core, deadline_s)
    offer_s = job(core).counter_offer_s
    assert offer_s is not None
    again, accepting, late = begun(spec(300), policy), begun(spec(300), policy), begun(spec(300), policy)
    ask(again, offer_s)
    ask(accepting, deadline_s, accept_until_s=offer_s + more_s)
    ask(late, deadline_s, accept_until_s=offer_s - 0.5)
    assert job(again).is_promised and job(again).deadline_s == offer_s
    assert job(accepting).is_promised and job(accepting).deadline_s == offer_s
    assert not job(late).is_promised and job(late).deadline_s is None


def test_a_job_that_is_tried_without_a_promise_may_be_promised_a_later_deadline() -> None:
    core = begun(strict(5.0, steps=300))
    assert not core.views()  # refused
    tried = spec(300, job_class=JobClass.STRICT, deadline_s=5.0, after_refusal=AfterRefusal.SOFT)
    core = begun(tried)
    assert job(core).is_unpromised
    ask(core, 100.0)
    assert job(core).is_promised and not job(core).is_unpromised


def test_before_the_trial_run_has_ended_nothing_is_decided_and_the_last_wish_counts() -> None:
    core = core_of(new_policy("elasticflow"))
    core.handle([NodeJoined(at_s=0.0, node=node())])
    core.handle([JobSubmitted(at_s=1.0, job_id="a", spec=strict(30.0, steps=300))])
    ask(core, 3.0)
    ask(core, 60.0)
    assert (job(core).deadline_s, job(core).asked_deadline_s) == (30.0, 60.0)
    core.handle([JobProfiled(at_s=3.0, job_id="a", profile=profile())])
    assert (job(core).deadline_s, job(core).asked_deadline_s, job(core).is_promised) == (60.0, None, True)


def test_a_newcomer_whose_other_deadline_is_refused_is_judged_by_its_first_one() -> None:
    core = core_of(new_policy("elasticflow"))
    core.handle([NodeJoined(at_s=0.0, node=node())])
    core.handle([JobSubmitted(at_s=1.0, job_id="a", spec=strict(60.0, steps=300))])
    ask(core, 3.0)
    core.handle([JobProfiled(at_s=3.0, job_id="a", profile=profile())])
    core.ended_views()
    assert job(core).is_promised and job(core).deadline_s == 60.0 and job(core).refusal


@pytest.mark.parametrize(("deadline_s", "is_void"), [(30.0, True), (100.0, False)])
def test_a_promise_that_a_difference_makes_impossible_is_void_and_the_earliest_other_one_is_told(
    deadline_s: float, is_void: bool
) -> None:
    """300 steps take 30 s with one worker."""
    core = begun(strict(deadline_s, steps=300))
    assert job(core).is_promised
    found = ScriptFinding(name="other-step", text="it differs")
    core.handle([ScriptVerified(at_s=2.0, job_id="a", steps=9, findings=(found,))])
    core.ended_views()
    view = job(core)
    assert (view.is_void, view.is_promised, view.deadline_s) == (is_void, not is_void, deadline_s)
    assert ("a", "void" if is_void else "promised") in told(core)
    if is_void:
        assert view.job_class is JobClass.SOFT
        assert view.counter_offer_s is not None and view.counter_offer_s > deadline_s
