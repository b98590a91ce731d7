"""Numbers that are none, as JSON can hold them: it has no NaN and no infinity."""

from __future__ import annotations

import math
from typing import Literal

Number = float | Literal["nan", "inf", "-inf"]


def spelled(value: float) -> Number:
    """A number, or the word for one that is none."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def value_of(number: Number) -> float:
    return float(number)
