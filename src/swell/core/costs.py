"""What starts and resizes cost: measured, by kind of script and log2 of the number of devices.

Gains are weighed with medians, promises are made with maxima. A row of the table has what was measured of
one kind of job, beyond what the profiles of its jobs say. A row for each family of kinds has the same of all
of them; it tells of kinds of which little was measured. Cell b of a row has changes to more than 2**(b - 1)
devices, and up to 2**b; between cells costs are straight lines. What jobs measure replaces what trial runs
of a machine measured, and priors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple, get_args

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray, read_only
from swell.core.progress import HoldTime
from swell.core.record import JobRecord
from swell.model.job import Elasticity, JobSpec, Profile
from swell.model.resize import CostKind

CHANGES: tuple[CostKind, ...] = get_args(CostKind)
#: Lines of a row: the median of each change; the most of starts and of resizes, and where these are known.
START, GROWTH, SHRINK, MOST_START, MOST_RESIZE, KNOWS_START, KNOWS_RESIZE, NUM_LINES = range(8)
#: Those of starts, and those of resizes; promises are made with the last two of each.
OF_STARTS, OF_RESIZES = [START, MOST_START, KNOWS_START], [GROWTH, SHRINK, MOST_RESIZE, KNOWS_RESIZE]
#: From 1 to 2**16 devices.
NUM_CELLS = 17
#: Jobs whose changes to a size are remembered, and changes of each that count for what is expected.
NUM_JOBS, NUM_OWN = 16, 5
#: So many jobs have to be measured at a size to know a kind there, and a family.
NUM_OF_KIND, NUM_OF_FAMILY = 8, 3
#: Launches whose waits for devices are remembered.
NUM_WAITS = 8
#: What was measured longer ago is forgotten when something is measured.
MEMORY_S = 7 * 86_400.0
#: Kinds and families that are remembered: those that were measured last.
NUM_ROWS = 100

#: The family of jobs that have trial runs, and that of most which have none.
TRIED_FAMILY, UNTRIED_FAMILY = f"{Elasticity.LIVE} timed", f"{Elasticity.RESTART} untimed"
#: Until jobs were measured, a change is taken to cost up to so many times what trial runs measured: they
#: start the script and each group once, and the next start may meet a busier machine.
TRIAL_SPREAD = 2.0
#: What a resize takes beside sending the state: to meet at a step's end, and to step again in a group that
#: has formed meanwhile.
RESIZE_S = 0.1
#: In a pause a worker gets the job's state, or its part of it; until a trial run has measured it, this much.
STATE_S_PER_BYTE = 1e-9
#: Workers of one node start side by side: each delays the first one by this share, up to so many.
CROWDING_SHARE, CROWDED_WORKERS = 0.25, 8
#: Below every cost. Finite, for lines between it and others are drawn.
NO_COST_S = -1e15
#: What changes of a family are taken to cost until some were measured, in the order of lines.
PRIORS: dict[str, tuple[float, ...]] = {
    f"{elasticity} {is_timed}": (start_s, resize_s, resize_s, most_start_s, resize_s)
    for elasticity, resize_s in ((Elasticity.LIVE, RESIZE_S), (Elasticity.RESTART, 5.0))
    for is_timed, start_s, most_start_s in (("timed", 0.3, 0.3), ("untimed", 1.0, 20.0))
}
#: A kind of which nothing was measured costs what its family does.
NO_PRIOR = (math.nan, math.nan, math.nan, NO_COST_S, NO_COST_S)
#: Until it is known better, workers are believed to be taken once in so long a time.
PRIOR_HOLD_S = 600.0


Line = list[float]  #: (NUM_CELLS,)


class JobCosts(NamedTuple):
    """What one job's changes to one size took, beyond its profile."""

    job_id: str
    at_s: float  #: the latest
    most_s: float
    latest_s: tuple[float, ...]
    most_devices: int  #: at which `most_s` was measured


class SizeCosts(NamedTuple):
    """What changes of some jobs to one size took."""

    jobs: list[JobCosts]  #: in the order in which they were measured last
    median_s: float  #: of the latest changes of all
    most_s: float
    doublings: float  #: of one device, to those at which `most_s` was measured


