"""The interval between checkpoints that loses least time."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from swell.checkpoint_interval import DEFAULT_S, LEAST_S, MOST_S, best_interval_s, interval_s

SAVES = st.floats(0.0, 1e4)
MEANS = st.floats(1.0, 1e9)


def wasted_share(each_s: float, save_s: float, mean_s: float) -> float:
    """Time for each second of training, less that second, where losses are exponential and restarts free.

    Daly, 2006, Eq. 13: M (exp((t + d) / M) - 1) for each t of training.
    """
    return mean_s * math.expm1((each_s + save_s) / mean_s) / each_s - 1.0


@given(SAVES, MEANS)
def test_it_is_within_its_bounds(save_s: float, mean_s: float) -> None:
    assert LEAST_S <= best_interval_s(save_s, mean_s) <= MOST_S


@given(st.floats(0.01, 100.0), st.floats(1e3, 1e6))
def test_no_other_interval_wastes_much_less(save_s: float, mean_s: float) -> None:
    best_s = best_interval_s(save_s, mean_s)
    best = wasted_share(best_s, save_s, mean_s)
    others = (wasted_share(factor * best_s, save_s, mean_s) for factor in (0.25, 0.5, 0.8, 1.25, 2.0, 4.0))
    if LEAST_S < best_s < MOST_S:
        assert best <= 1.001 * min(others)


def test_one_that_was_asked_for_is_kept_unless_saves_would_take_more_than_a_tenth() -> None:
    assert interval_s(20.0, 100.0, 1.0) == 20.0
    assert interval_s(20.0, None, 5.0) == 50.0
    assert interval_s(None, None, None) == DEFAULT_S
    assert interval_s(None, 1e5, 0.5) == best_interval_s(0.5, 1e5)
