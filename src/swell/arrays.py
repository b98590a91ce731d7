"""Columns of numbers."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Column = TypeVar("Column", bound=npt.NDArray[Any])


def read_only(array: Column) -> Column:
    """The very array, of which no other view is kept."""
    array.setflags(write=False)
    return array
