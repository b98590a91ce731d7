"""Upper costs at every size, measured there or not.

What was measured of a kind are the knots of its curve over log2 of the devices. It is straight between two
knots. Beyond the first and the last it goes as the curve of its family, above the last at least as steeply as
it did before. The curve of a family counts what changes cost beyond what profiles say, so it holds for
jobs of which nothing was measured. Where few jobs of a kind were measured, it costs no less than its family.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray, each
from swell.core.cost_table import (
    CROWDED_WORKERS,
    CROWDING_SHARE,
    NUM_CELLS,
    STATE_BYTES_PER_S,
    TRIED_FAMILY,
    ChangeKindCosts,
    CostTable,
    SizeCosts,
    cells_of,
    family_of,
)
from swell.model.job import Elasticity

#: Below every cost. Finite, for it is added to other costs.
NO_COST_S = -1e15
#: Of a launch beyond what its profile says, where no trial run has launched a group; and without a profile.
TIMED_START_S, UNTIMED_START_S = 0.3, 20.0
#: Until some launches were measured, one is taken to cost up to so many times what trial runs measured: they
#: start the script and each group once, and the next start may meet a busier machine.
LAUNCH_SPREAD = 2.0
#: Of a resize, beyond copying the state; and of one where every process stops and starts.
LIVE_RESIZE_S, RESTART_RESIZE_S = 0.1, 5.0

NOTHING = ChangeKindCosts()


class FamilyCurve(NamedTuple):
    costs_s: list[float]  #: (NUM_CELLS,) beyond what the profile says
    median_s: list[float]  #: (NUM_CELLS,) the same of half the jobs; empty if not enough are known
    is_known: list[bool]  #: (NUM_CELLS,) it, or the sizes around it, were measured of enough jobs


class FamilyCurves(NamedTuple):
    starts: FamilyCurve
    resizes: FamilyCurve
    untried_s: list[float]  #: (NUM_CELLS,) of a group without a script; NO_COST_S where launches are known


class KindCurve(NamedTuple):
    costs_s: list[float]  #: (NUM_CELLS,) NO_COST_S if nothing was measured
    beyond_s: list[
        float
    ]  #: (NUM_CELLS,) no less than this beyond the profile; NO_COST_S: needs no such bound


class CostCurves:
    """The curves of those kinds that jobs of the table have, as rows of `curves`.

    `curves` is (kinds, 6, NUM_CELLS): both columns of the `KindCurve` of starts, both of resizes, 0 where a
    resize is so little known that it has to be expected to cost as much as a start, else NO_COST_S, and
    `FamilyCurves.untried_s`.
    """

    def __init__(self) -> None:
        self.curves: FloatArray = np.zeros((0, 6, NUM_CELLS))
        self._row: dict[str, int] = {}
        self._num_jobs: dict[str, int] = {}
        self._free: list[int] = []
        self._families: dict[str, FamilyCurves] = {}
        self._table: CostTable | None = None
        self._version = 0  #: of the table, when the curves were drawn
        self._new: set[str] = set()  #: kinds not drawn yet
        self._empty: set[str] = set()  #: kinds that were drawn when nothing was measured of them

    def join(self, kind: str) -> int:
        """The row of the kind, which one more job has."""
        self._num_jobs[kind] = self._num_jobs.get(kind, 0) + 1
        if kind not in self._row:
            if not self._free:
                num = len(self.curves)
                self.curves = np.pad(self.curves, ((0, max(8, num)), (0, 0), (0, 0)))
                self._free = list(range(num, len(self.curves)))
            self._row[kind] = self._free.pop()
            self._new.add(kind)
        return self._row[kind]

    def leave(self, kind: str) -> None:
        """One job fewer has it."""
        self._num_jobs[kind] -= 1
        if not self._num_jobs[kind]:
            del self._num_jobs[kind]
            self._free.append(self._row.pop(kind))
            self._new.discard(kind)
            self._empty.discard(kind)

    def refresh(self, table: CostTable) -> list[int]:
        """Draw those curves again of which something else is known now.

        Returns rows of the kinds whose curves are others now.
        """
        if table is self._table and table.version == self._version and not self._new:
            return []
        due = [kind for kind in self._row if self._is_due(table, kind)]
        if table is not self._table:
            self._families.clear()
        for name in [
            name for name in self._families if table.families.get(name, NOTHING).version > self._version
        ]:
            del self._families[name]
        others = []
        for kind in due:
            measured, row = table.kinds.get(kind), self._row[kind]
            curves = _curves(measured or NOTHING, self._family_curves(kind, table))
            if not (curves == self.curves[row]).all():
                self.curves[row] = curves
                others.append(row)
            (self._empty.add if measured is None else self._empty.discard)(kind)
        self._table, self._version = table, table.version
        self._new.clear()
        return others

    def _family_curves(self, kind: str, table: CostTable) -> FamilyCurves:
        name = family_of(kind)
        if name not in self._families:
            launch_s = table.group_launch_s if name == TRIED_FAMILY else {}
            self._families[name] = _family_curves(name, table.families.get(name, NOTHING), launch_s)
        return self._families[name]

    def _is_due(self, table: CostTable, kind: str) -> bool:
        if table is not self._table or kind in self._new:
            return True
        measured = table.kinds.get(kind)
        if measured is None and kind not in self._empty:
            return True
        family = table.families.get(family_of(kind), NOTHING)
        return max(family.version, (measured or NOTHING).version) > self._version

    def costs_of(
        self,
        workers: IntArray,
        devices: IntArray,
        kinds: IntArray,
        alone_s: FloatArray,
        copied_bytes: FloatArray,
        is_restart: IntArray,
    ) -> tuple[FloatArray, FloatArray]:
        """(P,) what a launch costs at most, and a resize of a running gang to that size.

        Args:
            workers, devices: (P,) of each size.
            kinds: (P,) row of the kind of its job.
            alone_s, copied_bytes: (P,) of the profile of its job; 0 where there is none.
            is_restart: (P,) the job stops for a resize.
        """
        uppers_s = self._at(kinds, _places(int(devices.max(initial=1)).bit_length())[devices])
        crowd = np.minimum(workers, CROWDED_WORKERS) - 1
        profiled_s = alone_s * (1.0 + CROWDING_SHARE * crowd)
        copy_s = np.where(is_restart, 0.0, copied_bytes / STATE_BYTES_PER_S)
        start_s = np.maximum(uppers_s[:, 0], profiled_s + uppers_s[:, 1])
        start_s = np.maximum(start_s, LAUNCH_SPREAD * (profiled_s + uppers_s[:, 5]))
        start_s = np.maximum(start_s, 0.0)
        resize_s = np.maximum(uppers_s[:, 2], copy_s + uppers_s[:, 3])
        resize_s = np.maximum(resize_s, start_s + uppers_s[:, 4])
        return start_s, np.maximum(resize_s, 0.0)

    def _at(self, kinds: IntArray, places: FloatArray) -> FloatArray:
        """(P, 6) each of the curves of these (P,) kinds at these (P,) places among the cells."""
        cells = places.astype(np.int64)
        shares, by_cell = places - cells, self.curves.transpose(0, 2, 1).reshape(-1, self.curves.shape[1])
        at = kinds * NUM_CELLS + cells
        uppers_s: FloatArray = by_cell[at]
        if shares.any():
            uppers_s += shares[:, None] * (by_cell[at + (shares > 0.0)] - uppers_s)
        return uppers_s


# ---------------------------------------------------------------- how curves are drawn
def _curves(kind: ChangeKindCosts, family: FamilyCurves) -> FloatArray:
    """(6, NUM_CELLS), see `CostCurves`."""
    starts, resizes = _kind_curve(kind.starts, family.starts), _kind_curve(kind.resizes, family.resizes)
    as_start_s = [
        NO_COST_S if is_known or beyond_s == NO_COST_S else 0.0
        for is_known, beyond_s in zip(family.resizes.is_known, resizes.beyond_s, strict=True)
    ]
    return np.array([*starts, *resizes, as_start_s, family.untried_s])


def _family_curves(name: str, costs: ChangeKindCosts, group_launch_s: Mapping[int, float]) -> FamilyCurves:
    is_timed, is_restart = name.endswith(" timed"), name.startswith(Elasticity.RESTART)
    start_s = TIMED_START_S if is_timed else UNTIMED_START_S
    starts = _family_curve(costs.starts, start_s)
    resizes = _family_curve(costs.resizes, RESTART_RESIZE_S if is_restart else LIVE_RESIZE_S)
    return FamilyCurves(starts, resizes, _untried_s(starts, group_launch_s))


def _untried_s(starts: FamilyCurve, group_launch_s: Mapping[int, float]) -> list[float]:
    """(NUM_CELLS,) what trial runs say of a launch, beside the script's part, where few were measured."""
    if not group_launch_s:
        return [NO_COST_S] * NUM_CELLS
    line = _line({cells_of(num)[-1]: launch_s for num, launch_s in sorted(group_launch_s.items())})
    return [NO_COST_S if is_known else cost_s for cost_s, is_known in zip(line, starts.is_known, strict=True)]


