"""Tasks that are served in a fixed order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.compiled import compiled
from swell.solvers.turns import _run, ends_in_order

DEVICES = np.array([[1, 2, 4], [1, 2, 4], [2, 4, 8]])
RATES = np.array([[1.0, 2.0, 4.0], [1.0, 1.5, 2.0], [1.0, 2.0, 3.0]])
NUM = np.array([3, 3, 3])


def ends(work: list[float], rows: list[int], num_devices: int) -> list[float]:
    at_rows = np.array(rows, dtype=np.int64)
    ends_s: list[float] = ends_in_order(DEVICES, RATES, NUM, np.array(work), at_rows, num_devices).tolist()
    return ends_s


def test_the_first_takes_all_that_helps_and_the_next_what_is_left() -> None:
    # Row 0 has 4 of 6 for 10 s; row 1 does 15 on the other 2 in that time, and the last 10 on 4.
    assert ends([40.0, 25.0, 0.0], [0, 1], 6) == [10.0, 15.0]
    assert ends([40.0, 25.0, 0.0], [1, 0], 6) == [12.5, 16.25]


def test_what_fits_nowhere_never_ends_and_delays_nobody() -> None:
    assert ends([4.0, 0.0, 5.0], [2, 0], 1) == [np.inf, 4.0]
    assert ends([4.0, 0.0, 5.0], [], 1) == []


@st.composite
def tasks(draw: st.DrawFn) -> tuple[np.ndarray, list[int], int]:
    work = np.array(draw(st.lists(st.integers(1, 50), min_size=3, max_size=3)), dtype=float)
    return work, list(draw(st.permutations(range(3)))), draw(st.integers(1, 9))


@given(case=tasks())
def test_nobody_is_delayed_by_those_behind(case: tuple[np.ndarray, list[int], int]) -> None:
    work, rows, num_devices = case
    for num in range(1, 4):
        assert ends(work.tolist(), rows, num_devices)[:num] == pytest.approx(
            ends(work.tolist(), rows[:num], num_devices)
        )


@given(case=tasks())
def test_compiled_or_not_it_is_the_same(case: tuple[np.ndarray, list[int], int]) -> None:
    work, rows, num_devices = case
    result = np.full(3, np.inf)
    compiled(_run)(DEVICES, RATES, NUM, work[rows], np.array(rows), num_devices, result)
    assert result.tolist() == ends(work.tolist(), rows, num_devices)
