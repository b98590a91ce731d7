"""Equal parts, and serving by when they would end."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swell.solvers.queueing import fair_ends, urgent

WORK = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=8).map(np.array)


@given(left=WORK)
def test_in_the_order_of_fair_ends_nobody_is_later_than_that(left: np.ndarray) -> None:
    """Friedman and Henderson 2003; so none is urgent as long as the margin is 0."""
    ends = fair_ends(left)
    order = np.argsort(ends, kind="stable")
    assert (np.cumsum(left[order]) <= ends[order] + 1e-9).all()
    assert not len(urgent(left, ends + 1e-6, np.ones(len(left)), 0.0, 0.0))
