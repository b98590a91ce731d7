"""Batches of jobs that leave theirs open: what a policy may see of them, and what becomes of its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from swell.arrays import IntArray
from swell.core.record import JobRecord
from swell.model.command import SetBatch
from swell.model.job import Phase
from swell.model.plan import SizedBatch
from swell.model.snapshot import Snapshot


def planned_batches(snapshot: Snapshot, workers: IntArray) -> dict[str, SizedBatch]:
    """By job id, at these sizes (J,), where they are not the job's own."""
    option = snapshot.options.at(workers)
    is_option = snapshot.options.workers_of(option) == workers
    batch = snapshot.options.batch_of(option) * is_option
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
