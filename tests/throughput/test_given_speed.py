"""The speed that a job's owner states."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.throughput.test_belief import LONG, profile, spec

from swell.throughput.belief import FittedBelief

MEASURED = profile({64: 1.0, 32: 0.5}, {2: 0.1})


def belief_with(speed: dict[int, float], batch: int = 64) -> FittedBelief:
    belief = FittedBelief()
    told = msgspec.structs.replace(MEASURED, max_local_batch=7, crossing_s={2: {2: 5.0}})
    belief.learn_profile("j", msgspec.structs.replace(spec(batch), speed=speed), told)
    return belief


@given(
    speed=st.dictionaries(st.integers(1, 48), st.floats(0.1, 1e4), min_size=1, max_size=6),
    batch=st.integers(48, 4096),
)
def test_a_stated_size_is_as_fast_as_it_is_stated(speed: dict[int, float], batch: int) -> None:
    """Whatever its trial run measured, and whether or not larger sizes are faster."""
    sizes = np.array(sorted(speed), dtype=np.int64)
    rates = belief_with(speed, batch).of("j").rates_per_s(sizes)
    assert rates * batch == pytest.approx([speed[size] for size in sizes.tolist()], rel=1e-9)


@given(speed=st.dictionaries(st.integers(1, 48), st.floats(0.1, 1e4), min_size=1, max_size=6))
def test_other_sizes_have_a_speed_too(speed: dict[int, float]) -> None:
    rates = belief_with(speed).of("j").rates_per_s(np.arange(1, 65))
    assert np.isfinite(rates).all() and (rates > 0.0).all()


def test_a_measurement_takes_the_place_of_what_was_stated() -> None:
    belief = belief_with({1: 100.0, 2: 190.0})
    for _ in range(3):
        belief.learn_rate("j", 2, 0.5, LONG)
    one, two = belief.of("j").rates_per_s(np.array([1, 2])).tolist()
    assert two == pytest.approx(2.0) and one != two
