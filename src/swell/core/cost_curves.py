"""The cost table at every size, measured there or not, for all jobs at once.

Each row of the table is drawn as lines over log2 of the devices, straight between the sizes that were
measured. Gains are weighed with medians: a kind's own, else its family's. Promises are made with the dearest:
where few jobs of a kind were measured at a size, a change costs no less than its family's there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray, each
from swell.core.cost_table import (
    CHANGES,
    CROWDED_WORKERS,
    CROWDING_SHARE,
    NUM_CELLS,
    RESIZE_S,
    TRIAL_SPREAD,
    CostRow,
    CostTable,
    SizeCosts,
    cell_of,
    family_of,
    kind_of,
)
from swell.model.job import Elasticity, JobSpec, Profile
from swell.model.resize import CostKind

#: Lines of a row: the median of each change; the most of starts and resizes; and whether that is known.
START, WAIT, GROWTH, SHRINK = range(len(CHANGES))
MOST_START, MOST_RESIZE, IS_STARTED, IS_RESIZED, NUM_LINES = range(len(CHANGES), len(CHANGES) + 5)
#: So many jobs have to be measured at a size to know a kind there, and a family.
NUM_OF_KIND, NUM_OF_FAMILY = 8, 3
#: Below every cost. Finite, for lines between it and others are drawn.
NO_COST_S = -1e15
#: What tells of a change where it was not measured: of a kind, and of a family.
INSTEAD_IN_KIND: Mapping[CostKind, CostKind] = {"wait": "start"}
INSTEAD_IN_FAMILY: Mapping[CostKind, CostKind] = {"wait": "start", "growth": "shrink", "shrink": "growth"}


class Prior(NamedTuple):
    """What changes are taken to cost where nothing was ever measured, beyond profiles."""

    start_s: float
    most_start_s: float
    resize_s: float
    most_resize_s: float
    instead: Mapping[CostKind, CostKind]
    num_to_know: int  #: jobs that have to be measured at a size to know the kind or family there


#: A kind of which nothing is known costs what its family does.
NO_PRIOR = Prior(math.nan, NO_COST_S, math.nan, NO_COST_S, INSTEAD_IN_KIND, NUM_OF_KIND)


class CostCurves:
    """The lines of those kinds that jobs of a table of jobs have, and of their families.

    `lines` is (rows, NUM_LINES, NUM_CELLS).
    """

    def __init__(self) -> None:
        self.lines: FloatArray = np.zeros((0, NUM_LINES, NUM_CELLS))
        self._row: dict[str, int] = {}
        self._num_jobs: dict[str, int] = {}
        self._free: list[int] = []
        self._table: CostTable | None = None
        self._new: set[str] = set()  #: not drawn yet

    def join(self, name: str) -> int:
        """The row of the kind or family, which one more job has."""
        self._num_jobs[name] = self._num_jobs.get(name, 0) + 1
        if name not in self._row:
            if not self._free:
                num = len(self.lines)
                self.lines = np.pad(self.lines, ((0, max(8, num)), (0, 0), (0, 0)))
                self._free = list(range(num, len(self.lines)))
            self._row[name] = self._free.pop()
            self._new.add(name)
        return self._row[name]

    def leave(self, name: str) -> None:
        """One job fewer has it."""
        self._num_jobs[name] -= 1
        if not self._num_jobs[name]:
            del self._num_jobs[name]
            self._free.append(self._row.pop(name))
            self._new.discard(name)

    def refresh(self, table: CostTable) -> list[int]:
        """Draw those lines again of which something else is known now.

        Returns rows in which what promises are made with is another.
        """
        changed = table.changed if table is self._table else {}
        others = list[int]()
        for name in changed.keys() | self._new if table is self._table else self._row.keys():
            if (row := self._row.get(name)) is not None:
                changes = CHANGES if name in self._new else changed.get(name, CHANGES)
                if _draw(self.lines[row], table, name, changes):
                    others.append(row)
        self._table = table
        self._new.clear()
        table.changed.clear()
        return others

    def most_s(
        self,
        workers: IntArray,
        devices: IntArray,
        kinds: IntArray,
        families: IntArray,
        alone_s: FloatArray,
        copy_s: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """(P,) what a launch costs at most, and a resize of a running gang to that size.

        Args:
            workers, devices: (P,) of each size.
            kinds, families: (P,) rows of its job.
            alone_s, copy_s: (P,) start of one worker, and sending the state, by the profile of its job.
        """
        places = _places(int(devices.max(initial=1)).bit_length())[devices]
        own, of_family = self._at(kinds, places), self._at(families, places)
        is_start_known, is_resize_known = (own[:, IS_STARTED:] > 0.0).T
        is_family_started, is_family_resized = (of_family[:, IS_STARTED:] > 0.0).T
        spread = np.where(is_start_known | is_family_started, 1.0, TRIAL_SPREAD)
        profiled_s = spread * crowded_s(alone_s, workers)
        bound_s = np.where(is_start_known, NO_COST_S, of_family[:, MOST_START])
        start_s = np.maximum(profiled_s + np.maximum(own[:, MOST_START], bound_s), 0.0)
        bound_s = np.where(is_resize_known, NO_COST_S, of_family[:, MOST_RESIZE])
        resize_s = copy_s + np.maximum(own[:, MOST_RESIZE], bound_s)
        resize_s = np.where(is_resize_known | is_family_resized, resize_s, np.maximum(resize_s, start_s))
        return start_s, np.maximum(resize_s, 0.0)

    def _at(self, rows: IntArray, places: FloatArray) -> FloatArray:
        """(P, NUM_LINES) all lines of these (P,) rows at these (P,) places among the cells."""
        cells = places.astype(np.int64)
        shares, by_cell = places - cells, self.lines.transpose(0, 2, 1).reshape(-1, NUM_LINES)
        at = rows * NUM_CELLS + cells
        costs_s: FloatArray = by_cell[at]
        if shares.any():
            costs_s += shares[:, None] * (by_cell[at + (shares > 0.0)] - costs_s)
        return costs_s

    def medians_s(
        self, kinds: IntArray, families: IntArray, devices: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """(4, J) medians beyond the profile at as many (4, J) sizes, by change: of each job's kind, NaN where
        nothing was measured, and of its family.
        """
        cells = np.minimum(np.frexp(devices - 1)[1], NUM_CELLS - 1)
        changes = np.arange(len(CHANGES))[:, None]
        return self.lines[kinds, changes, cells], self.lines[families, changes, cells]


@lru_cache(maxsize=NUM_CELLS + 1)
def _places(num_bits: int) -> FloatArray:
    """Where each number of devices of so many bits stands among the cells."""
    places = np.minimum(each(math.log2, np.maximum(np.arange(1 << num_bits), 1)), NUM_CELLS - 1)
    places.setflags(write=False)
    return places


def crowded_s(alone_s: FloatArray, workers: IntArray) -> FloatArray:
    """What profiles say of launches of so many workers."""
    profiled_s: FloatArray = alone_s * (1.0 + CROWDING_SHARE * (np.minimum(workers, CROWDED_WORKERS) - 1))
    return profiled_s


def expected_s(
    table: CostTable, change: CostKind, spec: JobSpec, profile: Profile | None, num_workers: int
) -> float:
    """What a change of a job to so many workers should cost: measured, else stated, else as of other jobs."""
    kind, cell = kind_of(spec, profile), cell_of(num_workers * spec.devices_per_worker)
    beyond_s = _median_s(table.kinds.get(kind), change, cell, NO_PRIOR)
    stated_s = stated_pause_s(change, spec, profile)
    if not math.isnan(stated_s) and (spec.keeps_estimates or math.isnan(beyond_s)):
        return stated_s
    if math.isnan(beyond_s):
        family = family_of(kind)
        beyond_s = _median_s(table.families.get(family), change, cell, _prior(family))
    return max(0.0, beyond_s + table.profiled_s(change, profile, spec, num_workers))


def _median_s(row: CostRow | None, change: CostKind, cell: int, prior: Prior) -> float:
    """What is measured of a kind or a family at the size of the cell; the prior if nothing is."""
    return _median_line({} if row is None else row.sizes, change, prior)[cell]


def family_s(table: CostTable, family: str, change: CostKind) -> float:
    """What a change of a small job of the family is expected to cost, beyond its profile."""
    return _median_s(table.families.get(family), change, cell_of(2), _prior(family))


def stated_pause_s(change: CostKind, spec: JobSpec, profile: Profile | None) -> float:
    """What the owner, else the profile, says beforehand that a resize costs; NaN if neither does."""
    if change not in ("growth", "shrink"):
        return math.nan
    stated_s = spec.resize_up_s if change == "growth" else spec.resize_down_s
    if stated_s is None and profile is not None:
        stated_s = profile.growth_s if change == "growth" else profile.shrink_s
    return math.nan if stated_s is None else stated_s


# ---------------------------------------------------------------- how lines are drawn
def _draw(lines: FloatArray, table: CostTable, name: str, changes: Iterable[CostKind]) -> bool:
    """Draw the lines of a kind or a family, (NUM_LINES, NUM_CELLS), of which these changes are to tell.

    Returns whether what promises are made with is another.
    """
    is_family = name == family_of(name)
    row = (table.families if is_family else table.kinds).get(name)
    sizes, prior = {} if row is None else row.sizes, _prior(name) if is_family else NO_PRIOR
    is_other = False
    if "start" in changes:
        most_s = _most_line(sizes.get("start", {}), prior.most_start_s)
        is_known = _known_line(sizes.get("start", {}), prior.num_to_know)
        lines[START] = _median_line(sizes, "start", prior)
        is_other |= _put(lines, MOST_START, most_s) | _put(lines, IS_STARTED, is_known)
    if "start" in changes or "wait" in changes:  # each change tells of another that was not measured
        lines[WAIT] = _median_line(sizes, "wait", prior)
    if "growth" in changes or "shrink" in changes:
        resizes = _both(sizes.get("growth", {}), sizes.get("shrink", {}))
        lines[GROWTH] = _median_line(sizes, "growth", prior)
        lines[SHRINK] = _median_line(sizes, "shrink", prior)
        is_other |= _put(lines, MOST_RESIZE, _most_line(resizes, prior.most_resize_s))
        is_other |= _put(lines, IS_RESIZED, _known_line(resizes, prior.num_to_know))
    return is_other


def _put(lines: FloatArray, at: int, line: list[float]) -> bool:
    """Whether it is another one."""
    if lines[at].tolist() == line:
        return False
    lines[at] = line
    return True


@cache
def _prior(family: str) -> Prior:
    """What changes of a family are taken to cost. There are few families."""
    start_s, most_start_s = (0.3, 0.3) if family.endswith(" timed") else (1.0, 20.0)
    resize_s = 5.0 if family.startswith(Elasticity.RESTART) else RESIZE_S
    return Prior(start_s, most_start_s, resize_s, resize_s, INSTEAD_IN_FAMILY, NUM_OF_FAMILY)


def _both(growths: dict[int, SizeCosts], shrinks: dict[int, SizeCosts]) -> dict[int, SizeCosts]:
    """What a resize to each size took at most, of how many jobs."""
    resizes = dict(growths)
    for cell, costs in shrinks.items():
        if known := growths.get(cell):
            costs = SizeCosts(math.nan, max(costs.most_s, known.most_s), max(costs.num_jobs, known.num_jobs))
        resizes[cell] = costs
    return resizes


def _median_line(sizes: dict[CostKind, dict[int, SizeCosts]], change: CostKind, prior: Prior) -> list[float]:
    """Level outside of what was measured."""
    measured = sizes.get(change) or sizes.get(prior.instead.get(change, change))
    if not measured:
        return [prior.start_s if change in ("start", "wait") else prior.resize_s] * NUM_CELLS
    return _line({cell: costs.median_s for cell, costs in measured.items()}, 0.0)


def _most_line(sizes: dict[int, SizeCosts], prior_s: float) -> list[float]:
    """It rises above the largest size that was measured."""
    if not sizes:
        return [prior_s] * NUM_CELLS
    most_s = {cell: costs.most_s for cell, costs in sizes.items()}
    return _line(most_s, _rise_s(most_s))


def _known_line(sizes: dict[int, SizeCosts], num_to_know: int) -> list[float]:
    """1 where so many jobs were measured; between two sizes, where their line says so."""
    if not sizes:
        return [0.0] * NUM_CELLS
    num, last = _line({cell: costs.num_jobs for cell, costs in sizes.items()}, 0.0), max(sizes)
    return [float(cell <= last and num[cell] >= num_to_know) for cell in range(NUM_CELLS)]


def _line(knots: Mapping[int, float], rise: float) -> list[float]:
    """(NUM_CELLS,) straight between knots, level below the first, rising above the last."""
    cells = sorted(knots)
    last = cells[-1]
    between = [
        knots[cell] + (knots[above] - knots[cell]) / (above - cell) * step
        for cell, above in pairwise(cells)
        for step in range(above - cell)
    ]
    beyond = [knots[last] + rise * step for step in range(NUM_CELLS - last)]
    return [knots[cells[0]]] * cells[0] + between + beyond


def _rise_s(knots: Mapping[int, float]) -> float:
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
