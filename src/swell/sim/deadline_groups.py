"""Deadlines kept by how much time they left."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from swell.sim.outcome import JobOutcome

#: Time from submission to deadline / run time at the size that the user asked for.
TIGHTNESS_EDGES = (0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
#: Time from submission to deadline, in seconds.
WINDOW_EDGES_S = {
    600.0: "10 min",
    3600.0: "1 h",
    4 * 3600.0: "4 h",
    12 * 3600.0: "12 h",
    86400.0: "1 day",
    3 * 86400.0: "3 days",
}


class DeadlineGroup(msgspec.Struct, kw_only=True):
    """Jobs with deadlines that were as tight."""

    name: str
    deadlines: int = 0
    kept: int = 0


def by_tightness(jobs: Iterable[JobOutcome], durations_s: Iterable[float]) -> list[DeadlineGroup]:
    """Args: durations_s: of each job at the size its user asked for."""
    groups = _groups([f"{edge:g}" for edge in TIGHTNESS_EDGES])
    for job, duration_s in zip(jobs, durations_s, strict=True):
        if job.deadline_s is not None and duration_s > 0.0:
            _count(groups, TIGHTNESS_EDGES, (job.deadline_s - job.submit_s) / duration_s, job)
    return groups


def by_window(jobs: Iterable[JobOutcome]) -> list[DeadlineGroup]:
    """Count the deadlines, and those that were kept, by the time from submission to deadline."""
    groups = _groups(list(WINDOW_EDGES_S.values()))
    for job in jobs:
        if job.deadline_s is not None:
            _count(groups, list(WINDOW_EDGES_S), job.deadline_s - job.submit_s, job)
    return groups


def _count(groups: list[DeadlineGroup], edges: Sequence[float], value: float, job: JobOutcome) -> None:
    """A value at an edge is below it, but for the last digits of a product."""
    group = groups[bisect_left(edges, value * (1.0 - 1e-9))]
    group.deadlines += 1
    group.kept += bool(job.is_kept)


def _groups(edges: Sequence[str]) -> list[DeadlineGroup]:
    between = [f"{low} to {high}" for low, high in itertools.pairwise(edges)]
    return [DeadlineGroup(name=name) for name in (f"up to {edges[0]}", *between, f"over {edges[-1]}")]