def _family_curve(costs: SizeCosts, prior_s: float) -> FamilyCurve:
    """A size that few jobs were measured at costs no less than its neighbours say."""
    uppers = costs.uppers
    if not uppers:
        return FamilyCurve([prior_s] * NUM_CELLS, [], [False] * NUM_CELLS)
    known = {cell: upper.usual_s for cell, upper in uppers.items() if upper.is_family_known}
    knots = {cell: upper.usual_s for cell, upper in uppers.items()}
    if known:
        among_known = _line(known)
        knots = {cell: known.get(cell, max(cost_s, among_known[cell])) for cell, cost_s in knots.items()}
    medians = {cell: uppers[cell].median_s for cell in known}
    median_s = _line(medians, is_level=True) if medians else []
    is_known = _known({cell: upper.is_family_known for cell, upper in uppers.items()})
    return FamilyCurve(_line(knots), median_s, is_known)


def _kind_curve(costs: SizeCosts, family: FamilyCurve) -> KindCurve:
    uppers, of_family_s = costs.uppers, family.costs_s
    if not uppers:
        return KindCurve([NO_COST_S] * NUM_CELLS, of_family_s)
    knots = {cell: upper.cost_s for cell, upper in uppers.items()}
    first, last, rise_s = min(knots), max(knots), _rise_s(knots) if len(knots) > 1 else 0.0
    line = _line(knots)
    if family.median_s:
        for cell in range(first):
            line[cell] -= _drop_s(knots[first], family.median_s[first], of_family_s[cell])
    for cell in range(last + 1, NUM_CELLS):
        line[cell] = knots[last] + max(rise_s * (cell - last), of_family_s[cell] - of_family_s[last])
    is_known = _known({cell: upper.is_kind_known for cell, upper in uppers.items()})
    bounds = [NO_COST_S if known else cost_s for known, cost_s in zip(is_known, of_family_s, strict=True)]
    return KindCurve(line, bounds)


