"""Orders of service. Ties end with the job's id, so that the order of rows never matters."""

from __future__ import annotations

from collections.abc import Sequence

from swell.arrays import FloatArray, IntArray
from swell.model.snapshot import Snapshot


def by_arrival(snapshot: Snapshot, rows: Sequence[int] | IntArray) -> IntArray:
    """`rows`, the first submitted first."""
    return snapshot.in_order(rows)


def by_deadline(snapshot: Snapshot, rows: Sequence[int] | IntArray) -> IntArray:
    """`rows`, the earliest deadline first, ties by arrival."""
    return snapshot.by_deadline(rows)


def by_key(snapshot: Snapshot, rows: Sequence[int] | IntArray, key: FloatArray) -> IntArray:
    """`rows`, the lowest key (J,) first, ties by arrival."""
    return snapshot.in_order(rows, key)
