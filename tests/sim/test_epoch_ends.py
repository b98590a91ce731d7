"""What follows an epoch: the arithmetic against a walk in small steps, and jobs against pen and paper."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.worlds import RATES, job, run

from swell.core.platform_core import PlatformCore
from swell.model.job import BetweenSteps
from swell.sim.bound import most_deadlines
from swell.sim.epoch_ends import EpochEnds, TrainedSteps
from swell.sim.gangs import GangTimings
from swell.sim.job import SimJob
from swell.sim.outcome import JobOutcome, SimOutcome

RATE = 0.5  #: steps a second
HALF_STEPS = st.integers(0, 400).map(lambda half: half / 2)


def walked(ends: EpochEnds, at_s: float, end_step: int) -> TrainedSteps:
    """Where a job is that goes on from nothing at one step in two seconds, half a second at a time."""
    steps, left_s, passed = 0.0, 0.0, 0
    for _ in range(round(2 * at_s)):
        if left_s > 0.0:
            left_s -= 0.5
            passed += left_s == 0.0
        elif steps < end_step:
            steps += 0.25
            if steps % ends.num_steps == 0.0:
                left_s = ends.time_s
                passed += left_s == 0.0
    return TrainedSteps(steps, left_s, passed)


@given(
    time_s=st.sampled_from([0.0, 0.5, 3.0, 20.0]),
    num_steps=st.integers(1, 12),
    end_step=st.integers(1, 40),
    halts_s=st.lists(HALF_STEPS, min_size=1, max_size=5).map(sorted),
)
def test_any_jumps_get_a_job_as_far_as_a_walk(
    time_s: float, num_steps: int, end_step: int, halts_s: list[float]
) -> None:
    ends, place, passed, now_s = EpochEnds(time_s, num_steps), TrainedSteps(0.0, 0.0), 0, 0.0
    for at_s in halts_s:
        place = ends.advance(place, at_s - now_s, RATE, end_step)
        now_s, passed = at_s, passed + place.num_passed
        assert TrainedSteps(place.steps, place.left_s, passed) == walked(ends, at_s, end_step)
        end_s = now_s + ends.until_end_s(place, end_step, RATE)
        if place.steps < end_step or place.left_s:
            assert end_s == pytest.approx(end_step / RATE + ends.total_s(end_step))
        for steps in range(math.ceil(place.steps), end_step + 1):
            reached = ends.advance(place, ends.until_s(place, steps, RATE), RATE, end_step)
            assert reached.steps == pytest.approx(steps)


def waiting(name: str, ends: EpochEnds, steps: int = 100, **fields: Any) -> SimJob:
    """A job that is tried out, and found to be so if that takes no longer than a trial run waits."""
    between = BetweenSteps(time_s=ends.time_s, num_steps=ends.num_steps)
    return tried(job(name, steps=steps, epoch_ends=ends, **fields), between)


def tried(made: SimJob, between: BetweenSteps | None) -> SimJob:
    """The job, of which its trial run shows this."""
    return replace(made, profile=msgspec.structs.replace(made.profile, between=between))


def only(outcome: SimOutcome) -> JobOutcome:
    [one] = outcome.jobs
    return one


@pytest.mark.parametrize(("steps", "num_ends"), [(100, 10), (95, 9), (9, 0), (10, 1)])
def test_a_job_takes_its_steps_and_what_follows_its_epochs(steps: int, num_ends: int) -> None:
    alone = only(run([waiting("a", EpochEnds(4.0, 10), steps)], policy="equal_share"))
    assert alone.end_s == pytest.approx(steps / RATES[4] + num_ends * 4.0)


def test_a_pause_in_between_is_on_top() -> None:
    """Launched with a pause of 3 s on four workers."""
    one = only(run([waiting("a", EpochEnds(4.0, 10))], policy="equal_share", cost="3"))
    assert one.end_s == pytest.approx(3.0 + 100 / RATES[4] + 40.0)


@pytest.mark.parametrize("report_s", [math.inf, 7.0])
def test_a_head_that_was_told_by_the_trial_knows_the_end_all_along(report_s: float) -> None:
    ends = EpochEnds(4.0, 10)
    told: list[float] = []

    def listen(core: PlatformCore) -> None:
        told.extend(view.estimated_finish_s or 0.0 for view in core.views() if view.started_s is not None)

    outcome = run(
        [waiting("a", ends)], policy="equal_share", timings=GangTimings(report_s=report_s), listen=listen
    )
    assert told and told == pytest.approx([only(outcome).end_s] * len(told), rel=1e-3)


def test_a_head_that_was_told_nothing_learns_it_from_reports() -> None:
    """Its first reports are of half an epoch; from the second epoch on it knows."""
    plain = tried(waiting("a", EpochEnds(30.0, 30), steps=300), None)
    told: list[tuple[float, float]] = []

    def listen(core: PlatformCore) -> None:
        told.extend((core.now_s, view.estimated_finish_s or 0.0) for view in core.views())

    outcome = run([plain], policy="equal_share", timings=GangTimings(report_s=5.0), listen=listen)
    end_s = only(outcome).end_s
    assert end_s == pytest.approx(100.0 + 300.0)
    late = [finish_s for at_s, finish_s in told if at_s > 60.0]
    assert late and late == pytest.approx([end_s] * len(late), rel=0.02)


@pytest.mark.parametrize("report_s", [math.inf, 7.0])
def test_resizes_leave_the_head_as_sure_of_the_end(report_s: float) -> None:
    """Others come and go, with pauses; after the last change the end is where the head says."""
    ends = EpochEnds(4.0, 10)
    others = [
        waiting(name, ends, 60, submit_s=at_s) for name, at_s in (("b", 30.0), ("c", 35.0), ("d", 90.0))
    ]
    told: dict[str, list[float]] = {"a": []}

    def listen(core: PlatformCore) -> None:
        views = [view for view in core.views() if not view.phase.is_end]
        told["a"] = [view.estimated_finish_s or 0.0 for view in views if view.id == "a"] or told["a"]

    timings = GangTimings(report_s=report_s)
    outcome = run([waiting("a", ends, 600), *others], "equal_share", cost="1", timings=timings, listen=listen)
    end_s = {one.id: one.end_s or 0.0 for one in outcome.jobs}
    assert end_s["a"] > max(end_s[one.id] for one in others) + 50.0
    assert told["a"] == pytest.approx([end_s["a"]], abs=5.0)


def test_a_promise_counts_what_follows_epochs() -> None:
    """Of 33 s of steps and 40 s between: 60 s are refused, and what is offered is kept."""
    ends = EpochEnds(4.0, 10)
    refused = only(run([waiting("a", ends, deadline_s=60.0)]))
    assert refused.counter_offer_s is not None and refused.counter_offer_s >= 100 / RATES[4] + 40.0
    kept = only(run([waiting("a", ends, deadline_s=refused.counter_offer_s)]))
    assert kept.is_kept


def test_the_bound_knows_that_no_worker_makes_it_shorter() -> None:
    ends = EpochEnds(4.0, 10)
    needed_s = 100 / RATES[4] + 40.0
    assert most_deadlines([waiting("a", ends, deadline_s=needed_s + 1.0)], 8) == 1
    assert most_deadlines([waiting("a", ends, deadline_s=needed_s - 1.0)], 8) == 0


@given(
    begun=st.floats(0.0, 299.9),
    rate_per_s=st.floats(1e-3, 10.0),
    parts=st.lists(st.floats(0.0, 1.0), max_size=4).map(sorted),
)
def test_an_epoch_that_is_looked_at_just_as_it_ends_is_followed_by_what_follows_it(
    begun: float, rate_per_s: float, parts: list[float]
) -> None:
    """However the last step is rounded: here time goes on in pieces, of which one ends with the epoch."""
    ends, place, now_s = EpochEnds(7.0, 300), TrainedSteps(begun, 0.0), 0.0
    end_s = ends.until_s(place, 300.0, rate_per_s)
    for at_s in [*(part * end_s for part in parts), end_s, end_s + 8.0]:
        place = ends.advance(place, at_s - now_s, rate_per_s, 3000)
        now_s = at_s
    assert place.steps == pytest.approx(300.0 + rate_per_s, abs=1e-6)
