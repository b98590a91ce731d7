"""Batches of jobs that leave theirs open: what a policy may see of them, and what becomes of its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from swell.core.ports import Belief
from swell.core.record import JobRecord
from swell.core.table import allowed
from swell.model.command import SetBatch
from swell.model.job import Phase
from swell.model.plan import Allocation, SizedBatch
from swell.model.snapshot import Batches, IntArray, Snapshot


def with_batches(snapshot: Snapshot, open_jobs: Sequence[JobRecord], belief: Belief) -> Snapshot:
    """The snapshot with what is believed of these jobs' batches; as it is if none is in it."""
    seen = [record for record in open_jobs if record.id in snapshot.row_of]
    if not seen:
        return snapshot
    rate_per_s = snapshot.rate_per_s.copy()
    global_batch = np.zeros(rate_per_s.shape, dtype=np.int64)
    for record in seen:
        best = belief.best_batches(record.id, snapshot.sizes)
        if best is not None:
            may_have = allowed(snapshot.sizes, record.spec.min_workers, record.spec.max_workers)
            row = snapshot.row_of[record.id]
            rate_per_s[row], global_batch[row] = (np.where(may_have, column, 0) for column in best)
    rate_per_s.flags.writeable = global_batch.flags.writeable = False
    return replace(snapshot, batches=Batches(rate_per_s=rate_per_s, global_batch=global_batch))


def at_batches(snapshot: Snapshot, allocation: Allocation) -> Snapshot:
    """As it is at the batches that the policy chose: what another size saves depends on them."""
    if allocation.global_batch is None or snapshot.batches is None:
        return snapshot
    is_chosen = allocation.global_batch > 0
    rate_per_s = np.where(is_chosen, snapshot.batches.rate_per_s, snapshot.rate_per_s)
    return replace(snapshot, rate_per_s=rate_per_s)


def planned_batches(snapshot: Snapshot, allocation: Allocation, workers: IntArray) -> dict[str, SizedBatch]:
    """By job id, at these sizes (J,), where they are not the job's own."""
    if allocation.global_batch is None:
        return {}
    column = np.minimum(np.searchsorted(snapshot.sizes, workers), len(snapshot.sizes) - 1)
    is_size = (workers > 0) & (snapshot.sizes[column] == workers)
    batch = np.where(is_size, allocation.global_batch[np.arange(snapshot.num_jobs), column], 0)
    return {
        snapshot.job_ids[row]: SizedBatch(int(workers[row]), int(batch[row]))
        for row in np.flatnonzero(batch).tolist()
    }


def set_batches(open_jobs: Sequence[JobRecord], planned: Mapping[str, SizedBatch]) -> list[SetBatch]:
    """Give gangs that train or are about to the batches that are planned for them.

    A gang keeps the batch that it was told through its generations; one that is launched begins with the
    job's own. One that could not get the size that its batch was planned for keeps the batch it has.
    """
    commands = []
    for record in open_jobs:
        own, plan = record.spec.global_batch, planned.get(record.id)
        is_up = record.phase in (Phase.STARTING, Phase.RUNNING)
        is_meant = plan is None or plan.workers == record.target_workers
        wanted = own if plan is None else plan.global_batch
        if is_up and is_meant and wanted != (record.batch or own):
            record.batch = None if wanted == own else wanted
            commands.append(SetBatch(job_id=record.id, generation=record.generation, global_batch=wanted))
    return commands
