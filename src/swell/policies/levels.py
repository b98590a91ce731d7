"""The sizes worth having of each job, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.options import NO_OPTION, SizeOptions
from swell.model.snapshot import Snapshot


@dataclass(frozen=True)
class Levels:
    """Level 0 is nothing; levels 1 to `num[row]` are a job's sizes, each faster than the ones below it."""

    option: IntArray  #: (J, L) of the snapshot's, by ascending size; the first `num` of a row count
    workers: IntArray  #: (J, L)
    devices: IntArray  #: (J, L)
    rates: FloatArray  #: (J, L) steps/s, strictly ascending
    num: IntArray  #: (J,)
    held: IntArray  #: (J,) the highest level that is no larger than what the job holds
    option_start_s: FloatArray  #: (O,) as in the snapshot
    option_resize_s: FloatArray  #: (O,) likewise
    option_margin_share: FloatArray  #: (O,) likewise

    @cached_property
    def start_s(self) -> FloatArray:
        """(J, L) upper cost of a launch at each level: seconds until its first step."""
        return self._gathered(self.option_start_s)

    @cached_property
    def resize_s(self) -> FloatArray:
        """(J, L) upper cost of a change of a running gang to each level: seconds it takes from training."""
        return self._gathered(self.option_resize_s)

    @property
    def margin_share(self) -> FloatArray:
        """(J, L) by how much longer work may take at each level than its rate says."""
        return self._gathered(self.option_margin_share)

    @cached_property
    def safe_rates(self) -> FloatArray:
        """(J, L) steps/s that a promise counts on."""
        return self.rates / (1.0 + self.margin_share) if self.option_margin_share.any() else self.rates

    @property
    def highest(self) -> int:
        """L, which is no less than any job's number of levels."""
        return int(self.workers.shape[1])

    def options_at(self, level: IntArray) -> IntArray:
        """(J,) the option of each job's level; NO_OPTION at level 0."""
        return np.where(level > 0, self.option.ravel()[self._before + level], NO_OPTION)

    def up_to(self, workers: IntArray) -> IntArray:
        """(J,) the highest level of each job with no more than so many workers."""
        is_level = np.arange(self.highest)[None, :] < self.num[:, None]
        level: IntArray = (is_level & (self.workers <= workers[:, None])).sum(axis=1)
        return level

    def workers_at(self, level: IntArray) -> IntArray:
        """(J,) workers at each job's level."""
        workers: IntArray = self.workers.ravel()[self._before + level] * (level > 0)
        return workers

    def devices_at(self, level: IntArray) -> IntArray:
        """(J,) devices at each job's level."""
        devices: IntArray = self.devices.ravel()[self._before + level] * (level > 0)
        return devices

    def rates_at(self, level: IntArray) -> FloatArray:
        """(J,) steps/s at each job's level; 0 at level 0."""
        rates: FloatArray = self.rates.ravel()[self._before + level] * (level > 0)
        return rates

    def with_rates(self, rate_per_s: FloatArray) -> Levels:
        """The same levels at these rates of (O,) options, which need not ascend."""
        is_level = np.arange(self.highest)[None, :] < self.num[:, None]
        return replace(self, rates=np.where(is_level, self._gathered(rate_per_s), 0.0))

    def prices(self, level: IntArray) -> FloatArray:
        """(J,) device-seconds a step that the last rise to each job's level costs; 0 at level 0."""
        before = np.maximum(level - 1, 0)
        more_devices = self.devices_at(level) - self.devices_at(before)
        more_rate = self.rates_at(level) - self.rates_at(before)
        price: FloatArray = np.divide(more_devices, more_rate, out=np.zeros(len(level)), where=level > 0)
        return price

    def worth(self, price: FloatArray) -> FloatArray:
        """(J, L + 1) what a second at levels 0, 1, 2, ... is worth, if a step is worth (J,) `price`."""
        worth = np.zeros((len(price), self.highest + 1))
        np.multiply(self.rates, price[:, None], out=worth[:, 1:])
        return worth

    def _gathered(self, of_option: FloatArray) -> FloatArray:
        """(J, L) what holds of each level's option."""
        return of_option[self.option] if len(of_option) else np.zeros(self.option.shape)

    @cached_property
    def _before(self) -> IntArray:
        """(J,) the place before that of level 1 of each job, which is another job's."""
        return np.arange(-1, self.workers.size - 1, self.workers.shape[1])


def useful_levels(snapshot: Snapshot) -> Levels:
    """Options that no smaller one equals or beats in speed.

    So a curve is cut at its peak (ElasticFlow, section 4.1: more workers than that slow a job down).
    """
    return levels_of(snapshot, snapshot.options.useful)


def all_levels(snapshot: Snapshot) -> Levels:
    """Every option, slower ones too: rates need not ascend."""
    options = snapshot.options
    ascending = np.arange(1.0, len(options.workers) + 1.0)  # as if each were faster than the one before
    return levels_of(snapshot, replace(options, rate_per_s=ascending).useful).with_rates(options.rate_per_s)


def levels_of(snapshot: Snapshot, options: SizeOptions) -> Levels:
    """These options of its jobs."""
    is_held = options.workers <= snapshot.held_workers[:, None]  # 0 workers behind the last option, too
    held = is_held.sum(axis=1) - (options.workers.shape[1] - options.num)
    costs_s = snapshot.option_start_s, snapshot.option_resize_s
    return Levels(*options, held, *costs_s, snapshot.option_margin_share)
