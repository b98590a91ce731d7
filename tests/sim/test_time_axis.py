from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swell.sim.time_axis import LONG, MOST_SHARE, shown_until


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
