"""The exact knapsack, against all answers, against the plain dynamic program and against HiGHS."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.solvers.plain_knapsack import Knapsack, plain_value

from swell.arrays import FloatArray, IntArray
from swell.solvers.knapsack import NO_OPTION, Best, best_options
from swell_papers.policies.pollux import least_cost

KINDS = ("concave", "rising", "any", "ties", "powers", "holes")


def random_knapsack(seed: int, num: int | None = None, most: int = 12, load: float | None = None) -> Knapsack:
    """Curves of one kind or of all, with holes and musts, in pools from empty to enough."""
    draw = np.random.default_rng(seed)
    num = int(draw.integers(0, 12)) if num is None else num
    kind = KINDS[seed % len(KINDS)]
    sizes, values = [], []
    for _ in range(num):
        some = np.arange(1, int(draw.integers(1, most + 1)) + 1)
        if kind == "powers":
            some = 2 ** np.arange(int(draw.integers(1, 5)))
        elif kind in ("holes", "any"):
            some = np.sort(draw.choice(np.arange(1, 2 * most), len(some), replace=False))
        sizes.append(some)
        values.append(_curve(draw, kind, some))
    is_must = draw.random(num) < draw.choice([0.0, 0.3, 1.0])
    nothing = np.where(is_must, -np.inf, 0.0 if draw.random() < 0.7 else draw.normal(size=num))
    counts = [len(some) for some in sizes]
    wanted = sum(int(some.max()) for some in sizes)
    num_devices = int(wanted * (draw.uniform(0.0, 1.1) if load is None else load))
    return Knapsack(
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        devices=np.concatenate([*sizes, np.empty(0)]).astype(np.int64),
        value=np.concatenate([*values, np.empty(0)]),
        nothing=nothing,
        num_devices=num_devices,
    )


def _curve(draw: np.random.Generator, kind: str, sizes: IntArray) -> FloatArray:
    if kind in ("concave", "powers"):
        return np.power(sizes, draw.uniform(0.3, 1.0)) * float(draw.uniform(0.5, 2.0))
    if kind == "rising":
        return np.cumsum(draw.exponential(size=len(sizes)))
    if kind == "ties":
        return np.minimum(sizes, draw.integers(1, 8)).astype(float)
    if kind == "holes":
        return np.where(draw.random(len(sizes)) < 0.3, -np.inf, np.cumsum(draw.exponential(size=len(sizes))))
    return draw.normal(size=len(sizes)) * 3.0


def solve(knapsack: Knapsack) -> Best:
    """The answer; what it says of itself is true."""
    best = best_options(*knapsack.arguments)
    if not best.is_possible:
        assert (best.option == NO_OPTION).all()
        return best
    rows = np.arange(len(best.option))
    is_chosen = best.option != NO_OPTION
    chosen = best.option[is_chosen]
    assert (knapsack.starts[rows[is_chosen]] <= chosen).all()
    assert (chosen < knapsack.starts[rows[is_chosen] + 1]).all()
    assert knapsack.devices_of(best.option) <= knapsack.num_devices
    assert knapsack.value_of(best.option) == pytest.approx(best.value, rel=1e-9, abs=1e-9)
    return best


@pytest.mark.slow
@given(st.integers(0, 2**32))
@settings(max_examples=fewer_if_quick(600))
def test_equals_the_plain_dynamic_program(seed: int) -> None:
    knapsack = random_knapsack(seed)
    assert solve(knapsack).value == pytest.approx(plain_value(knapsack), rel=1e-9, abs=1e-9)


@st.composite
def offers(draw: st.DrawFn) -> tuple[IntArray, FloatArray, IntArray, int]:
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
def test_no_other_levels_cost_less(offer: tuple[IntArray, FloatArray, IntArray, int]) -> None:
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
