"""The standing plans, as a policy remembers them from one decision to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import suited
from swell.model.snapshot import Memory, Snapshot
from swell.policies.levels import Levels
from swell.solvers.filling import copy_of, no_plans
from swell.solvers.profile.plans import Plans


@dataclass(frozen=True, slots=True)
class StandingPlans:
    """What was planned at the last decision."""

    plans: Plans  #: (J,) none for jobs that had none
    #: (J,) the same, but for jobs that have gone to another level than that, the plan for after it
    after_change: Plans


def remembered(snapshot: Snapshot, levels: Levels) -> StandingPlans:
    """Plans of the last decision from now on.

    One that goes through a size that its job may not have any more is forgotten.
    """
    plans, memory = no_plans(snapshot.num_jobs), snapshot.memory
    if "plans" not in memory:
        return StandingPlans(plans, plans)
    rows = _rows_of(snapshot, memory["plans"])
    _read_all(snapshot, levels, memory["plans"], rows, plans)
    changed = memory["after_change"]
    rows, held = _rows_of(snapshot, changed), np.append(snapshot.held_workers, -1)  # -1: of one that is gone
    has_changed = held[rows] == np.array(changed["went_to"], dtype=np.int64)
    if not has_changed.any():
        return StandingPlans(plans, plans)
    after_change = copy_of(plans)
    _read_all(snapshot, levels, changed, np.where(has_changed, rows, -1), after_change)
    return StandingPlans(plans, after_change)


def _rows_of(snapshot: Snapshot, memory: Memory) -> IntArray:
    """(n,) of jobs that are remembered; -1 for one that is gone."""
    row_of = snapshot.row_of
    return np.array([row_of.get(job, -1) for job in memory["jobs"]], dtype=np.int64)


def _read_all(snapshot: Snapshot, levels: Levels, memory: Memory, rows: IntArray, plans: Plans) -> None:
    suited(_read, snapshot.num_jobs)(
        snapshot.now_s,
        rows,
        np.array(memory["grade"], dtype=np.int64),
        np.array(memory["segments"], dtype=np.int64),
        np.array(memory["starts_s"], dtype=np.float64),
        np.array(memory["workers"], dtype=np.int64),
        np.array(memory["ends_s"], dtype=np.float64),
        levels.workers,
        levels.num,
        plans,
    )


def to_remember(
    snapshot: Snapshot, levels: Levels, plans: Plans, rows: IntArray, after_change: Plans, level: IntArray
) -> Memory:
    """The plans of these rows, and those for after a change to the (J,) levels that jobs are to have."""
    if not len(rows):
        return {}
    changed = rows[after_change.num[rows] > 0]
    went_to = levels.workers_at(level)[changed].tolist()
    return {
        "plans": _written(snapshot, levels, plans, rows),
        "after_change": {**_written(snapshot, levels, after_change, changed), "went_to": went_to},
    }


def _written(snapshot: Snapshot, levels: Levels, plans: Plans, rows: IntArray) -> Memory:
    """In head time and in workers: levels are not the same for ever."""
    is_segment = np.arange(plans.levels.shape[1]) < plans.num[rows, None]
    level = plans.levels[rows]
    workers = np.where(level > 0, levels.workers[rows[:, None], np.maximum(level, 1) - 1], 0)
    return {
        "jobs": [snapshot.job_ids[row] for row in rows.tolist()],
        "grade": plans.grade[rows].tolist(),
        "segments": plans.num[rows].tolist(),
        "starts_s": (plans.starts_s[rows][is_segment] + snapshot.now_s).tolist(),
        "workers": workers[is_segment].tolist(),
        "ends_s": (plans.end_s[rows] + snapshot.now_s).tolist(),
    }


def _read(
    now_s: float,
    rows: IntArray,
    grade: IntArray,
    segments: IntArray,
    starts_s: FloatArray,
    sizes: IntArray,
    ends_s: FloatArray,
    workers: IntArray,
    num_levels: IntArray,
    plans: Plans,
) -> None:
    """Write what is left of each plan."""
    first = 0
    for job in range(len(rows)):
        row, num = rows[job], segments[job]
        at, first = first, first + num
        if row < 0:
            continue
        plans.grade[row] = grade[job]
        if ends_s[job] <= now_s:
            continue
        kept = 0
        for segment in range(at, first):
            level = 0
            while level < num_levels[row] and sizes[segment] > 0 and workers[row, level] != sizes[segment]:
                level += 1
            if sizes[segment] > 0 and level == num_levels[row]:
                kept = 0
                break
            start_s = max(starts_s[segment] - now_s, 0.0)
            if start_s == 0.0:
                kept = 0
            plans.starts_s[row, kept] = start_s
            plans.levels[row, kept] = level + 1 if sizes[segment] > 0 else 0
            kept += 1
        plans.num[row], plans.end_s[row] = kept, ends_s[job] - now_s
