"""Orders of service. Ties end with the job's id, so that the order of rows never matters."""

from __future__ import annotations

from collections.abc import Iterable

from swell.model.snapshot import FloatArray, Snapshot


def by_arrival(snapshot: Snapshot, rows: Iterable[int]) -> list[int]:
    return sorted(rows, key=lambda row: (snapshot.submitted_s[row], snapshot.job_ids[row]))


def by_deadline(snapshot: Snapshot, rows: Iterable[int]) -> list[int]:
    return by_key(snapshot, rows, snapshot.deadline_s)


def by_key(snapshot: Snapshot, rows: Iterable[int], key: FloatArray) -> list[int]:
    """Lowest key (J,) first, ties by arrival."""
    return sorted(rows, key=lambda row: (key[row], snapshot.submitted_s[row], snapshot.job_ids[row]))
