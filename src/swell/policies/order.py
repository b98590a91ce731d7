"""Orders of service. Priority comes first, but after deadlines.

Ties end with the job's id, so that the order of rows never matters.
"""

from __future__ import annotations

from collections.abc import Sequence

from swell.arrays import FloatArray, IntArray
from swell.model.snapshot import Snapshot


def by_arrival(snapshot: Snapshot, rows: Sequence[int] | IntArray) -> IntArray:
    """`rows`, the highest priority first, then the first submitted."""
    return snapshot.in_order(rows)


def by_deadline(snapshot: Snapshot, rows: Sequence[int] | IntArray) -> IntArray:
    """`rows`, the earliest deadline first, ties by priority, then by arrival."""
    return snapshot.by_deadline(rows)


def by_key(snapshot: Snapshot, rows: Sequence[int] | IntArray, key: FloatArray | IntArray) -> IntArray:
    """`rows`, the highest priority first, then the lowest key (J,), ties by arrival."""
    if snapshot.priority.any():
        return snapshot.in_order(rows, -snapshot.priority, key)
    return snapshot.in_order(rows, key)
