"""A trial run that is lost through no fault of the script is tried again, as a launch is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.driven_world import DrivenWorld
from tests.core.fakes import Fixed, core_of, node, profile, spec
from tests.core.head import Head
from tests.examples import fewer_if_quick

from swell.core.backoff import MAX_SETBACKS
from swell.core.ports import Decides
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, WakeAt
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangStarted,
    JobProfiled,
    JobSubmitted,
    NodeJoined,
    Opened,
    Outcome,
    ProfilingFailed,
    ResizeFailed,
    StepsReported,
    Woke,
)
from swell.model.job import Phase
from swell.sim.injected_faults import MESSAGE, FaultRates


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


# ---------------------------------------------------------------- event by event
class Script:
    """A head that hears one event after the other."""

    def __init__(self, policy: Decides | None = None) -> None:
        self.core = core_of(policy)
        self.hear(NodeJoined(at_s=0.0, node=node()))
        self.hear(JobSubmitted(at_s=0.0, job_id="a", spec=spec(100)))

    def hear(self, event: AnyEvent) -> list[AnyCommand]:
        return self.core.handle([event])

    def lose_trial(self, at_s: float, attempt: int = 0) -> list[AnyCommand]:
        return self.hear(
            ProfilingFailed(
                at_s=at_s, job_id="a", message="was killed", outcome=Outcome.LOST, attempt=attempt
            )
        )

    def start(self, at_s: float) -> None:
        commands = self.hear(JobProfiled(at_s=at_s, job_id="a", profile=profile()))
        self.begin(commands, at_s)

    def begin(self, commands: list[AnyCommand], at_s: float) -> None:
        (launch,) = (command for command in commands if isinstance(command, LaunchGang))
        self.hear(GangStarted(at_s=at_s, job_id="a", generation=launch.generation, steps=0, pids=(1,)))

    def end(self, at_s: float, outcome: Outcome, steps: int, message: str = "") -> None:
        self.hear(
            GangEnded(
                at_s=at_s,
                job_id="a",
                generation=self.generation,
                outcome=outcome,
                steps=steps,
                message=message,
            )
        )

    @property
    def message(self) -> str:
        views = [*self.core.views(), *self.core.ended_views()]
        return views[0].message

    @property
    def generation(self) -> int:
        return self.core.views()[0].generation


def test_it_waits_before_the_next_try_and_asks_to_be_woken() -> None:
    script = Script()
    commands = script.lose_trial(5.0)
    assert commands == [WakeAt(at_s=6.0)]
    assert script.core.under_way() == [WakeAt(at_s=6.0)]
    assert script.message == "was killed"
    (again, *_) = script.hear(Woke(at_s=6.0))
    assert isinstance(again, ProfileJob)
    assert again.attempt == 1
    assert script.core.under_way() == [again]


def test_the_story_tells_how_workers_were_lost_after_the_job_trains_again() -> None:
    script = Script()
    script.start(1.0)
    script.end(2.0, Outcome.LOST, 0, "worker 0 could not be started: no room\nTraceback\nboom")
    told = [story.text for _, story in script.core.stories() if story.code == "requeued"]
    assert told == [
        "lost all its workers and waits to go on from its last checkpoint: "
        "worker 0 could not be started: no room"
    ]


@pytest.mark.parametrize("told", ["", "succeeded, but its last lines were cut off after 600 s"])
def test_a_job_that_succeeded_says_what_its_end_says_and_no_old_failure(told: str) -> None:
    script = Script()
    script.start(1.0)
    record = script.core._state.records["a"]
    record.backoff.cause = "a joiner died"
    script.end(9.0, Outcome.SUCCEEDED, 100, told)
    assert script.message == told


def test_a_change_that_failed_is_forgotten_when_it_is_not_wanted_any_more() -> None:
    policy = Fixed({"a": 2})
    script = Script(policy)
    script.start(1.0)
    policy.wanted["a"] = 4
    (resize,) = (c for c in script.hear(Opened(at_s=5.0)) if isinstance(c, Reconfigure))
    script.hear(ResizeFailed(at_s=6.0, job_id="a", generation=resize.generation, message="a joiner died"))
    script.hear(StepsReported(at_s=6.5, job_id="a", generation=1, num_workers=2, steps=5))
    assert script.message == "a joiner died", "it is to be tried again"
    policy.wanted["a"] = 2
    script.hear(Woke(at_s=7.0))
    script.hear(StepsReported(at_s=8.0, job_id="a", generation=1, num_workers=2, steps=20))
    assert script.message == ""
