"""A trial run that is lost through no fault of the script is tried again, as a launch is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.driven_world import DrivenWorld
from tests.core.fakes import core_of, node, profile, spec, strict
from tests.core.head import Head
from tests.examples import fewer_if_quick

from swell.core.setbacks import MAX_SETBACKS
from swell.model.command import ProfileJob
from swell.model.event import JobProfiled, JobSubmitted, NodeJoined, TrialQueued
from swell.model.job import Phase
from swell.policies.registry import new_policy
from swell.sim.faults import MESSAGE, FaultRates


def head_that_loses(share: float, seed: int = 0) -> tuple[Head, DrivenWorld]:
    world = DrivenWorld(seed, FaultRates(trial=share))
    world.join(node())
    return Head(core_of, world), world


@given(seed=st.integers(0, 1000), dies=st.booleans(), folds=st.booleans())
@settings(max_examples=fewer_if_quick(25), deadline=None)
def test_lost_trials_are_repeated_until_one_succeeds(seed: int, dies: bool, folds: bool) -> None:
    """Also by a head that is killed while it waits for the next try."""
    head, world = head_that_loses(1.0, seed)
    head.submit("a", spec(20))
    head.run_until(lambda: head.core.views() != [] and head.job("a").reason_code == "trial_lost")
    assert head.phase("a") is Phase.QUEUED
    if folds:
        head.fold()
    if dies:
        head.die()
    world.calm_down()
    head.run()
    assert head.phase("a") is Phase.SUCCEEDED
    assert head.job("a").message == ""
    attempts = [command.attempt for _, command in world.performed if isinstance(command, ProfileJob)]
    assert sorted(set(attempts)) == list(range(max(attempts) + 1))


def test_a_trial_that_is_lost_again_and_again_fails_the_job_and_says_so() -> None:
    head, world = head_that_loses(1.0)
    head.submit("a", spec(20))
    head.run()
    view = head.job("a")
    assert view.phase is Phase.FAILED
    assert f"its trial run was lost {MAX_SETBACKS} times in a row" in view.reason
    assert view.message == MESSAGE
    times_s = [at_s for at_s, command in world.performed if isinstance(command, ProfileJob)]
    assert len(times_s) == MAX_SETBACKS
    assert 120.0 < times_s[-1] - times_s[0] < 300.0, "it waits longer each time"


@pytest.mark.parametrize(("deadline_s", "is_due_to_wait"), [(120.0, True), (4.0, False)])
def test_who_waits_for_the_trial_runs_of_others_is_told_and_a_refusal_says_what_that_cost(
    deadline_s: float, is_due_to_wait: bool
) -> None:
    """300 steps take 9.9 s with 4 workers; measured at once, the job would have had a minute more."""
    core, behind = core_of(new_policy("elasticflow")), ("b", "c", "d", "e")
    core.handle([NodeJoined(at_s=0.0, node=node())])
    core.handle([JobSubmitted(at_s=0.0, job_id="a", spec=strict(deadline_s, steps=300))])
    core.handle([TrialQueued(at_s=1.0, job_id="a", behind=behind, waited_s=1.0)])
    assert core.views()[0].reason == "waits for the trial runs of b, c, d and 1 more"
    core.handle([TrialQueued(at_s=115.0, job_id="a", behind=(), waited_s=115.0)])
    assert core.views()[0].reason == "is in its trial run, which measures its speed"
    core.handle([JobProfiled(at_s=118.0, job_id="a", profile=profile())])
    [refused] = core.ended_views()
    assert refused.phase is Phase.REJECTED
    assert "it had waited 1 min 55 s for the trial runs of b, c, d and 1 more" in refused.reason
    assert refused.reason.endswith("would have been promised its deadline without that") == is_due_to_wait
