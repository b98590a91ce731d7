"""The exact knapsack, against all there is."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swell.solvers.knapsack import least_cost


@st.composite
def offers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Up to five takers of up to three levels whose sizes and costs follow no rule."""
    num, most = draw(st.integers(0, 5)), 3
    devices, cost, num_levels = np.ones((num, most), dtype=np.int64), np.zeros((num, most + 1)), []
    for row in range(num):
        sizes = sorted(draw(st.sets(st.integers(1, 9), max_size=most)))
        num_levels.append(len(sizes))
        devices[row, : len(sizes)] = sizes
        cost[row] = draw(st.lists(st.integers(-20, 20), min_size=most + 1, max_size=most + 1))
    return devices, cost, np.array(num_levels, dtype=np.int64), draw(st.integers(0, 16))


@given(offers())
def test_no_other_answer_costs_less(offer: tuple[np.ndarray, np.ndarray, np.ndarray, int]) -> None:
    devices, cost, num_levels, num_devices = offer
    rows = range(len(devices))

    def taken(levels: tuple[int, ...]) -> int:
        return sum(int(devices[row, level - 1]) for row, level in zip(rows, levels, strict=True) if level)

    def total(levels: tuple[int, ...]) -> float:
        return sum(float(cost[row, level]) for row, level in zip(rows, levels, strict=True))

    found = tuple(least_cost(devices, cost, num_levels, num_devices).tolist())
    choices = product(*(range(int(num) + 1) for num in num_levels))
    assert taken(found) <= num_devices
    assert total(found) == min(total(levels) for levels in choices if taken(levels) <= num_devices)


def test_a_hundred_takers_and_a_thousand_devices_are_one_sum() -> None:
    """Equal takers of a convex cost share equally."""
    sizes = np.tile(np.arange(1, 17, dtype=np.int64), (100, 1))
    cost = np.tile(np.concatenate([[100.0], 16.0 / np.arange(1, 17)]), (100, 1))
    level = least_cost(sizes, cost, np.full(100, 16), 1000)
    assert level.tolist() == [10] * 100
