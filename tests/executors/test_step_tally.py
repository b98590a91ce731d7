"""How far a script is that knows nothing of Swell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.executors.gang.gang_record import StepTally
from swell.wire.messages import Stepped

counts = st.integers(1, 1000)
step_times = st.floats(0.001, 10)


def stepped(steps: int, own_steps: int | None, step_s: float | None = None) -> Stepped:
    return Stepped(num_workers=2, steps=steps, own_steps=own_steps, step_s=step_s)


@given(st.lists(st.tuples(counts, counts), min_size=1))
def test_an_optimizer_that_counts_is_believed(starts: list[tuple[int, int]]) -> None:
    tally = StepTally()
    for found, made in starts:
        tally.restart()
        tally.note(stepped(1, found + 1), 0.0)
        assert tally.steps == found + 1
        tally.note(stepped(made, found + made), 0.0)
        assert tally.steps == found + made


@given(st.lists(counts, min_size=1))
def test_of_one_that_does_not_all_steps_count(starts: list[int]) -> None:
    tally = StepTally()
    for made in starts:
        tally.restart()
        tally.note(stepped(1, None), 0.0)
        tally.note(stepped(made, None), 0.0)
    assert tally.steps == sum(starts)


@given(before=counts, again=counts, step_s=step_times, gap_s=step_times)
def test_a_change_costs_the_gap_and_the_steps_that_are_done_again(
    before: int, again: int, step_s: float, gap_s: float
) -> None:
    found = max(1, before - again)
    tally = StepTally()
    assert tally.note(stepped(before, before, step_s), 100.0) == (None, "")
    tally.restart()
    pause_s, warning = tally.note(stepped(1, found + 1), 100.0 + step_s + gap_s)
    assert pause_s == pytest.approx(gap_s + (before - found) * step_s)
    assert not warning
    assert tally.note(stepped(2, found + 2), 200.0) == (None, "")
