"""How much goes through a model together: what the workers of a job are told once memory has run out."""

from __future__ import annotations


def half(num_samples: int, bound: int | None) -> int:
    """The new bound on a pass, after memory ran out with so many samples; never above the one there was.

    Several workers that run out in the same step halve it once.
    """
    halved = max(1, num_samples // 2)
    return halved if bound is None else min(halved, bound)


def told_of_lack(worker: int, num_samples: int, bound: int, error: str) -> str:
    """Return the warning for the job's owner: the job is slower from now on, and otherwise the same."""
    return (
        f"worker {worker} ran out of memory with {num_samples} samples at once ({error}); from now on at "
        f"most {bound} go through the model together, and a worker does its part of a step in several passes"
    )


def too_few_shards(num_shards: int, fewest_workers: int) -> str:
    """Why there is no size at which a job could run."""
    return (
        f"the script cuts each batch into {num_shards} shards, so it can use {num_shards} workers at most, "
        f"and the job is to have {fewest_workers} or more; give elastic() shards={fewest_workers} or more, "
        "or let the job have fewer workers"
    )
