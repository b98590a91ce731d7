"""How jobs may run, as a table of jobs by sizes: an event writes one row, a snapshot packs what fits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray, read_only
from swell.model.options import Options

#: Layers of the table: the columns of `JobOptions`, and upper costs of a launch and of a resize.
WORKERS, GLOBAL_BATCH, MARGIN_CLASS, RATE, EFFICIENCY, START_S, RESIZE_S, NUM_LAYERS = range(8)


class JobOptions(NamedTuple):
    """How one job may run, by ascending size, on a cluster that is large enough."""

    workers: IntArray  #: (n,)
    global_batch: IntArray  #: (n,) samples of a step; 0: the job's own batch
    margin_class: IntArray  #: (n,) which margin a plan at this rate has; see `FittedBelief.margins`
    rate_per_s: FloatArray  #: (n,) > 0
    efficiency: FloatArray  #: (n,) see `Options`
    one_worker_per_s: float = 0.0  #: at the batch that is best for it; 0: not possible, or not known


class PackedOptions(NamedTuple):
    """The options that fit on a cluster, of all jobs."""

    options: Options
    largest: IntArray  #: (J,) the most workers of each; 1 if it has none
    margin_class: IntArray  #: (O,)
    places: IntArray  #: (O,) where each option is in the table; see `OptionTable.costs_at`


class OptionTable:
    """(NUM_LAYERS, rows, K) numbers; an option of 0 workers is none. K is the most options that a row had."""

    def __init__(self) -> None:
        self._values: FloatArray = np.zeros((NUM_LAYERS, 0, 1))
        self.is_changed = True  #: since it was last packed

    def write(self, row: int, options: JobOptions) -> None:
        """Set the options of a row, whose costs are not known then."""
        self.is_changed = True
        num, (_, num_rows, width) = len(options.workers), self._values.shape
        if row >= num_rows or num > width:
            more = max(16, 2 * row) - num_rows if row >= num_rows else 0
            self._values = np.pad(self._values, ((0, 0), (0, more), (0, max(num - width, 0))))
        self._values[:, row] = 0.0
        self._values[:START_S, row, :num] = options[:START_S]
        self._values[START_S:, row, :num] = np.nan

    def remove(self, row: int, last: int) -> None:
        """The row is gone; the last one takes its place."""
        self.is_changed = True
        self._values[:, row] = self._values[:, last]
        self._values[:, last] = 0.0

    def rate_per_s(self, row: int, num_workers: int) -> float:
        """Steps per second with this number of workers; 0 if the job may not have it."""
        sizes: list[float] = self._values[WORKERS, row].tolist()
        return float(self._values[RATE, row, sizes.index(num_workers)]) if num_workers in sizes else 0.0

    def is_uncharged(self, num_rows: int) -> BoolArray:
        """(num_rows,) rows whose options have no costs yet."""
        is_uncharged: BoolArray = np.isnan(self._values[START_S, :num_rows, 0])
        return is_uncharged

    def of_rows(self, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the options of some rows, one row after the other.

        Returns:
            (P,) places in the table, (P,) which of these rows has each, and (P,) workers.
        """
        sizes = self._values[WORKERS, rows]
        of, level = sizes.nonzero()
        return rows[of] * self._values.shape[2] + level, of, sizes[of, level].astype(np.int64)

    def charge(self, places: IntArray, costs_s: tuple[FloatArray, FloatArray]) -> None:
        """(P,) options cost so much from now on: a launch at each, and a resize to it."""
        self._values.reshape(NUM_LAYERS, -1)[START_S:, places] = costs_s

    def costs_at(self, places: IntArray) -> tuple[FloatArray, FloatArray]:
        """(O,) costs of a launch at each of `PackedOptions.places`, and of a resize to it."""
        start_s, resize_s = read_only(self._values.reshape(NUM_LAYERS, -1)[START_S:].take(places, axis=1))
        return start_s, resize_s

    def pack(self, devices_per_worker: IntArray, most_devices: IntArray) -> PackedOptions:
        """Return the options of the first J rows, without those that take too many devices.

        Args:
            devices_per_worker: (J,)
            most_devices: (J,) the most devices that an option of each row may take.
        """
        sizes, most_workers = self._values[WORKERS, : len(most_devices)], most_devices // devices_per_worker
        is_there = (sizes > 0) & (sizes <= most_workers.astype(np.float64)[:, None])
        places, num = is_there.ravel().nonzero()[0], is_there.sum(axis=1)
        layers = self._values.reshape(NUM_LAYERS, -1)
        rate_per_s, efficiency = read_only(layers[RATE:START_S].take(places, axis=1))
        workers, global_batch, margin_class = read_only(layers[:RATE].take(places, axis=1).astype(np.int64))
        starts, largest = np.concatenate([[0], num.cumsum()]), np.ones(len(num), dtype=np.int64)
        largest[num > 0] = workers[starts[1:][num > 0] - 1]
        self.is_changed = False
        options = Options(
            starts=read_only(starts),
            workers=workers,
            devices=read_only(workers * devices_per_worker.repeat(num)),
            global_batch=global_batch,
            rate_per_s=rate_per_s,
            efficiency=efficiency,
        )
        return PackedOptions(options, largest, margin_class, places)
