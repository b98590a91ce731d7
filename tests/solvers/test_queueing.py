"""Laws of list scheduling."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swell.solvers.queueing import NEVER_S, list_schedule


def ends(num_free: int, running: list[tuple[float, int]], waiting: list[tuple[int, float]]) -> list[float]:
    """Pairs instead of columns."""
    end_s, held = columns(running, 0), columns(running, 1).astype(np.int64)
    wanted, lasts_s = columns(waiting, 0).astype(np.int64), columns(waiting, 1)
    found = list_schedule(num_free, end_s, held, wanted, lasts_s)
    ends_s: list[float] = found.tolist()
    return ends_s


def columns(pairs: Sequence[tuple[float, float]], place: int) -> np.ndarray:
    return np.array([float(pair[place]) for pair in pairs])


@given(
    num_free=st.integers(0, 5),
    running=st.lists(st.tuples(st.floats(0, 50), st.integers(1, 4)), max_size=4),
    waiting=st.lists(st.tuples(st.integers(1, 6), st.floats(0, 50)), max_size=6),
)
def test_starts_follow_the_order_and_capacity_is_kept(
    num_free: int, running: list[tuple[float, int]], waiting: list[tuple[int, float]]
) -> None:
    ends_s = ends(num_free, running, waiting)
    total = num_free + sum(devices for _, devices in running)
    placed = [
        (end_s - lasts_s, end_s, devices)
        for end_s, (devices, lasts_s) in zip(ends_s, waiting, strict=True)
        if devices <= total
    ]
    assert [end_s for end_s, (devices, _) in zip(ends_s, waiting, strict=True) if devices > total] == [
        NEVER_S
    ] * (len(waiting) - len(placed))
    starts_s = [start_s for start_s, _, _ in placed]
    assert all(later >= sooner - 1e-9 for sooner, later in pairwise(starts_s))
    busy = placed + [(0.0, end_s, devices) for end_s, devices in running]
    for at_s, _, _ in placed:
        now = at_s + 1e-6
        assert (
            sum(devices for start_s, end_s, devices in busy if start_s - 1e-9 <= now < end_s - 1e-6) <= total
        )
