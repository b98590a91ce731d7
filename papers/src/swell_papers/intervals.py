"""Means over seeds, with how far they may be off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import t

#: Of an interval.
CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A mean, and half of its 95 % confidence interval (Student's t); 0 for a single value."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Return the mean of at least one value, and how far it may be off."""
        mean, num = float(np.mean(values)), len(values)
        if num < 2:
            return cls(mean, 0.0)
        factor = float(t.ppf(0.5 + CONFIDENCE / 2.0, num - 1))
        return cls(mean, factor * float(np.std(values, ddof=1)) / num**0.5)
