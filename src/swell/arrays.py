"""Columns of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Column = TypeVar("Column", bound=npt.NDArray[Any])


def each(function: Callable[[float], float], values: npt.NDArray[Any]) -> FloatArray:
    """`function` of each value, for functions of `math`: exponentials, logarithms.

    NumPy's own differ in the last bit from one kind of processor to another. A head decides the same from the
    same journal on any machine, and a simulation ends the same.
    """
    found = [function(value) for value in values.ravel().tolist()]
    return np.array(found, dtype=np.float64).reshape(values.shape)


def read_only(array: Column) -> Column:
    """The very array, of which no other view is kept."""
    array.setflags(write=False)
    return array
