"""What a script measures while it makes no step: the job's listing has it, and its speed is not touched."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import profile, spec
from tests.core.records import steady

from swell.core.apply import apply
from swell.core.replan import Need, Replan
from swell.core.state import HeadState
from swell.model.event import JobProfiled, JobSubmitted, StepsReported
from swell.model.options import Domain
from swell.throughput.belief import FittedBelief

STEP_S = 0.1
NUM_STEPS = 10


def steps_at(number: int) -> StepsReported:
    """A report each second, of `NUM_STEPS` steps."""
    return StepsReported(
        at_s=float(number), job_id="a", generation=1, steps=NUM_STEPS * number, num_workers=1, step_s=STEP_S
    )


def measured_at(at_s: float, accuracy: float) -> StepsReported:
    return StepsReported(
        at_s=at_s,
        job_id="a",
        generation=1,
        steps=NUM_STEPS * int(at_s),
        num_workers=0,
        metrics={"accuracy": accuracy},
    )


def state_of(metric: str) -> HeadState:
    state = HeadState(belief=FittedBelief(), domain=Domain())
    job = msgspec.structs.replace(spec(1000), metric=metric)
    apply(state, JobSubmitted(at_s=0.0, job_id="a", spec=job))
    apply(state, JobProfiled(at_s=0.0, job_id="a", profile=profile()))
    state.records["a"].gang = steady("n0.0")
    state.records["a"].generation = 1
    state.set_rate(state.records["a"], 1)
    return state


@given(
    st.lists(st.tuples(st.floats(1.0, 8.99), st.floats(0.0, 1.0)), max_size=10, unique_by=lambda at: at[0])
)
def test_progress_and_speed_are_as_if_nothing_had_been_measured(values: list[tuple[float, float]]) -> None:
    state, plain = state_of("accuracy"), state_of("accuracy")
    events = sorted(
        [steps_at(number) for number in range(1, 9)] + [measured_at(*value) for value in values],
        key=lambda event: event.at_s,
    )
    for event in events:
        replan = Replan(state, least_s=0.0)
        replan.hear(event)
        apply(state, event)
        replan.compare()
        if event.brings_steps:
            apply(plain, event)
        else:
            assert replan.need() is Need.NOTHING
    record = state.records["a"]
    assert record.progress == plain.records["a"].progress
    assert state.rate_per_s(record, 1) == plain.rate_per_s(plain.records["a"], 1)
    at_s, accuracy = max(values, default=(None, None))
    assert (record.usage.value_s, record.usage.value) == (at_s, accuracy)
    assert record.status.metrics == ({} if accuracy is None else {"accuracy": accuracy})
