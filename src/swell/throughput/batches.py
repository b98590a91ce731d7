"""The best batch at each number of workers: by goodput, which says how far a batch gets training in a second,
or, of the batches that a job with an open one may have, by speed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.throughput.curve import Curve

#: Batches between the ends of the range, in equal ratios, beside those that were measured.
NUM_BETWEEN = 16
#: A gang keeps its batch unless another one is faster by this share: a change takes a moment, and beliefs
#: are not exact.
KEEP_SHARE = 0.05


def worth(global_batch: FloatArray, own_batch: int, noise_scale: float) -> FloatArray:
    """Steps of the own batch that one step at each batch (any shape) gets training as far as.

    A step of M samples at noise scale B makes `1 / (1 + B / M)` of the progress that one without noise would.

    References: Qiao et al., "Pollux", OSDI 2021, section 3.1 (statistical efficiency times batch,
        relative to the own batch); McCandlish et al., "An Empirical Model of Large-Batch Training", 2018,
        section 2.2.
    """
    if math.isinf(noise_scale):
        return global_batch / own_batch
    share: FloatArray = global_batch * (noise_scale + own_batch) / (own_batch * (noise_scale + global_batch))
    return share


def efficiency(global_batch: FloatArray, own_batch: int, noise_scale: float) -> FloatArray:
    """How far a sample gets training at each batch (any shape), over how far it does at the own batch.

    `(B + m) / (B + M)`: below 1 for larger batches, above 1 for smaller ones.

    References: Qiao et al., "Pollux", OSDI 2021, section 3.1 (statistical efficiency).
    """
    return worth(global_batch, own_batch, noise_scale) * own_batch / global_batch


class BatchTable:
    """Step times of a job by batch and workers, and the best batch at each number of workers.

    Numbers of workers between known ones are on a line between these; beyond them no batch is possible.

    References: Qiao et al., "Pollux", OSDI 2021, sections 3 and 4.1 (goodput, the batch that maximises it).
    """

    def __init__(self, step_s: Mapping[int, Mapping[int, float]], own_batch: int) -> None:
        self._own_batch = own_batch
        self._batches: IntArray = np.array(sorted(step_s), dtype=np.int64)
        known = {size for times in step_s.values() for size in times}
        self._workers: IntArray = np.array(sorted(known), dtype=np.int64)
        self._step_s: FloatArray = np.array(
            [
                [step_s[batch].get(size, math.inf) for size in self._workers.tolist()]
                for batch in self._batches.tolist()
            ]
        ).reshape(len(self._batches), len(self._workers))

    def best(
        self, sizes: IntArray, noise_scale: float, slowdown: FloatArray | float = 1.0
    ) -> tuple[FloatArray, IntArray]:
        """(K,) rates in steps/s of the own batch, and the batches; 0 where none is possible.

        Args:
            slowdown: (K,) times that steps take longer, of gangs on several hosts.
        """
        step_s = self._at(sizes) * slowdown
        rates = worth(self._batches[:, None].astype(np.float64), self._own_batch, noise_scale) / step_s
        row = np.argmax(rates, axis=0)
        rate = rates[row, np.arange(len(sizes))]
        return rate, np.where(rate > 0.0, self._batches[row], 0)

    def rates_at(self, sizes: IntArray, global_batch: int, noise_scale: float) -> FloatArray:
        """(K,) rates in steps/s of the own batch at this batch; 0 where it is not possible.

        Between two known batches the time of a step is on a line.
        """
        above = int(np.searchsorted(self._batches, global_batch))
        if above == len(self._batches) or (above == 0 and self._batches[0] != global_batch):
            return np.zeros(len(sizes))
        below = above if self._batches[above] == global_batch else above - 1
        gap = max(int(self._batches[above] - self._batches[below]), 1)
        share = float(global_batch - self._batches[below]) / gap
        times_s = self._at(sizes)
        upper_s = share * times_s[above] if share > 0.0 else 0.0
        step_s = (1.0 - share) * times_s[below] + upper_s
        rates: FloatArray = worth(np.array([float(global_batch)]), self._own_batch, noise_scale) / step_s
        return rates

    def rate_per_s(self, num_workers: int, global_batch: int, noise_scale: float) -> float:
        """Steps/s of the own batch; at the best possible batch where this one is not possible."""
        sizes = np.array([num_workers], dtype=np.int64)
        rate = float(self.rates_at(sizes, global_batch, noise_scale)[0])
        return rate if rate > 0.0 else float(self.best(sizes, noise_scale)[0][0])

    def _at(self, sizes: IntArray) -> FloatArray:
        """(B, K) seconds a step."""
        above = np.minimum(np.searchsorted(self._workers, sizes), len(self._workers) - 1)
        below = np.where(self._workers[above] == sizes, above, np.maximum(above - 1, 0))
        gap = np.maximum(self._workers[above] - self._workers[below], 1)
        share = (sizes - self._workers[below]) / gap
        # A time that is inf beside a share of 0 must not make a NaN.
        upper = np.where(share > 0.0, share * self._finite(above), 0.0)
        step_s = (1.0 - share) * self._finite(below) + upper
        is_possible = np.isfinite(self._step_s[:, below]) & np.isfinite(self._step_s[:, above])
        is_within = (sizes >= self._workers[0]) & (sizes <= self._workers[-1])
        return np.where(is_possible & is_within, step_s, math.inf)

    def _finite(self, columns: IntArray) -> FloatArray:
        times_s: FloatArray = np.where(np.isfinite(self._step_s[:, columns]), self._step_s[:, columns], 0.0)
        return times_s


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


def best_candidates(
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
