"""Which local batches the trial run of a job measures."""

from __future__ import annotations

from collections.abc import Sequence

from swell.model.job import JobSpec

#: Local batches over the range of an open batch: each twice the one before, or more if these are too many.
MOST_OF_RANGE = 8


def local_batches(spec: JobSpec, sizes: Sequence[int], max_local_batch: int | None) -> tuple[int, ...]:
    """Samples of one worker, in the order in which they are to be measured.

    A batch that stays is measured as each size divides it, the largest part first: memory runs out early
    if it does. An open batch is measured from the smallest part up, for the largest may take very long.

    Args:
        max_local_batch: samples that fit on a device at once; None: no limit is known.
    """
    if spec.batch_per_worker is not None:
        return (spec.batch_per_worker,)
    own = {-(-spec.global_batch // size) for size in sizes}
    if spec.max_batch is None:
        return tuple(sorted(own, reverse=True))
    return tuple(sorted(own | _over_range(spec.least_batch, spec.max_batch, sizes, max_local_batch)))


def _over_range(least: int, most: int, sizes: Sequence[int], max_local_batch: int | None) -> set[int]:
    """Return local batches, evenly by ratio, from `least` on most workers to `most` on fewest.

    `max_local_batch` bounds the largest, but never below the smallest.
    """
    low, high = -(-least // max(sizes)), -(-most // min(sizes))
    if max_local_batch is not None:
        high = max(low, min(high, max_local_batch))
    num = min(MOST_OF_RANGE, (high // low).bit_length())
    ratio = (high / low) ** (1.0 / max(num - 1, 1))
    return {low, high} | {round(low * ratio**index) for index in range(num)}
