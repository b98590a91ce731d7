"""A held job gives up its devices with its state saved, and waits for its owner; its promise does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.core.driven_world import DrivenWorld
from tests.core.fakes import core_of, node, profile, spec, strict
from tests.core.head import Head

from swell.model.command import StopGang, SuspendGang
from swell.model.event import (
    AnyEvent,
    CancelRequested,
    HoldRequested,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    PredecessorsSucceeded,
    ResumeRequested,
)
from swell.model.job import JobClass, JobSpec, Phase
from swell.policies.registry import new_policy
from swell.sim.faults import NO_FAULTS


def begun(job: JobSpec, policy: str = "elasticflow") -> Head:
    """Four devices, and a job `a` that trains."""
    head = Head(lambda: core_of(new_policy(policy)), DrivenWorld(0, NO_FAULTS))
    head.world.join(node("n0", 4))
    head.submit("a", job)
    head.turn()
    head.run_until(lambda: head.phase("a") is Phase.RUNNING and head.job("a").steps > 3)
    return head


def held(head: Head) -> None:
    head.hold("a")
    head.run_until(lambda: head.job("a").reason_code == "held")


def test_a_job_that_is_to_be_measured_first_is_held_after_its_trial_run() -> None:
    head = Head(lambda: core_of(new_policy("elasticflow")), DrivenWorld(0, NO_FAULTS))
    head.world.join(node("n0", 4))
    head.submit("a", msgspec.structs.replace(spec(50), hold_after_trial=True))
    head.turn()
    head.run_until(lambda: head.job("a").reason_code == "held")
    assert (head.job("a").is_held, head.job("a").total_steps) == (True, 50)
    head.resume("a")
    head.run_until(lambda: "a" in head.ended)
    assert head.ended["a"].phase is Phase.SUCCEEDED


@pytest.mark.parametrize("policy", ["elasticflow", "fifo", "srtf", "pollux", "hu"])
def test_a_job_that_trains_is_saved_and_goes_on_where_it_was(policy: str) -> None:
    head = begun(spec(300), policy)
    held(head)
    view = head.job("a")
    assert (view.phase, view.is_held, view.devices, view.estimated_finish_s) == (Phase.QUEUED, True, (), None)
    assert view.steps > 3 and "`swell resume a`" in view.reason
    head.submit("b", spec(50))
    head.run_until(lambda: "b" in head.ended)
    assert head.phase("a") is Phase.QUEUED, "free devices are none of a held job"
    steps = head.job("a").steps
    head.resume("a")
    head.run()
    done = head.ended["a"]
    assert (done.phase, done.is_held) == (Phase.SUCCEEDED, False)
    launches = [command for _, command in head.world.performed if isinstance(command, SuspendGang)]
    assert len(launches) == 1 and done.steps == 300 > steps


def test_one_that_waits_is_not_even_tried_and_one_that_starts_is_stopped() -> None:
    core = core_of(new_policy("elasticflow"))
    core.handle([JobSubmitted(at_s=1.0, job_id="a", spec=spec(300))])
    core.handle([HoldRequested(at_s=2.0, job_id="a")])
    assert core.handle([NodeJoined(at_s=3.0, node=node())]) == []
    assert core.views()[0].reason_code == "held"
    (trial,) = core.handle([ResumeRequested(at_s=4.0, job_id="a")])
    assert type(trial).__name__ == "ProfileJob"
    head = Head(lambda: core_of(new_policy("elasticflow")), DrivenWorld(0, NO_FAULTS))
    head.world.join(node("n0", 4))
    head.submit("a", spec(300))
    head.turn()
    head.run_until(lambda: head.phase("a") is Phase.STARTING)
    held(head)
    assert any(isinstance(command, StopGang) for _, command in head.world.performed)
    head.resume("a")
    head.run()
    assert head.phase("a") is Phase.SUCCEEDED


def test_a_trial_run_that_was_under_way_counts() -> None:
    core, told = core_of(new_policy("elasticflow")), list[Any]()
    core.handle([NodeJoined(at_s=0.0, node=node())])
    told += core.handle([JobSubmitted(at_s=1.0, job_id="a", spec=spec(300))])
    told += core.handle([HoldRequested(at_s=1.1, job_id="a")])
    told += core.handle([JobProfiled(at_s=2.0, job_id="a", profile=profile())])
    assert [type(command).__name__ for command in told if type(command).__name__ != "WakeAt"] == [
        "ProfileJob"
    ]
    assert core.views()[0].reason_code == "held"
    launched = core.handle([ResumeRequested(at_s=3.0, job_id="a")])
    assert "LaunchGang" in [type(command).__name__ for command in launched]


def test_its_promise_is_withdrawn_and_made_once_more_where_it_can_be_kept() -> None:
    head = begun(strict(60.0, steps=300))
    assert head.job("a").is_promised
    held(head)
    view = head.job("a")
    assert (view.is_promised, view.job_class, view.asked_deadline_s) == (False, JobClass.SOFT, 60.0)
    head.submit("b", spec(300, min_workers=4, job_class=JobClass.STRICT, deadline_s=40.0))
    head.turn()
    head.run_until(lambda: head.phase("b") is not Phase.QUEUED)
    assert head.job("b").is_promised, "what was promised to a held job is free for others"
    head.resume("a")
    head.run_until(lambda: head.job("a").asked_deadline_s is None)
    assert head.job("a").is_promised and head.job("a").deadline_s == 60.0
    head.run()
    assert head.ended["a"].kept and head.ended["b"].kept


def test_where_it_cannot_be_kept_any_more_the_job_goes_on_without() -> None:
    head = begun(strict(20.0, steps=300))
    held(head)
    head.world.say_at(25.0, ResumeRequested(at_s=25.0, job_id="a"))
    head.run_until(lambda: head.job("a").asked_deadline_s is None)
    view = head.job("a")
    assert not view.is_promised and view.refusal and view.counter_offer_s and view.counter_offer_s > 20.0
    head.run()
    assert head.phase("a") is Phase.SUCCEEDED


def test_a_counter_offer_is_taken_as_at_its_submission() -> None:
    accepting = spec(300, job_class=JobClass.STRICT, deadline_s=20.0, accept_until_s=500.0)
    head = begun(accepting)
    held(head)
    head.world.say_at(25.0, ResumeRequested(at_s=25.0, job_id="a"))
    head.run()
    done = head.ended["a"]
    assert done.is_promised and done.deadline_s is not None and 20.0 < done.deadline_s < 500.0


def test_a_job_that_follows_others_waits_for_them_and_then_as_every_newcomer() -> None:
    core = core_of(new_policy("elasticflow"))
    core.handle([NodeJoined(at_s=0.0, node=node())])
    follower = spec(300, job_class=JobClass.STRICT, deadline_s=60.0, after=("a", "b"))
    assert core.handle([JobSubmitted(at_s=1.0, job_id="c", spec=follower)]) == []
    (view,) = core.views()
    assert (view.awaits, view.reason, view.estimated_finish_s) == (
        ("a", "b"),
        "starts once a, b succeeded",
        None,
    )
    core.handle([HoldRequested(at_s=1.5, job_id="c")])
    assert core.handle([PredecessorsSucceeded(at_s=2.0, job_id="c")]) == []
    assert core.views()[0].reason_code == "held", "its owner has not resumed it"
    (trial,) = core.handle([ResumeRequested(at_s=3.0, job_id="c")])
    assert type(trial).__name__ == "ProfileJob"
    core.handle([JobProfiled(at_s=4.0, job_id="c", profile=profile())])
    assert core.views()[0].is_promised and core.views()[0].awaits == ()


def test_one_that_is_resumed_or_cancelled_waits_no_more() -> None:
    core = core_of(new_policy("elasticflow"))
    core.handle([NodeJoined(at_s=0.0, node=node())])
    for job in ("b", "c"):
        core.handle([JobSubmitted(at_s=1.0, job_id=job, spec=spec(300, after=("a",)))])
    assert core.handle([ResumeRequested(at_s=2.0, job_id="b")])
    core.handle([CancelRequested(at_s=3.0, job_id="c", why="was cancelled: a has failed")])
    (ended,) = core.ended_views()
    assert (ended.phase, ended.reason) == (Phase.CANCELLED, "was cancelled: a has failed")
    late: list[AnyEvent] = [PredecessorsSucceeded(at_s=4.0, job_id="b")]
    core.handle(late)
    assert core.state.ignored == late
