"""The standing plans, as a policy remembers them from one decision to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.model.snapshot import Memory, Snapshot
from swell.policies.levels import Levels
from swell.solvers.capacity.courses import PlanRows, read_plans, write_plans
from swell.solvers.capacity.plans import Plans
from swell.solvers.filling import copy_of, no_plans

NONE: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class StandingPlans:
    """What was planned at the last decision."""

    plans: Plans  #: (J,) of promised jobs; none for jobs that had none
    #: (J,) the same, but for jobs that have gone to another level than that, the plan for after it
    after_change: Plans


@dataclass(frozen=True, slots=True)
class SavedPlans:
    """Plans of n jobs in head time and in workers, for levels are not the same for ever."""

    ids: tuple[str, ...]  #: (J,) of the jobs in the snapshot in which they were planned
    rows: IntArray  #: (n,) there
    grade: IntArray  #: (n,)
    segments: IntArray  #: (n,) how many there are of each plan
    starts_s: FloatArray  #: (n, S) S: as many as the longest has
    workers: IntArray  #: (n, S)
    ends_s: FloatArray  #: (n,)
    went_to: IntArray  #: (n,) workers that each was to have then; empty where that is not needed

    @property
    def jobs(self) -> list[str]:
        """(n,) ids."""
        return [self.ids[row] for row in self.rows.tolist()]

    def plain(self) -> dict[str, Any]:
        """Return the plans as plain values; the segments of all plans follow each other in one list."""
        is_segment = _is_segment(self.segments)
        return {
            "jobs": self.jobs,
            "grade": self.grade.tolist(),
            "segments": self.segments.tolist(),
            "starts_s": self.starts_s[is_segment].tolist(),
            "workers": self.workers[is_segment].tolist(),
            "ends_s": self.ends_s.tolist(),
            "went_to": self.went_to.tolist(),
        }

    @classmethod
    def read(cls, told: SavedPlans | Mapping[str, Any]) -> SavedPlans:
        """Itself, or what it was before it was made plain."""
        if isinstance(told, SavedPlans):
            return told
        segments = np.array(told["segments"], dtype=np.int64)
        is_segment = _is_segment(segments)
        starts_s, workers = np.zeros(is_segment.shape), np.zeros(is_segment.shape, dtype=np.int64)
        starts_s[is_segment], workers[is_segment] = told["starts_s"], told["workers"]
        grade, ends_s = np.array(told["grade"], dtype=np.int64), np.array(told["ends_s"], dtype=np.float64)
        went_to, rows = np.array(told.get("went_to", ()), dtype=np.int64), np.arange(len(segments))
        return cls(tuple(told["jobs"]), rows, grade, segments, starts_s, workers, ends_s, went_to)

    def rows_in(self, snapshot: Snapshot) -> IntArray:
        """(n,) of its jobs; -1 for one that is gone."""
        if snapshot.job_ids[: len(self.ids)] == self.ids:  # others have come at most
            return self.rows
        row_of = snapshot.row_of
        return np.fromiter(map(row_of.get, self.jobs, repeat(-1)), np.int64, len(self.rows))


def remembered(snapshot: Snapshot, levels: Levels) -> StandingPlans:
    """Plans of the last decision from now on.

    One that goes through a size that its job may not have any more is forgotten.
    """
    plans, memory = no_plans(snapshot.num_jobs), snapshot.memory
    if "plans" not in memory:
        return StandingPlans(plans, plans)
    _read_all(snapshot, levels, SavedPlans.read(memory["plans"]), plans)
    changed = SavedPlans.read(memory["after_change"])
    rows, held = changed.rows_in(snapshot), np.append(snapshot.held_workers, -1)  # -1: of one that is gone
    has_changed = held[rows] == changed.went_to
    if not has_changed.any():
        return StandingPlans(plans, plans)
    after_change = copy_of(plans)
    _read_all(snapshot, levels, changed, after_change, has_changed)
    return StandingPlans(plans, after_change)


def remembered_soft(snapshot: Snapshot, levels: Levels) -> Plans:
    """(J,) plans that soft jobs had at the last decision, from now on; none for other jobs."""
    plans = no_plans(snapshot.num_jobs)
    if "soft" in snapshot.memory:
        _read_all(snapshot, levels, SavedPlans.read(snapshot.memory["soft"]), plans)
    return plans


def _read_all(
    snapshot: Snapshot, levels: Levels, written: SavedPlans, plans: Plans, is_read: BoolArray | None = None
) -> None:
    rows = written.rows_in(snapshot)
    read_plans(
        snapshot.now_s,
        rows if is_read is None else np.where(is_read, rows, -1),
        written.grade,
        written.segments,
        written.starts_s,
        written.workers,
        written.ends_s,
        levels.workers,
        levels.num,
        PlanRows(plans),
    )


def to_remember(
    snapshot: Snapshot, levels: Levels, plans: Plans, rows: IntArray, after_change: Plans, level: IntArray
) -> Memory:
    """The plans of these rows, and those for after a change to the (J,) levels that jobs are to have.

    One that goes to other devices at the level that it has needs a plan for after that, too.
    """
    if not len(rows):
        return {}
    changed = rows[after_change.num[rows] > 0]
    return {
        "plans": written(snapshot, levels, plans, rows),
        "after_change": written(snapshot, levels, after_change, changed, levels.workers_at(level)[changed]),
    }


def written(
    snapshot: Snapshot, levels: Levels, plans: Plans, rows: IntArray, went_to: IntArray = NONE
) -> SavedPlans:
    """The plans of these rows."""
    segments = plans.num[rows]
    shape = len(rows), int(segments.max(initial=0))
    starts_s, workers = np.zeros(shape), np.zeros(shape, dtype=np.int64)
    write_plans(snapshot.now_s, rows, PlanRows(plans), levels.workers, starts_s, workers)
    return SavedPlans(
        ids=snapshot.job_ids,
        rows=rows,
        grade=plans.grade[rows],
        segments=segments,
        starts_s=starts_s,
        workers=workers,
        ends_s=plans.end_s[rows] + snapshot.now_s,
        went_to=went_to,
    )


def _is_segment(segments: IntArray) -> BoolArray:
    """(n, S) which of the S places of each plan are in use."""
    is_segment: BoolArray = np.arange(segments.max(initial=0)) < segments[:, None]
    return is_segment
