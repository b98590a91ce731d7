"""Ids that a trace has had, in few bytes each: those of a hundred million jobs would fill a machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: So many newest ids are in a set; older ones are in sorted arrays of 8 bytes an id.
NUM_NEWEST = 1 << 18


class SeenIds:
    """Answers whether an id was there before, by its hash of 64 bits.

    Two of n ids that differ are taken for one with probability n^2 / 2^65: 1e-9 for 200,000 jobs.
    Arrays are merged when one is not half as long as the one before: there are at most log2(n) of them.
    """

    def __init__(self) -> None:
        self._newest: set[int] = set()
        self._older: list[npt.NDArray[np.int64]] = []

    def add(self, job_id: str) -> bool:
        """False if it was there already."""
        key = hash(job_id)
        if key in self._newest or any(_is_in(key, keys) for keys in self._older):
            return False
        self._newest.add(key)
        if len(self._newest) == NUM_NEWEST:
            self._put_away()
        return True

    def _put_away(self) -> None:
        keys = np.fromiter(self._newest, dtype=np.int64, count=len(self._newest))
        self._newest = set()
        while self._older and len(self._older[-1]) < 2 * len(keys):
            keys = np.concatenate((self._older.pop(), keys))
        keys.sort()
        self._older.append(keys)


def _is_in(key: int, keys: npt.NDArray[np.int64]) -> bool:
    at = int(np.searchsorted(keys, key))
    return at < len(keys) and int(keys[at]) == key
