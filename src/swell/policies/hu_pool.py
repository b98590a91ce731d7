"""What the allocators of Hu et al. share: sizes are decided once a period, and the queue has what is left."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta

from swell.arrays import BoolArray, IntArray
from swell.model.options import Options
from swell.model.snapshot import Memory, Snapshot

LeastWorkers = Annotated[int, Meta(ge=1, description="Fewest workers of a job that runs (n_min).")]
MostWorkers = Annotated[int, Meta(ge=1, description="Most workers of a job (n_max).")]

#: Remembered: workers of each job that was given any, and 0 of those that lost theirs.
WORKERS = "workers"


def offered(snapshot: Snapshot, least: int, most: int) -> Options:
    """Options of `least` to `most` workers; of a job without any, the first that is larger, or the last."""
    options = snapshot.options
    is_offered: BoolArray = (options.workers >= least) & (options.workers <= most)
    has_some = np.zeros(snapshot.num_jobs, dtype=bool)
    has_some[options.rows[is_offered]] = True
    for row in np.flatnonzero(~has_some & (options.num > 0)).tolist():
        first, end = int(options.starts[row]), int(options.starts[row + 1])
        num_smaller = int((options.workers[first:end] < least).sum())
        is_offered[min(first + num_smaller, end - 1)] = True
    return options if is_offered.all() else options.only(is_offered)


def decided(snapshot: Snapshot, options: Options) -> IntArray:
    """(J,) workers that each job was given last, in sizes that it is offered; what it holds if unknown."""
    last, row_of = snapshot.held_workers.copy(), snapshot.row_of
    for job_id, num in snapshot.memory.get(WORKERS, {}).items():
        if job_id in row_of:
            last[row_of[job_id]] = num
    return options.workers_of(options.at(last))


def num_left(snapshot: Snapshot, workers: IntArray) -> int:
    """Devices that these sizes leave free; negative: there are not enough."""
    return snapshot.num_devices - int(workers @ snapshot.devices_per_worker)


def serve_queue(snapshot: Snapshot, options: Options, workers: IntArray) -> None:
    """Give the job at the front of the queue as many as it can use, then the next one (section 2).

    Changes `workers` (J,). No job overtakes: a job that does not fit has the others wait behind it.
    """
    left, order = num_left(snapshot, workers), snapshot.arrival_order
    for row in order[(workers[order] == 0) & (options.num[order] > 0)].tolist():
        sizes = options.workers[options.starts[row] : options.starts[row + 1]]
        per_worker = int(snapshot.devices_per_worker[row])
        fitting = sizes[: np.searchsorted(sizes * per_worker, left, side="right")]
        if not len(fitting):
            return
        workers[row] = fitting[-1]
        left -= int(fitting[-1]) * per_worker


def memory_of(snapshot: Snapshot, workers: IntArray) -> Memory:
    """What `decided` reads: of jobs with workers, and of those that are to give theirs up."""
    is_known = (workers > 0) | (snapshot.held_workers > 0)
    rows = snapshot.arrival_order[is_known[snapshot.arrival_order]].tolist()
    return {WORKERS: {snapshot.job_ids[row]: int(workers[row]) for row in rows}}
