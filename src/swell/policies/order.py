"""Orders of service. Ties end with the job's id, so that the order of rows never matters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swell.model.snapshot import FloatArray, IntArray, Snapshot


def by_arrival(snapshot: Snapshot, rows: Sequence[int] | IntArray) -> IntArray:
    """`rows`, the first submitted first."""
    return by_key(snapshot, rows, snapshot.submitted_s)


def by_deadline(snapshot: Snapshot, rows: Sequence[int] | IntArray) -> IntArray:
    """`rows`, the earliest deadline first, ties by arrival."""
    return by_key(snapshot, rows, snapshot.deadline_s)


def by_key(snapshot: Snapshot, rows: Sequence[int] | IntArray, key: FloatArray) -> IntArray:
    """`rows`, the lowest key (J,) first, ties by arrival."""
    rows = np.asarray(rows, dtype=np.int64)
    ordered: IntArray = rows[np.lexsort((snapshot.submitted_s[rows], key[rows]))]
    keys, submitted_s = key[ordered], snapshot.submitted_s[ordered]
    is_tie = (keys[1:] == keys[:-1]) & (submitted_s[1:] == submitted_s[:-1])
    if is_tie.any():
        _break_ties(snapshot, ordered, is_tie)
    return ordered


def _break_ties(snapshot: Snapshot, ordered: IntArray, is_tie: np.ndarray) -> None:
    """Sort each run of rows that are equal so far by id, in place."""
    edges = np.flatnonzero(np.diff(is_tie.astype(np.int8), prepend=0, append=0))
    for first, last in edges.reshape(-1, 2).tolist():
        run = slice(first, last + 1)
        ordered[run] = sorted(ordered[run].tolist(), key=snapshot.job_ids.__getitem__)