class CostTable(msgspec.Struct, dict=True):
    """What is known of the costs of changes on the devices of one kind, and how long a size is held."""

    #: By kind or family, in the order in which they were measured last; by change; by cell.
    rows: dict[str, dict[CostKind, dict[int, SizeCosts]]] = {}
    trial_s: dict[int, float] = {}  #: starts of groups in trial runs, beyond the profile, by cell
    state_s_per_byte: float = STATE_S_PER_BYTE  #: to send a job's state to a newcomer
    #: How long each of the latest launches waited until others had left its devices.
    waits_s: tuple[float, ...] = ()
    tenure: HoldTime = msgspec.field(default_factory=HoldTime)  #: of jobs that have ended

    def __post_init__(self) -> None:
        #: Names of rows, and whether their starts have changed since lines were last drawn, or their resizes.
        self.changed: set[tuple[str, bool]] = set()

    @property
    def most_wait_s(self) -> float:
        """What a launch waits at most until others have left its devices."""
        return max(self.waits_s, default=0.0)

    def learn_wait(self, wait_s: float) -> None:
        """The next launch has waited so long."""
        self.waits_s = (*self.waits_s, wait_s)[-NUM_WAITS:]

    def learn_trial(self, profile: Profile) -> None:
        """A trial run has measured groups of workers, or found the figures of an earlier one."""
        self.trial_s |= {cell_of(num): cost_s for num, cost_s in profile.group_launch_s.items()}
        self.state_s_per_byte = profile.state_s_per_byte or self.state_s_per_byte
        self.changed.add((TRIED_FAMILY, True))

    def learn(
        self, change: CostKind, record: JobRecord, num_workers: int, cost_s: float, at_s: float
    ) -> None:
        """A change of the job to so many workers took so long."""
        spec, kind = record.spec, kind_of(record.spec, record.profile)
        num_devices, since_s = num_workers * spec.devices_per_worker, at_s - MEMORY_S
        cell = cell_of(num_devices)
        beyond_s = cost_s - self.profiled_s(change, record.profile, spec, num_workers)
        for name in (kind, family_of(kind)):
            row = self.rows[name] = self.rows.pop(name, {})
            sizes = {at: one for at, one in row.get(change, {}).items() if one.jobs[-1].at_s >= since_s}
            jobs = sizes[cell].jobs if cell in sizes else []
            known = {one.job_id: one for one in jobs if one.at_s >= since_s}
            own = known.pop(record.id, None) or JobCosts(record.id, at_s, beyond_s, (), num_devices)
            latest_s = (*own.latest_s, beyond_s)[-NUM_OWN:]
            most_s, most_devices = max((own.most_s, own.most_devices), (beyond_s, num_devices))
            latest = JobCosts(record.id, at_s, most_s, latest_s, most_devices)
            sizes[cell] = _sum_up([*known.values(), latest][-NUM_JOBS:])
            row[change] = sizes
            self.changed.add((name, change == "start"))
        while len(self.rows) > NUM_ROWS:
            forgotten = next(iter(self.rows))
            del self.rows[forgotten]
            self.changed |= both(forgotten)

    def profiled_s(self, change: CostKind, profile: Profile | None, spec: JobSpec, num_workers: int) -> float:
        """What a job's profile says of a change, which is known before any was measured."""
        if profile is None or change == "shrink":
            return 0.0
        if change == "growth":
            is_restart = spec.elasticity is Elasticity.RESTART
            return 0.0 if is_restart else profile.state_bytes * self.state_s_per_byte
        return float(crowded_s(profile.start_s, num_workers))

    def expected_s(self, change: CostKind, spec: JobSpec, profile: Profile | None, num_workers: int) -> float:
        """What a change of a job to so many workers should cost: measured, else stated, else as of others."""
        kind, cell = kind_of(spec, profile), cell_of(num_workers * spec.devices_per_worker)
        beyond_s, stated_s = self.medians_s(kind, change)[cell], stated_pause_s(change, spec, profile)
        if not math.isnan(stated_s) and (spec.keeps_estimates or math.isnan(beyond_s)):
            return stated_s
        if math.isnan(beyond_s):
            beyond_s = self.medians_s(family_of(kind), change)[cell]
        return max(0.0, beyond_s + self.profiled_s(change, profile, spec, num_workers))

    def hold_s(self, trained_s: FloatArray, num_taken: FloatArray) -> FloatArray:
        """(J,) time that workers given to each job now are expected to stay with it.

        Its own, to which that of all jobs adds one observation.

        Args:
            trained_s, num_taken: (J,) of each job that has not ended.
        """
        trained_by_all_s = self.tenure.total_s + float(trained_s.sum())
        of_all_s = (PRIOR_HOLD_S + trained_by_all_s) / (1.0 + self.tenure.num_taken + float(num_taken.sum()))
        expected_s: FloatArray = (of_all_s + trained_s) / (1.0 + num_taken)
        return expected_s

    # ------------------------------------------------------------ lines over all cells
    def lines(self, name: str, is_start: bool) -> list[Line]:
        """All that is known of a kind or family: OF_STARTS, or OF_RESIZES."""
        changes = CHANGES[:1] if is_start else CHANGES[1:]
        return [*(self.medians_s(name, change) for change in changes), *self._most_s(name, is_start)]

    def medians_s(self, name: str, change: CostKind) -> Line:
        """Median of a change beyond the profile; NaN for a kind of which none was measured."""
        row, is_start = self.rows.get(name, {}), change == "start"
        sizes = row.get(change)
        if sizes is None and name in PRIORS and not is_start:  # the other direction tells of a family
            sizes = row.get("shrink", row.get("growth"))
        medians_s = {cell: known.median_s for cell, known in sizes.items()} if sizes else {}
        if is_start and name == TRIED_FAMILY:
            medians_s = {**self.trial_s, **medians_s}
        return _line(medians_s, PRIORS.get(name, NO_PRIOR)[CHANGES.index(change)])

    def _most_s(self, name: str, is_start: bool) -> tuple[Line, Line]:
        """The most that a change costs beyond the profile, and whether that is known: 1 or 0.

        Growths and shrinks count together. The line rises above the largest size that was measured.
        """
        row, costs_s, num_jobs = self.rows.get(name, {}), dict[int, float](), dict[int, float]()
        doublings = dict[int, float]()
        for change in CHANGES[:1] if is_start else CHANGES[1:]:
            for cell, known in row.get(change, {}).items():
                if known.most_s > costs_s.get(cell, NO_COST_S):
                    costs_s[cell], doublings[cell] = known.most_s, known.doublings
                if (num := len(known.jobs)) > num_jobs.get(cell, 0):
                    num_jobs[cell] = num
        least = NUM_OF_FAMILY if name in PRIORS else NUM_OF_KIND
        is_known, beyond = [float(num >= least) for num in _line(num_jobs, 0.0)], max(num_jobs, default=0) + 1
        is_known[beyond:] = [0.0] * (NUM_CELLS - beyond)
        if is_start and name == TRIED_FAMILY:
            costs_s = {**{cell: TRIAL_SPREAD * cost_s for cell, cost_s in self.trial_s.items()}, **costs_s}
        prior = PRIORS.get(name, NO_PRIOR)[MOST_START if is_start else MOST_RESIZE]
        return _line(costs_s, prior, doublings), is_known


