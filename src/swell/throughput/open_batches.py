"""The batches that a job with an open batch may have, and the best of them, by what a trial run measured."""

from __future__ import annotations

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.throughput.curve import Curve

#: Batches between the ends of the range, in equal ratios, beside those that were measured.
NUM_BETWEEN = 16
#: A gang keeps its batch unless another one is faster by this share: a change takes a moment, and beliefs
#: are not exact.
KEEP_SHARE = 0.05


def candidates(curve: Curve, sizes: IntArray, kept: int) -> IntArray:
    """(B, K) batches to choose from at each of (K,) sizes, `kept` among them; some may not be possible.

    The batch with the most samples a second is among these: between two measured ones they rise or fall all
    the way. That of the highest goodput is within a step of these ratios.
    """
    least, most = curve.batch_range
    measured = np.array(sorted(curve.compute_s), dtype=np.int64)[:, None] * sizes[None, :]
    between = np.geomspace(least, most, NUM_BETWEEN).round().astype(np.int64)
    fixed = np.append(between, [curve.global_batch, kept])[:, None] * np.ones_like(sizes)
    if curve.max_local_batch is not None:
        measured = np.vstack([measured, curve.max_local_batch * sizes])
    return np.vstack([np.clip(measured, least, most), fixed])


def is_possible(curve: Curve, sizes: IntArray, batches: IntArray) -> BoolArray:
    """(B, K) whether each worker has a sample, and as many as fit on its device at once at most.

    The job's own batch is computed in passes where it does not fit.
    """
    local_batch = -(-batches // sizes)
    bound = np.inf if curve.max_local_batch is None else curve.max_local_batch
    fits = (local_batch <= bound) | (batches == curve.global_batch)
    possible: BoolArray = fits & curve.allows(sizes, batches)
    return possible


def best(
    curve: Curve,
    sizes: IntArray,
    batches: IntArray,
    step_s: FloatArray,
    kept: int,
    weights: FloatArray | None = None,
) -> tuple[FloatArray, IntArray]:
    """(K,) rates in steps/s of the own batch, and the batches of (B, K) that they are of; 0: there is none.

    Args:
        step_s: (B, K) believed, with what a step bears of the time between epochs.
        kept: the batch that the job has now.
        weights: (B, K) of the rates when the best one is looked for; None: all are worth the same.
    """
    rates = batches / curve.global_batch / step_s
    rates = np.where(is_possible(curve, sizes, batches), rates, 0.0)
    value = rates if weights is None else rates * weights
    preferred = np.where(batches == kept, value * (1.0 + KEEP_SHARE), value)
    row, column = np.argmax(preferred, axis=0), np.arange(len(sizes))
    rate = rates[row, column]
    return rate, np.where(rate > 0.0, batches[row, column], 0)
