"""Quantiles of numbers that come one by one: exact for a million of them, in bins of 0.1 % beyond."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np

QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
NUM_EXACT = 1_000_000
#: Width of a bin in log(value).
BIN = 1e-3


class Quantiles:
    """Quantiles of the numbers added so far; those that are not positive count as one smallest."""

    def __init__(self) -> None:
        self._exact = array("d")
        self._bins: Counter[int | None] = Counter()
        self._num = 0
        self._largest = -math.inf

    def add(self, value: float) -> None:
        self._num += 1
        self._largest = max(self._largest, value)
        self._exact.append(value)
        if len(self._exact) == NUM_EXACT:
            self._bins.update(_bins(self._exact))
            self._exact = array("d")

    def found(self) -> dict[str, float]:
        """Return the quantiles by name, and the exact largest number as `max`; empty if nothing was added."""
        if not self._num:
            return {}
        values, counts = self._sorted()
        ranks = np.cumsum(counts)
        return {
            name: float(values[np.searchsorted(ranks, round(share * (self._num - 1)), side="right")])
            for name, share in QUANTILES.items()
        } | {"max": self._largest}

    def _sorted(self) -> tuple[list[float], list[int]]:
        if not self._bins:
            return sorted(self._exact), [1] * len(self._exact)
        bins = self._bins + Counter(_bins(self._exact))
        low = bins.pop(None, 0)
        keys = sorted(key for key in bins if key is not None)
        return [0.0, *(math.exp(key * BIN) for key in keys)], [low, *(bins[key] for key in keys)]


def _bins(values: Iterable[float]) -> Iterable[int | None]:
    return (round(math.log(value) / BIN) if value > 0 else None for value in values)
