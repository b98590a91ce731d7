"""Algorithm 2 against every way to hand out devices."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swell.solvers.marginal import boost


@st.composite
def concave_rates(draw: st.DrawFn, num_levels: int) -> list[float]:
    steps = sorted(draw(st.lists(st.integers(1, 20), min_size=num_levels, max_size=num_levels)), reverse=True)
    rates: list[float] = np.cumsum(steps).astype(float).tolist()
    return rates


@st.composite
def takers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    num_takers = draw(st.integers(1, 4))
    rates = np.array([draw(concave_rates(4)) for _ in range(num_takers)])
    return rates, np.array([draw(st.integers(1, 20)) / 10 for _ in range(num_takers)])


def boosted(
    rates: np.ndarray,
    price: np.ndarray,
    left: int,
    level: np.ndarray | None = None,
    devices: np.ndarray | None = None,
    held: np.ndarray | None = None,
    rank: np.ndarray | None = None,
) -> tuple[np.ndarray, int]:
    num_takers, num_levels = rates.shape
    return boost(
        level=np.zeros(num_takers, dtype=np.int64) if level is None else level,
        devices=np.tile(np.arange(1, num_levels + 1), (num_takers, 1)) if devices is None else devices,
        worth=np.insert(rates * price[:, None], 0, 0.0, axis=1),
        num_levels=np.full(num_takers, num_levels),
        held=np.zeros(num_takers, dtype=np.int64) if held is None else held,
        rank=np.arange(num_takers) if rank is None else rank,
        left=left,
    )


@given(tasks=takers(), left=st.integers(0, 10))
def test_with_unit_steps_and_concave_curves_the_greedy_answer_is_optimal(
    tasks: tuple[np.ndarray, np.ndarray], left: int
) -> None:
    rates, price = tasks
    num_takers, num_levels = rates.shape
    level, unused = boosted(rates, price, left)

    def saving(levels: tuple[int, ...]) -> float:
        """Device-seconds saved later minus those spent now, a second: formula (4) in closed form."""
        worth = [rates[row, at - 1] * price[row] if at else 0.0 for row, at in enumerate(levels)]
        return sum(worth) - sum(levels)

    handed_out = min(left, num_takers * num_levels)
    assert (level.sum(), unused) == (handed_out, left - handed_out)
    ways = (way for way in product(range(num_levels + 1), repeat=num_takers) if sum(way) == handed_out)
    best = max(saving(way) for way in ways)
    assert saving(tuple(level.tolist())) >= best - 1e-6
