"""The sizes worth having of each job, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swell.compiled import suited
from swell.model.snapshot import BoolArray, FloatArray, IntArray, Snapshot

#: A rate that is not faster by this share is no faster: beliefs are not exact.
NO_FASTER_SHARE = 1e-9


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
        return self.workers.ravel()[self._at(level)] * (level > 0)

    def devices_at(self, level: IntArray) -> IntArray:
        """(J,) devices at each job's level."""
        return self.devices.ravel()[self._at(level)] * (level > 0)

    def rates_at(self, level: IntArray) -> FloatArray:
        """(J,) steps/s at each job's level; 0 at level 0."""
        return self.rates.ravel()[self._at(level)] * (level > 0)

    def prices(self, level: IntArray) -> FloatArray:
        """(J,) device-seconds a step that the last rise to each job's level costs; 0 at level 0."""
        price = np.zeros(len(level))
        suited(_list_prices, len(level))(self.devices, self.rates, level, price)
        return price

    def _at(self, level: IntArray) -> IntArray:
        """(J,) where a level's entry is; that of some other level for level 0."""
        return np.arange(-1, self.workers.size - 1, self.workers.shape[1]) + level


def useful_levels(snapshot: Snapshot, is_allowed: BoolArray | None = None) -> Levels:
    """Sizes that fit on the devices there are, and that no smaller size equals or beats in speed.

    So a curve is cut at its peak (ElasticFlow, section 4.1: more workers than that slow a job down).

    Args:
        is_allowed: (K,) sizes that the policy gives; all of the snapshot's if None.
    """
    sizes = snapshot.sizes if is_allowed is None else np.where(is_allowed, snapshot.sizes, 0)
    shape = snapshot.rate_per_s.shape
    levels = Levels(
        workers=np.zeros(shape, dtype=np.int64),
        devices=np.zeros(shape, dtype=np.int64),
        rates=np.zeros(shape),
        num=np.zeros(shape[0], dtype=np.int64),
        held=np.zeros(shape[0], dtype=np.int64),
    )
    suited(_list_levels, shape[0])(
        sizes,
        snapshot.rate_per_s,
        snapshot.devices_per_worker,
        snapshot.held_workers,
        snapshot.num_devices,
        levels.workers,
        levels.devices,
        levels.rates,
        levels.num,
        levels.held,
    )
    return levels


def all_levels(snapshot: Snapshot) -> Levels:
    """Every size that a job may have and that fits, slower ones too: rates need not ascend."""
    devices = snapshot.sizes[None, :] * snapshot.devices_per_worker[:, None]
    is_level = (snapshot.rate_per_s > 0) & (devices <= snapshot.num_devices)
    packed = np.argsort(~is_level, axis=1, kind="stable")  # levels first, in ascending order
    num: IntArray = np.sum(is_level, axis=1)
    return Levels(
        workers=snapshot.sizes[packed],
        devices=np.take_along_axis(devices, packed, axis=1),
        rates=np.take_along_axis(snapshot.rate_per_s, packed, axis=1),
        num=num,
        held=np.sum(is_level & (snapshot.sizes[None, :] <= snapshot.held_workers[:, None]), axis=1),
    )


def _list_levels(
    sizes: IntArray,
    rate_per_s: FloatArray,
    devices_per_worker: IntArray,
    held_workers: IntArray,
    num_devices: int,
    workers: IntArray,
    devices: IntArray,
    rates: FloatArray,
    num: IntArray,
    held: IntArray,
) -> None:
    """Write the columns of `Levels`; a size of 0 is not allowed."""
    for row in range(len(rate_per_s)):
        best_below = 0.0
        for column in range(len(sizes)):
            size, rate = sizes[column], rate_per_s[row, column]
            if size * devices_per_worker[row] > num_devices:
                break
            if size == 0 or rate <= best_below:
                continue
            is_useful = rate > best_below * (1.0 + NO_FASTER_SHARE)
            best_below = rate
            if not is_useful:
                continue
            workers[row, num[row]] = size
            devices[row, num[row]] = size * devices_per_worker[row]
            rates[row, num[row]] = rate
            num[row] += 1
            if size <= held_workers[row]:
                held[row] = num[row]


def _list_prices(devices: IntArray, rates: FloatArray, level: IntArray, price: FloatArray) -> None:
    """Write what the last rise takes in devices over what it brings in speed."""
    for row in range(len(level)):
        top = level[row] - 1
        if top > 0:
            price[row] = (devices[row, top] - devices[row, top - 1]) / (rates[row, top] - rates[row, top - 1])
        elif top == 0:
            price[row] = devices[row, top] / rates[row, top]
