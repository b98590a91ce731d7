"""How jobs may run, as rows of different lengths: an event touches one, a snapshot packs them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import suited
from swell.model.options import Options

#: Places for new rows, at least.
LEAST_ROOM = 1024


class JobOptions(NamedTuple):
    """How one job may run, by ascending size, on a cluster that is large enough."""

    workers: IntArray  #: (n,)
    global_batch: IntArray  #: (n,) samples of a step; 0: the job's own batch
    rate_per_s: FloatArray  #: (n,) > 0
    efficiency: FloatArray  #: (n,) see `Options`
    margin_class: IntArray  #: (n,) which margin a plan at this rate has; see `ports.Belief`
    one_worker_per_s: float = 0.0  #: at the batch that is best for it; 0: not possible, or not known


class PackedOptions(NamedTuple):
    options: Options
    largest: IntArray  #: (J,) the most workers of each; 1 if it has none
    places: IntArray  #: (O,) where each option is in the table; see `OptionTable.costs_at`


class OptionRows(NamedTuple):
    """The options of some rows, one row after the other."""

    places: IntArray  #: (P,) in the table
    of: IntArray  #: (P,) which of these rows has it
    workers: IntArray  #: (P,)


class OptionTable:
    """Each row has a stretch of flat columns. A new one is put behind the last; now and then all move up."""

    def __init__(self) -> None:
        self._at: IntArray = np.zeros(0, dtype=np.int64)  #: (rows,) where the stretch of each begins
        self._num: IntArray = np.zeros(0, dtype=np.int64)  #: (rows,) how long it is
        self._ints: IntArray = np.zeros((3, 0), dtype=np.int64)  #: workers, global batch, margin class
        self._floats: FloatArray = np.zeros((2, 0))  #: rates and efficiencies
        self._costs: FloatArray = np.zeros((2, 0))  #: of a launch, and of a resize, as they were charged
        self.uncharged: set[int] = set()  #: rows whose options have no costs yet
        self._end = 0  #: of what is in use, and of what was given up
        self._rate_of: dict[int, dict[int, float]] = {}  #: of rows that were asked for, by workers
        self.is_changed = True  #: since it was last packed

    def write(self, row: int, options: JobOptions) -> None:
        """The row's options from now on."""
        self._forget(row)
        self.uncharged.add(row)
        num = len(options.workers)
        if row >= len(self._at):
            more = max(16, 2 * row) - len(self._at)
            self._at, self._num = np.pad(self._at, (0, more)), np.pad(self._num, (0, more))
        if num > self._num[row]:
            self._num[row] = 0
            if self._end + num > self._floats.shape[1]:
                self._make_room(num)
            self._at[row], self._end = self._end, self._end + num
        place = slice(self._at[row], self._at[row] + num)
        self._ints[0, place], self._ints[1, place] = options.workers, options.global_batch
        self._ints[2, place] = options.margin_class
        self._floats[0, place], self._floats[1, place] = options.rate_per_s, options.efficiency
        self._num[row] = num

    def remove(self, row: int, last: int) -> None:
        """The row is gone; the last one takes its place."""
        self._forget(row)
        self.uncharged.discard(row)
        if row == last:
            return
        self._forget(last)
        if last in self.uncharged:
            self.uncharged.remove(last)
            self.uncharged.add(row)
        self._at[row], self._num[row] = self._at[last], self._num[last]
        self._num[last] = 0

    def rate_per_s(self, row: int, num_workers: int) -> float:
        """Steps per second with this number of workers; 0 if the job may not have it."""
        rates = self._rate_of.get(row)
        if rates is None:
            run = slice(self._at[row], self._at[row] + self._num[row])
            pairs = zip(self._ints[0, run].tolist(), self._floats[0, run].tolist(), strict=True)
            rates = self._rate_of[row] = dict(pairs)
        return rates.get(num_workers, 0.0)

    def stretch(self, rows: IntArray) -> OptionRows:
        """The options of these rows."""
        num = self._num[rows]
        of = np.repeat(np.arange(len(rows)), num)
        places = np.arange(len(of)) + (self._at[rows] + num - np.cumsum(num))[of]
        return OptionRows(places, of, self._ints[0, places])

    def charge(self, places: IntArray, costs: tuple[FloatArray, FloatArray]) -> None:
        """(P,) options cost so much from now on: a launch at each, and a resize to it."""
        self._costs[:, places] = costs

    def costs_at(self, places: IntArray) -> FloatArray:
        """(2, O) of `PackedOptions.places`."""
        costs: FloatArray = self._costs.take(places, axis=1)  # in C order, as loops take it
        return costs

    def margins_at(self, places: IntArray, margins: FloatArray) -> FloatArray:
        """(O,) of `PackedOptions.places`, of margins by class."""
        at: FloatArray = margins[self._ints[2, places]]
        return at

    def _forget(self, row: int) -> None:
        self.is_changed = True
        self._rate_of.pop(row, None)

    def pack(self, devices_per_worker: IntArray, most_devices: IntArray) -> PackedOptions:
        """Return the options of the first J rows, without those that take too many devices.

        Args:
            devices_per_worker: (J,)
            most_devices: (J,) the most devices that an option of each row may take.
        """
        count = len(devices_per_worker)
        most = int(self._num[:count].sum())
        starts, largest = np.zeros(count + 1, dtype=np.int64), np.ones(count, dtype=np.int64)
        ints, floats = np.empty((4, most), dtype=np.int64), np.empty((2, most))
        suited(_pack, count)(
            self._at,
            self._num,
            self._ints,
            self._floats,
            devices_per_worker,
            most_devices,
            (starts, largest, ints, floats),
        )
        total = int(starts[-1])
        for column in (starts, largest, ints, floats):
            column.setflags(write=False)
        workers, devices, global_batch, places = ints[:, :total]
        options = Options(
            starts=starts,
            workers=workers,
            devices=devices,
            global_batch=global_batch,
            rate_per_s=floats[0, :total],
            efficiency=floats[1, :total],
        )
        self.is_changed = False
        return PackedOptions(options, largest, places)

    def _make_room(self, num: int) -> None:
        """Make room for `num` more options, and drop those that are no longer used."""
        stretches = [np.arange(at, at + num) for at, num in zip(self._at, self._num, strict=True)]
        kept = np.concatenate([*stretches, np.zeros(0, dtype=np.int64)])
        self._at = np.cumsum(self._num) - self._num
        self._end = len(kept)
        more = max(LEAST_ROOM, len(kept) + num)
        self._ints = np.pad(self._ints.take(kept, axis=1), ((0, 0), (0, more)))
        self._floats = np.pad(self._floats.take(kept, axis=1), ((0, 0), (0, more)))
        self._costs = np.pad(self._costs[:, kept], ((0, 0), (0, more)))


def _pack(
    at: IntArray,
    num: IntArray,
    ints: IntArray,
    floats: FloatArray,
    devices_per_worker: IntArray,
    most_devices: IntArray,
    columns: tuple[IntArray, IntArray, IntArray, FloatArray],
) -> None:
    """Write the columns of `Options`, without gaps."""
    starts, largest, packed, packed_floats = columns
    end = 0
    for row in range(len(devices_per_worker)):
        for place in range(at[row], at[row] + num[row]):
            devices = ints[0, place] * devices_per_worker[row]
            if devices > most_devices[row]:
                break
            packed[0, end], packed[1, end], packed[2, end] = ints[0, place], devices, ints[1, place]
            packed[3, end] = place
            packed_floats[0, end], packed_floats[1, end] = floats[0, place], floats[1, place]
            largest[row] = ints[0, place]
            end += 1
        starts[row + 1] = end
