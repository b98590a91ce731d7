"""Which batches the workers of a job may be told to train with."""

from __future__ import annotations

import msgspec

from swell.model.job import Elasticity, JobSpec
from swell.model.target import Configuration


def configuration_of_group(num_workers: int, told: Configuration, spec: JobSpec) -> Configuration:
    """Return how a group of so many workers runs that was told to run like this.

    The job's own batch is None, however it was said. Where each worker has a batch of its own the group's
    follows from their number, also after a loss that the head has not heard of yet.
    """
    batch = told.global_batch if spec.batch_per_worker is None else spec.batch_per_worker * num_workers
    if batch == told.global_batch != spec.global_batch:
        return told
    batch = None if batch == spec.global_batch else batch
    return msgspec.structs.replace(told, global_batch=batch)


def refusal(configuration: Configuration, spec: JobSpec) -> str:
    """Why the job cannot train like this; empty if it can."""
    batch = configuration.global_batch
    if batch in (None, spec.global_batch):
        return ""
    if spec.elasticity is Elasticity.RESTART:
        return f"its script knows nothing of Swell, so its batch cannot become {batch}; use swell.train in it"
    if spec.batch_per_worker is not None:
        is_whole = batch % spec.batch_per_worker == 0
        why = f"its workers have {spec.batch_per_worker} samples each, which {batch} are not"
        return "" if is_whole else why
    if spec.max_batch is None:
        return f"its batch of {spec.global_batch} is its own, and not open"
    if not spec.least_batch <= batch <= spec.max_batch:
        return f"its batch may be from {spec.least_batch} to {spec.max_batch}, and not {batch}"
    return ""
