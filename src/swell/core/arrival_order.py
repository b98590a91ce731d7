"""Rows by priority and in the order in which their jobs came, kept as jobs come and go."""

from __future__ import annotations

from bisect import bisect

import numpy as np

from swell.arrays import IntArray


class ArrivalOrder:
    """Rows 0..J-1, the highest priority first, then by submission, ties by id.

    `rows` is replaced and never changed.
    """

    def __init__(self) -> None:
        self.rows: IntArray = np.zeros(0, dtype=np.int64)
        self._keys: list[tuple[int, float, str]] = []  #: of each of `rows`

    def add(self, row: int, priority: int, submitted_s: float, job_id: str) -> None:
        """A job in a row that is not here."""
        key = (-priority, submitted_s, job_id)
        at = bisect(self._keys, key)
        self._keys.insert(at, key)
        self._replace(np.concatenate([self.rows[:at], [row], self.rows[at:]]))

    def remove(self, row: int, last: int) -> None:
        """The job in this row is gone; that of the last row takes its place."""
        at = int((self.rows == row).nonzero()[0][0])
        del self._keys[at]
        rows = np.concatenate([self.rows[:at], self.rows[at + 1 :]])
        rows[rows == last] = row
        self._replace(rows)

    def _replace(self, rows: IntArray) -> None:
        rows.setflags(write=False)
        self.rows = rows
