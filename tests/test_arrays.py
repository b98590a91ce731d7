"""Functions of columns."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from swell.arrays import each


@given(st.lists(st.floats(1e-9, 1e9), min_size=6, max_size=6))
def test_each_value_is_that_of_the_function_itself(values: list[float]) -> None:
    found = each(math.log, np.array(values).reshape(2, 3))
    assert found.shape == (2, 3) and found.dtype == np.float64
    assert found.ravel().tolist() == [math.log(value) for value in values]


def test_nothing_comes_of_nothing() -> None:
    assert each(math.exp, np.zeros(0, dtype=np.int64)).shape == (0,)
