"""What the head believes of a job that evaluates at the end of each epoch."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import profile, spec
from tests.core.records import steady

from swell.core.apply import apply
from swell.core.gang import NO_GANG
from swell.core.state import HeadState
from swell.model.event import GangStarted, GangSuspended, JobProfiled, JobSubmitted, StepsReported
from swell.model.options import Domain
from swell.model.target import Target
from swell.script_facts import BetweenSteps
from swell.throughput.belief import FittedBelief

STEP_S = 0.1


class Head:
    """One job `a`, that trains with one worker from 0 s on, as far as its head is told."""

    def __init__(self, total_steps: int, between: BetweenSteps | None, last_s: float = 0.0) -> None:
        self.state = HeadState(belief=FittedBelief(), domain=Domain())
        measured = msgspec.structs.replace(profile(), between=between, end_s=last_s)
        apply(self.state, JobSubmitted(at_s=0.0, job_id="a", spec=spec(total_steps)))
        apply(self.state, JobProfiled(at_s=0.0, job_id="a", profile=measured))
        self.record = self.state.records["a"]
        self.record.gang = steady("n0.0")
        self.record.generation = 1
        self.state.set_rate(self.record, 1)

    def hear(self, at_s: float, steps: int, between: BetweenSteps | None = None) -> None:
        apply(self.state, self.report(at_s, steps, between))

    def report(self, at_s: float, steps: int, between: BetweenSteps | None = None) -> StepsReported:
        return StepsReported(
            at_s=at_s,
            job_id="a",
            generation=1,
            steps=steps,
            num_workers=1,
            step_s=STEP_S,
            between=between,
        )

    @property
    def finish_s(self) -> float:
        """When the job ends by what plans count."""
        progress = self.record.progress
        left = (progress.total_steps or 0.0) - progress.counted_steps
        return progress.as_of_s + left / progress.rate_per_s


def ended_s(steps: int, per_epoch: int, time_s: float) -> float:
    """When a step ends: an evaluation follows each epoch."""
    return STEP_S * steps + time_s * ((steps - 1) // per_epoch)


@given(
    per_epoch=st.integers(1, 30),
    num_epochs=st.integers(1, 4),
    time_s=st.floats(0.0, 20.0),
    is_tried=st.booleans(),
    last_s=st.floats(0.0, 5.0),
)
def test_the_expected_end_is_the_end_after_each_step_of_each_epoch(
    per_epoch: int, num_epochs: int, time_s: float, is_tried: bool, last_s: float
) -> None:
    """From the start if the trial run has shown it, else from the end of the first epoch on."""
    once = BetweenSteps(time_s=time_s, num_steps=per_epoch)
    total = per_epoch * num_epochs
    head = Head(total, once if is_tried else None, last_s)
    end_s = total * STEP_S + num_epochs * time_s + last_s
    if is_tried:
        assert head.finish_s == pytest.approx(end_s)
    for steps in range(1, total + 1):
        is_after_one = steps % per_epoch == 1 % per_epoch and steps > 1
        head.hear(ended_s(steps, per_epoch, time_s), steps, once if is_after_one else None)
        if is_tried or steps > per_epoch:
            assert head.finish_s == pytest.approx(end_s, rel=1e-3)
        else:  # no evaluation has been seen
            assert head.finish_s == pytest.approx(total * STEP_S + last_s, rel=1e-3)


@pytest.mark.parametrize(("steps", "num_to_come"), [(15, 3), (0, 4)])
def test_a_start_counts_the_epoch_ends_that_are_still_to_come(steps: int, num_to_come: int) -> None:
    head = Head(40, BetweenSteps(time_s=5.0, num_steps=10))
    head.record.gang = NO_GANG.launch(Target(devices=("n0.0",)))
    apply(head.state, GangStarted(at_s=7.0, job_id="a", generation=1, steps=steps, pids=(1,)))
    assert head.finish_s == pytest.approx(7.0 + (40 - steps) * STEP_S + num_to_come * 5.0)


def test_a_job_that_waits_for_devices_has_the_end_of_its_epoch_still_to_come() -> None:
    """At the rate of its last gang: 8 of 10 steps, and 4 s of the 5 that follow the tenth."""
    head = Head(40, BetweenSteps(time_s=5.0, num_steps=10))
    head.hear(0.8, 8)
    running = head.record.progress.counted_steps
    apply(head.state, GangSuspended(at_s=0.8, job_id="a", generation=1, steps=8))
    assert head.record.progress.rate_per_s == 0.0
    assert head.record.progress.counted_steps == pytest.approx(running) == pytest.approx(8 / 6)
