"""How often a value was how large, in steps that are fixed beforehand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts of values that are at most as large as each bound, and larger than the one before."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """
        Args:
            bounds: ascending; there is one more step, for values above the last.
        """
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def copy(self) -> Histogram:
        """Return a copy of the present counts, which does not change any more."""
        same = Histogram(self.bounds)
        same.counts, same.total = list(self.counts), self.total
        return same
