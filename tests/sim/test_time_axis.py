from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swell.sim.time_axis import (
    LEAST_UNITS,
    LONG,
    MOST_SHARE,
    UNITS,
    linear_until,
    log_ticks,
    shown_until,
    spoken,
    unit_of,
)

LENGTHS = st.floats(1.0, 1e5)


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=60))
def test_few_ends_are_cut_off_and_only_late_ones(ends: list[float]) -> None:
    last = shown_until(ends)
    cut = [end for end in ends if end > last]
    assert len(cut) <= max(1, MOST_SHARE * len(ends))
    kept = [end for end in ends if end <= last]
    assert kept or len(ends) == 1
    assert all(end > LONG * max(kept) for end in cut)


def test_one_long_job_leaves_the_others_their_room() -> None:
    assert 100.0 <= shown_until([90.0, 100.0, 95.0, 400.0]) < 130.0
    assert shown_until([90.0, 100.0, 140.0]) == 140.0
    assert shown_until([]) == 0.0


@given(st.floats(0.0, 1e9))
def test_an_axis_has_few_units_of_the_largest_that_it_has_some_of(length_s: float) -> None:
    unit = unit_of(length_s)
    larger = UNITS[: UNITS.index(unit)]
    assert all(length_s < LEAST_UNITS * one.seconds for one in larger)
    assert unit is UNITS[-1] or length_s >= LEAST_UNITS * unit.seconds


@given(LENGTHS, st.floats(1.01, 18.0) | st.floats(18.0, 1000.0))
def test_a_logarithmic_axis_has_labels_wherever_it_is(least_s: float, factor: float) -> None:
    ticks = log_ticks(least_s, factor * least_s)
    assert ticks and all(least_s <= at_s <= factor * least_s for at_s in ticks)
    assert len(ticks) >= 2 or factor < 5.0


@given(LENGTHS)
def test_an_axis_with_0_is_linear_in_its_middle_only(most_s: float) -> None:
    assert 1.0 <= linear_until(most_s) <= max(1.0, most_s / 60)


def test_a_time_is_told_in_its_unit() -> None:
    assert [spoken(at_s) for at_s in (3.0, 300.0, 4.5 * 3600, 1e6)] == [
        "3 seconds",
        "5 minutes",
        "4.5 hours",
        "11.6 days",
    ]