class CostCurves:
    """The lines of the kinds that jobs of a table of jobs have had, and of their families.

    `lines` is (rows, NUM_LINES, NUM_CELLS).
    """

    def __init__(self) -> None:
        self.lines: FloatArray = np.zeros((0, NUM_LINES, NUM_CELLS))
        self._row: dict[str, int] = {}
        self._table: CostTable | None = None
        self._new: set[tuple[str, bool]] = set()  #: not drawn yet

    def row(self, name: str) -> int:
        """Where the lines of the kind or family are, from the next `refresh` on."""
        if name not in self._row:
            self._row[name] = num = len(self._row)
            if num == len(self.lines):
                self.lines = np.pad(self.lines, ((0, max(8, num)), (0, 0), (0, 0)))
            self._new |= both(name)
        return self._row[name]

    def refresh(self, table: CostTable) -> list[int]:
        """Draw the lines of changed rows again.

        Returns rows in which what promises are made with is another.
        """
        due = self._new | table.changed if table is self._table else set().union(*map(both, self._row))
        others = [
            self._row[name] for name, part in due if name in self._row and self._draw(table, name, part)
        ]
        self._table = table
        self._new.clear()
        table.changed.clear()
        return others

    def _draw(self, table: CostTable, name: str, is_start: bool) -> bool:
        """Whether what promises are made with is another."""
        drawn, lines = self.lines[self._row[name]], table.lines(name, is_start)
        places = OF_STARTS if is_start else OF_RESIZES
        is_other: bool = drawn[places[-2:]].tolist() != lines[-2:]
        drawn[places] = lines
        return is_other

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

        Where few jobs of a kind were measured at a size, a change costs no less than its family's there; and
        where few of the family were, a resize no less than a launch.

        Args:
            workers, devices: (P,) of each size.
            kinds, families: (P,) rows of its job.
            alone_s, copy_s: (P,) start of one worker, and sending the state, by the profile of its job.
        """
        cells = cells_of(devices)
        own, of_family = self.lines[kinds, :, cells], self.lines[families, :, cells]
        is_known = (own[:, KNOWS_START:] > 0.0).T
        is_bounded = is_known | (of_family[:, KNOWS_START:] > 0.0).T
        most_s = own[:, MOST_START : MOST_RESIZE + 1].T
        most_s = np.where(is_known, most_s, np.maximum(most_s, of_family[:, MOST_START : MOST_RESIZE + 1].T))
        start_s = np.where(is_bounded[0], 1.0, TRIAL_SPREAD) * crowded_s(alone_s, workers) + most_s[0]
        start_s = np.maximum(start_s, 0.0)
        resize_s = copy_s + most_s[1]
        resize_s = np.where(is_bounded[1], resize_s, np.maximum(resize_s, start_s))
        return start_s, np.maximum(resize_s, 0.0)


def expected_costs(
    costs: CostTable, curves: CostCurves, columns: Mapping[str, Any], largest: IntArray
) -> dict[str, FloatArray]:
    """What the next change of each job is expected to cost.

    A launch at the largest size, for that takes longest; a growth to twice what is held; a shrink to half.

    Joiners are waited for as long as a launch at the new size takes.

    Args:
        largest: (J,) the most workers that each job may have.
    """
    held = columns["held_workers"]
    grown = np.minimum(np.maximum(2 * held, 1), largest)
    workers = np.array([largest, grown, np.maximum(held // 2, 1), grown])
    lines = np.array([START, GROWTH, SHRINK, START])[:, None]
    cells = cells_of(workers * columns["devices_per_worker"])
    beyond_s = curves.lines[columns["kind"], lines, cells]
    is_measured = ~np.isnan(beyond_s)
    beyond_s = np.where(is_measured, beyond_s, curves.lines[columns["family"], lines, cells])
    launch_s, _, _, wait_s = crowded_s(columns["own_start_s"], workers) + beyond_s
    growth_s, shrink_s = copy_s(costs, columns) + beyond_s[GROWTH], beyond_s[SHRINK]
    for change, cost_s, stated_s in (
        (GROWTH, growth_s, columns["stated_growth_s"]),
        (SHRINK, shrink_s, columns["stated_shrink_s"]),
    ):
        is_stated = ~np.isnan(stated_s)
        if is_stated.any():
            is_stated &= columns["keeps_stated"] | ~is_measured[change]
            cost_s[is_stated] = stated_s[is_stated]
    return {
        "growth_cost_s": read_only(np.maximum(growth_s, 0.0)),
        "shrink_cost_s": read_only(np.maximum(shrink_s, 0.0)),
        "resize_wait_s": read_only(np.where(columns["is_restart"], 0.0, np.maximum(wait_s, 0.0))),
        "start_cost_s": read_only(np.maximum(launch_s, 0.0)),
        "expected_hold_s": read_only(costs.hold_s(columns["trained_s"], columns["num_taken"])),
    }


def copy_s(costs: CostTable, columns: Mapping[str, Any]) -> FloatArray:
    """(J,) what a profile says of a growth: to send the state; nothing where every process starts again."""
    copied_s: FloatArray = columns["state_bytes"] * costs.state_s_per_byte
    return np.where(columns["is_restart"], 0.0, copied_s)


def crowded_s(alone_s: FloatArray | float, workers: IntArray | int) -> Any:
    """What profiles say of launches of so many workers."""
    return alone_s * (1.0 + CROWDING_SHARE * (np.minimum(workers, CROWDED_WORKERS) - 1))


def stated_pause_s(change: CostKind, spec: JobSpec, profile: Profile | None) -> float:
    """What the owner, else the profile, says beforehand that a resize costs; NaN if neither does."""
    if change == "start":
        return math.nan
    stated_s = spec.resize_up_s if change == "growth" else spec.resize_down_s
    if stated_s is None and profile is not None:
        stated_s = profile.growth_s if change == "growth" else profile.shrink_s
    return math.nan if stated_s is None else stated_s


def kind_of(spec: JobSpec, profile: Profile | None) -> str:
    """Jobs of one kind change alike: the same script with the same batch on workers of the same size.

    Its first line is the family: of all jobs that change in the same way.
    """
    timed = "timed" if profile is not None and profile.start_s > 0.0 else "untimed"
    batches = f"{spec.global_batch} {spec.min_batch} {spec.max_batch} {spec.batch_per_worker}"
    return f"{spec.elasticity} {timed}\n{spec.entry}\n{batches} {spec.devices_per_worker}"


def both(name: str) -> set[tuple[str, bool]]:
    """Starts and resizes of a kind or family."""
    return {(name, True), (name, False)}


def family_of(kind: str) -> str:
    return kind.partition("\n")[0]


def cell_of(num_devices: int) -> int:
    """The cell of a number of devices."""
    return min((num_devices - 1).bit_length(), NUM_CELLS - 1)


def cells_of(devices: IntArray) -> IntArray:
    """The cell of each number of devices, as `cell_of` says."""
    cells: IntArray = np.minimum(np.frexp(devices - 1)[1], NUM_CELLS - 1)
    return cells


def _sum_up(jobs: list[JobCosts]) -> SizeCosts:
    costs_s = sorted([cost_s for one in jobs for cost_s in one.latest_s])
    half, is_odd = divmod(len(costs_s), 2)
    median_s = costs_s[half] if is_odd else (costs_s[half - 1] + costs_s[half]) / 2
    most_s, most_devices = max((one.most_s, one.most_devices) for one in jobs)
    return SizeCosts(jobs, median_s, most_s, math.log2(most_devices))


def _line(knots: Mapping[int, float], prior: float, doublings: Mapping[int, float] | None = None) -> Line:
    """Straight between knots, level below the first; level above the last, or rising where it is told.

    A cell counts as its most devices, so that no size of it is taken to cost less than it may.

    Args:
        doublings: of one device to those at which knots were measured, where these may be fewer than the most
            of the cell. None: the line does not rise above the last knot.
    """
    if not knots:
        return [prior] * NUM_CELLS
    cells, at = sorted(knots), {cell: float(cell) for cell in knots} | dict(doublings or {})
    line, last = [knots[cells[0]]] * NUM_CELLS, cells[-1]
    for low, high in pairwise(cells):
        slope = (knots[high] - knots[low]) / (at[high] - at[low])
        for cell in range(low, high):
            line[cell] = slope * (cell - at[low]) + knots[low]
        line[low] = max(line[low], knots[low])
    rise = 0.0 if doublings is None else _rise_s(knots, at)
    line[last:] = [knots[last] + rise * (cell - at[last]) for cell in range(last, NUM_CELLS)]
    return line


def _rise_s(knots: Mapping[int, float], doublings: Mapping[int, float]) -> float:
    """Seconds by which a cost rises with each doubling of devices above the last knot.

    It is the steeper of two slopes: between the last two knots, and from the first knot to the last. With one
    knot, the first device is taken to cost as much as each doubling up to the knot.
    """
    cells = sorted(knots)
    first, last = cells[0], cells[-1]
    if first == last:
        return max(0.0, knots[last] / (1 + doublings[last]))
    rises_s = [
        (knots[last] - knots[cell]) / (doublings[last] - doublings[cell]) for cell in (first, cells[-2])
    ]
    return max(0.0, *rises_s)
