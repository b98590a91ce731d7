"""Equal parts, and serving by when they would end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.solvers.fair_clock import fair_ends, served_equally, urgent

WORK = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=8).map(np.array)


@given(left=WORK, work=st.floats(0.0, 900.0))
def test_all_work_is_done_and_nobody_gets_less_who_has_more_left(left: np.ndarray, work: float) -> None:
    served = served_equally(left, work)
    assert served.sum() == pytest.approx(min(work, left.sum()))
    assert (served <= left).all()
    unfinished = served < left - 1e-9
    assert np.ptp(served[unfinished]) < 1e-9 if unfinished.any() else True


@given(left=WORK)
def test_in_the_order_of_fair_ends_nobody_is_later_than_that(left: np.ndarray) -> None:
    """Friedman and Henderson 2003; so none is urgent as long as the margin is 0."""
    ends = fair_ends(left)
    order = np.argsort(ends, kind="stable")
    assert (np.cumsum(left[order]) <= ends[order] + 1e-9).all()
    assert not len(urgent(left, ends + 1e-6, np.ones(len(left)), 0.0, 0.0))


def test_whoever_is_due_first_is_urgent_and_all_before_a_short_one() -> None:
    left, one = np.array([5.0, 3.0, 10.0]), np.ones(3)
    until = np.array([9.0, 4.0, 100.0])
    assert urgent(left, until, one, 0.0, 0.5).tolist() == []
    assert urgent(left, until, one, 0.0, 1.0).tolist() == [1, 0]
    assert urgent(left, np.array([20.0, 4.0, 100.0]), one, 0.0, 1.0).tolist() == [1]