def _drop_s(cost_s: float, median_s: float, upper_below_s: float) -> float:
    """Seconds by which a kind costs less at a smaller size than at its smallest measured size.

    That is the difference between the family's median at the measured size and its upper cost at the smaller
    one: an expensive kind is taken to be expensive at all sizes. The share is no larger than in the family.
    """
    if median_s <= 0.0 or upper_below_s >= median_s:
        return 0.0
    most_share = 1.0 - max(upper_below_s, 0.0) / median_s
    return min(median_s - upper_below_s, most_share * cost_s)


def _line(knots: dict[int, float], *, is_level: bool = False) -> list[float]:
    """(NUM_CELLS,) straight between knots, level below them; above them level, or as `_rise_s` says."""
    cells = sorted(knots)
    line = [knots[cells[0]]] * cells[0]
    for cell, next_cell in pairwise(cells):
        rise_s = (knots[next_cell] - knots[cell]) / (next_cell - cell)
        line += [knots[cell] + rise_s * step for step in range(next_cell - cell)]
    last, rise_s = cells[-1], 0.0 if is_level else _rise_s(knots)
    return line + [knots[last] + rise_s * step for step in range(NUM_CELLS - last)]


def _rise_s(knots: dict[int, float]) -> float:
    """Seconds by which a cost rises with each doubling of devices above the last knot.

    It is the steeper of two slopes: between the last two knots, and from the first knot to the last. With one
    knot, the first device is taken to cost as much as each doubling up to the knot.
    """
    cells = sorted(knots)
    first, last = cells[0], cells[-1]
    if first == last:
        return max(0.0, knots[last] / (1 + last))
    rises_s = [(knots[last] - knots[cell]) / (last - cell) for cell in (first, cells[-2])]
    return max(0.0, *rises_s)


def _known(is_known: Mapping[int, bool]) -> list[bool]:
    """(NUM_CELLS,) those that are known by themselves, or lie between two such cells, or below the first."""
    known, next_cell, is_known_below = [False] * NUM_CELLS, 0, True
    for cell in sorted(is_known):
        known[next_cell:cell] = [is_known_below and is_known[cell]] * (cell - next_cell)
        known[cell] = is_known_below = is_known[cell]
        next_cell = cell + 1
    return known


# ---------------------------------------------------------------- and read
@lru_cache(maxsize=NUM_CELLS + 1)
def _places(num_bits: int) -> FloatArray:
    """Where each number of devices of so many bits stands among the cells."""
    places = np.minimum(each(math.log2, np.maximum(np.arange(1 << num_bits), 1)), NUM_CELLS - 1)
    places.setflags(write=False)
    return places
