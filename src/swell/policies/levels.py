"""The sizes worth having of each job, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swell.model.snapshot import BoolArray, FloatArray, IntArray, Snapshot


@dataclass(frozen=True, slots=True)
class Levels:
    """Level 0 is nothing; levels 1 to `num[row]` are a job's sizes, each faster than the ones below it."""

    workers: IntArray  #: (J, K) in ascending order; the first `num` of a row count
    devices: IntArray  #: (J, K)
    rates: FloatArray  #: (J, K) steps/s, strictly ascending
    num: IntArray  #: (J,)
    held: IntArray  #: (J,) the highest level that is no larger than what the job holds

    def workers_at(self, level: IntArray) -> IntArray:
        """(J,) workers at each job's level."""
        return self._at(level, self.workers)

    def devices_at(self, level: IntArray) -> IntArray:
        """(J,) devices at each job's level."""
        return self._at(level, self.devices)

    def rates_at(self, level: IntArray) -> FloatArray:
        """(J,) steps/s at each job's level; 0 at level 0."""
        column = np.maximum(level - 1, 0)[:, None]
        return np.where(level > 0, np.take_along_axis(self.rates, column, axis=1)[:, 0], 0.0)

    def _at(self, level: IntArray, table: IntArray) -> IntArray:
        column = np.maximum(level - 1, 0)[:, None]
        return np.where(level > 0, np.take_along_axis(table, column, axis=1)[:, 0], 0)


def useful_levels(snapshot: Snapshot, is_allowed: BoolArray | None = None) -> Levels:
    """Sizes that fit on the devices there are, and that no smaller size equals or beats in speed.

    So a curve is cut at its peak (ElasticFlow, section 4.1: more workers than that slow a job down).

    Args:
        is_allowed: (K,) sizes that the policy gives; all of the snapshot's if None.
    """
    devices = snapshot.sizes[None, :] * snapshot.devices_per_worker[:, None]
    fits = (devices <= snapshot.num_devices) & (snapshot.rate_per_s > 0)
    if is_allowed is not None:
        fits &= is_allowed[None, :]
    rates = np.where(fits, snapshot.rate_per_s, 0.0)
    best_below = np.zeros_like(rates)
    best_below[:, 1:] = np.maximum.accumulate(rates, axis=1)[:, :-1]
    is_useful = rates > best_below * (1.0 + 1e-9)
    order = np.argsort(~is_useful, axis=1, kind="stable")  # useful sizes first, still ascending
    workers = np.broadcast_to(snapshot.sizes, rates.shape)
    is_within = is_useful & (workers <= snapshot.held_workers[:, None])
    return Levels(
        workers=np.take_along_axis(workers, order, axis=1),
        devices=np.take_along_axis(devices, order, axis=1),
        rates=np.take_along_axis(rates, order, axis=1),
        num=is_useful.sum(axis=1),
        held=is_within.sum(axis=1),
    )
