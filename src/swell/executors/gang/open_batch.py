"""Which batches the workers of a job may be told to train with."""

from __future__ import annotations

from swell.model.job import Elasticity, JobSpec
from swell.model.target import Configuration


def batch_of(configuration: Configuration, spec: JobSpec) -> int | None:
    """Samples of a step; None: the job's own batch, however it was said."""
    return _unless_own(configuration.global_batch, spec)


def batch_of_group(num_workers: int, told: int | None, spec: JobSpec) -> int | None:
    """The same for a group of so many workers, of whom the job was told this batch.

    Where each worker has a batch of its own the group's follows from their number, also after a loss that the
    head has not heard of yet.
    """
    if spec.batch_per_worker is None:
        return told
    return _unless_own(spec.batch_per_worker * num_workers, spec)


def _unless_own(batch: int | None, spec: JobSpec) -> int | None:
    return None if batch == spec.global_batch else batch


def refusal(configuration: Configuration, spec: JobSpec) -> str:
    """Why the job cannot train like this; empty if it can."""
    batch = batch_of(configuration, spec)
    if batch is None:
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
