"""How far a script is that knows nothing of Swell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swell.executors.gang.gang_record import StepTally, _began_again
from swell.wire.messages import Stepped

counts = st.integers(1, 1000)


def stepped(steps: int, own_steps: int | None) -> Stepped:
    return Stepped(num_workers=2, steps=steps, own_steps=own_steps)


@given(st.integers(0, 1000), st.lists(st.tuples(st.integers(0, 1000), counts), min_size=1))
def test_one_that_counts_is_believed_and_tells_what_it_has_found(
    before: int, starts: list[tuple[int, int]]
) -> None:
    tally = StepTally(steps=before)
    for found, made in starts:
        seen = tally.steps
        tally.restart()
        assert tally.note_step(stepped(1, found + 1)) == (found, warning_of(seen, found))
        assert (tally.steps, tally.num_before) == (found + 1, seen)
        assert tally.note_step(stepped(made, found + made)) == (found, "")
        assert tally.steps == found + made


def warning_of(seen: int, found: int) -> str:
    return _began_again(seen) if seen and not found else ""


@given(st.integers(0, 1000), st.lists(counts, min_size=1))
def test_of_one_that_does_not_all_steps_count(before: int, starts: list[int]) -> None:
    tally = StepTally(steps=before)
    for made in starts:
        tally.restart()
        assert tally.note_step(stepped(1, None)) == (None, "")
        tally.note_step(stepped(made, None))
    assert tally.steps == before + sum(starts)
