"""Which batches the workers of a job may be told to train with."""

from __future__ import annotations

from swell.model.job import Elasticity, JobSpec
from swell.model.target import Configuration


def batch_of(configuration: Configuration, spec: JobSpec) -> int | None:
    """Samples of a step; None: the job's own batch, however it was said."""
    batch = configuration.global_batch
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
        return (
            ""
            if is_whole
            else f"its workers have {spec.batch_per_worker} samples each, which {batch} are not"
        )
    if spec.max_batch is None:
        return f"its batch of {spec.global_batch} is its own, and not open"
    if not spec.least_batch <= batch <= spec.max_batch:
        return f"its batch may be from {spec.least_batch} to {spec.max_batch}, and not {batch}"
    return ""
