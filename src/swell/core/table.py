"""Jobs in columns: what a policy sees of a job is read from its record by one declaration a column.

How jobs may run is a table of jobs by sizes: an event writes one row, a snapshot packs what fits.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from operator import attrgetter as at
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray, read_only
from swell.checkpoint_interval import DEFAULT_S
from swell.core.costs import CostCurves, CostTable, copy_s, expected_costs, family_of, kind_of, stated_pause_s
from swell.core.record import JobRecord
from swell.model.cluster import Cluster
from swell.model.job import Elasticity
from swell.model.options import Options
from swell.model.snapshot import CLASS_CODES, STRICT, Learning, RowIndex, Snapshot
from swell.throughput.estimate_margins import GUESS_MARGIN

#: A change that is overdue is expected to take longer by this share of the time by which it is.
OVERDUE_SHARE = 0.1
#: Columns of the workers in the latest pauses before the one under way, the latest first; 0: there is none.
EARLIER_PAUSES = ("pause_before", "pause_2_before", "pause_3_before")

#: (J,) columns of the table by name, read-only.
Columns = Mapping[str, Any]
#: A job's last stretch is never believed to be shorter: reports, not beliefs, end jobs.
LEAST_REMAINING_STEPS = 0.001
#: The same for a restart job, which reports nothing, as a share of what its user estimated.
LEAST_REMAINING_SHARE = 0.1
#: A job is at a size for so long before it is known that the size is slow.
TRY_S = 60.0
#: Minus priority, time of submission and id: jobs go in this order that are alike otherwise.
Arrival = tuple[int, float, str]
#: Types of columns. All values are kept as floats, and copied as these.
TYPES = (float, int, bool)
#: Fields that a policy sees.
SEEN = frozenset(field.name for field in fields(Snapshot))
#: Layers of the table: the columns of `JobOptions`, and upper costs of a launch and of a resize.
WORKERS, GLOBAL_BATCH, MARGIN_CLASS, RATE, EFFICIENCY, START_S, RESIZE_S, NUM_LAYERS = range(8)


def advanced(now_s: float, columns: Columns, start_cost_s: FloatArray) -> dict[str, FloatArray]:
    """Columns of progress and attained service, extrapolated to `now_s` at the present rates."""
    elapsed_s, rate_per_s = np.maximum(now_s - columns["as_of_s"], 0.0), columns["rate_now_per_s"]
    done_steps = columns["done_steps"] + rate_per_s * elapsed_s
    left = columns["total_steps"] - done_steps
    # It should have ended: the longer it has not, the longer whatever holds it up may take.
    overdue = np.where(left < 0.0, np.minimum(-left, rate_per_s * start_cost_s), 0.0)
    return {
        "remaining_steps": read_only(np.maximum(left, columns["least_steps"]) + overdue),
        "done_steps": read_only(done_steps),
        "attained_device_s": read_only(columns["attained_device_s"] + columns["held_devices"] * elapsed_s),
    }


def idle_s(
    now_s: float, columns: Columns, options: Options, option_start_s: FloatArray, option_resize_s: FloatArray
) -> FloatArray:
    """(J,) for which, at most, each gang does no work yet; 0 of one that trains.

    Pauses of one gang are waited out one after the other: the latest three before this one, too.
    """
    since_s, idle = columns["changing_since_s"], np.zeros(len(options.num))
    rows = (~np.isnan(since_s)).nonzero()[0]
    if len(rows) and len(options.workers):
        option = options.at(columns["held_workers"])[rows]
        cost_s = np.where(columns["is_launching"][rows], option_start_s[option], option_resize_s[option])
        cost_s *= option >= 0
        for workers in (columns[name] for name in EARLIER_PAUSES):
            if workers[rows].any():
                option = options.at(workers)
                is_size = (options.workers_of(option) == workers) & (option >= 0)
                cost_s += (option_resize_s[option] * is_size)[rows]
        left_s = cost_s - np.maximum(now_s - since_s[rows], 0.0)
        idle[rows] = np.where(left_s > 0.0, left_s, -OVERDUE_SHARE * left_s)
    return read_only(idle)


def with_waits(
    now_s: float, columns: Columns, options: Options, option_start_s: FloatArray, most_wait_s: float
) -> FloatArray:
    """(O,) what launches cost from now on: until others have left the devices, and until the first step."""
    if most_wait_s == 0.0:
        return option_start_s
    since_s = columns["waits_since_s"]
    left_s = np.maximum(most_wait_s - np.where(np.isnan(since_s), 0.0, now_s - since_s), 0.0)
    return read_only(option_start_s + np.repeat(left_s, options.num))


def with_way_back(start_s: FloatArray, resize_s: FloatArray, margin_share: FloatArray) -> list[FloatArray]:
    """(O,) both costs: a size that was only guessed for may turn out to be slower than the one before."""
    is_guess = margin_share >= GUESS_MARGIN
    if not is_guess.any():
        return [start_s, resize_s]
    return [read_only(cost_s + is_guess * (resize_s + TRY_S)) for cost_s in (start_s, resize_s)]


class Column(NamedTuple):
    """A value of each job, read from its record. A policy sees it if `Snapshot` has a field of this name."""

    name: str
    type: type[float] | type[int] | type[bool]
    of: Callable[[JobRecord], float | None]  #: see also `elsewhere`
    absent: float = math.nan  #: in place of None


def elsewhere(record: JobRecord) -> None:
    """Stands for what no record tells: `Rows` is told where it is read."""


def _least_steps(record: JobRecord) -> float:
    if record.spec.counts_steps:
        return LEAST_REMAINING_STEPS
    return LEAST_REMAINING_SHARE * (record.progress.total_steps or 0.0)


def _waits_from_s(record: JobRecord) -> float:
    """Since when it waits, or has waited before it ran."""
    from_s = record.sizes.waits_from_s
    return record.submitted_s if from_s is None else from_s


def _changing_since_s(record: JobRecord) -> float:
    """Since when its gang starts or pauses; inf if a change is still to take place, NaN if there is none."""
    if record.gang.is_launching:
        return record.commanded.launched_s
    if record.progress.paused_since_s is not None:
        return record.progress.paused_since_s
    return math.inf if _is_changing(record) else math.nan


def _is_changing(record: JobRecord) -> bool:
    """It has been told to have other workers, and has not answered."""
    return record.gang.awaits_change and not record.gang.is_reconfigured_in_place


def _earlier_pause(place: int, record: JobRecord) -> int:
    """See `EARLIER_PAUSES`."""
    pauses, place = record.progress.pauses, place + (not _is_changing(record))
    return pauses[-place] if place <= len(pauses) else 0


COLUMNS = (
    Column("deadline_s", float, at("planned_deadline_s"), absent=math.inf),
    Column("done_steps", float, at("progress.counted_steps")),
    Column("as_of_s", float, at("progress.as_of_s")),
    Column("rate_now_per_s", float, at("progress.rate_now_per_s")),
    Column("attained_device_s", float, at("progress.attained_device_s")),
    Column("held_devices", float, lambda record: len(record.gang.held)),
    Column("changed_s", float, at("commanded.changed_s"), absent=-math.inf),
    Column("changing_since_s", float, _changing_since_s),
    Column("waits_since_s", float, at("commanded.waits_since_s")),
    Column("trained_s", float, at("tenure.total_s")),
    Column("num_taken", float, at("tenure.num_taken")),
    Column("checkpoint_interval_s", float, at("checkpoint_interval_s")),
    Column("account", float, at("account_number")),
    Column("waits_from_s", float, _waits_from_s),
    Column("runs_from_s", float, at("sizes.runs_from_s")),
    Column("held_workers", int, at("target_workers")),
    Column("most_workers", int, at("sizes.most_workers")),
    Column("num_changes", int, at("sizes.num_changes")),
    *(Column(name, int, partial(_earlier_pause, at)) for at, name in enumerate(EARLIER_PAUSES, 1)),
    Column("is_promised", bool, lambda one: one.admission.is_promised and one.admission.asked is None),
    Column("is_undecided", bool, at("is_undecided")),
    Column("is_pinned", bool, at("gang.is_pinned")),
    Column("is_launching", bool, at("gang.is_launching")),
    Column("submitted_s", float, at("submitted_s")),
    Column("weight", float, at("spec.weight")),
    Column("total_steps", float, at("progress.total_steps")),
    Column("least_steps", float, _least_steps),
    Column("own_start_s", float, lambda one: one.profile.start_s if one.profile else 0.0),
    Column("state_bytes", float, lambda one: one.profile.state_bytes if one.profile else 0),
    Column("stated_growth_s", float, lambda one: stated_pause_s("growth", one.spec, one.profile)),
    Column("stated_shrink_s", float, lambda one: stated_pause_s("shrink", one.spec, one.profile)),
    Column("one_worker_per_s", float, elsewhere),
    Column("kind", int, elsewhere),  # row of `CostCurves`, as is the next
    Column("family", int, elsewhere),
    Column("priority", int, at("spec.priority")),
    Column("job_class", int, lambda one: CLASS_CODES[one.planned_class]),
    Column("devices_per_worker", int, at("spec.devices_per_worker")),
    Column("samples_per_step", int, at("spec.global_batch")),
    Column("requested_workers", int, lambda one: max(one.spec.requested_workers or 1, one.spec.min_workers)),
    Column("tenant", int, at("tenant")),
    Column("must_shrink", bool, at("must_shrink")),
    Column("is_restart", bool, lambda one: one.spec.elasticity is Elasticity.RESTART),
    Column("keeps_stated", bool, at("spec.keeps_estimates")),
)


class Rows:
    """Values of jobs by column and row, of which those in use are the first ones.

    Args:
        others: how to read the columns that are `elsewhere`.
    """

    def __init__(self, columns: Sequence[Column], **others: Callable[[JobRecord], float]) -> None:
        inner = [one for one in columns if one.type is float and one.name not in SEEN]
        by_type = {kind: [one for one in columns if one.type is kind and one not in inner] for kind in TYPES}
        ordered = [*inner, *(one for group in by_type.values() for one in group)]
        self._inner = [one.name for one in inner]  #: columns that are not in a snapshot, and need no copy
        self._names = {kind: [one.name for one in group] for kind, group in by_type.items()}
        self._getters = [others.get(one.name, one.of) for one in ordered]
        self._absent = np.array([one.absent for one in ordered])[:, None]
        self._values: FloatArray = np.zeros((len(ordered), 0))

    def write(self, rows: Sequence[int], records: Iterable[JobRecord]) -> None:
        """Read the values of these rows."""
        if (last := max(rows)) >= (num := self._values.shape[1]):
            self._values = np.pad(self._values, ((0, 0), (0, max(16, 2 * last) - num)))
        told = np.array([[of(record) for of in self._getters] for record in records], dtype=np.float64).T
        self._values[:, rows] = np.where(np.isnan(told), self._absent, told)

    def move(self, last: int, row: int) -> None:
        """The values of the last row, if it was written, are in this one from now on."""
        if last < self._values.shape[1]:
            self._values[:, row] = self._values[:, last]

    def unseen(self, name: str) -> FloatArray:
        """One of the columns that are not in a snapshot."""
        column: FloatArray = self._values[self._inner.index(name)].copy()
        return column

    def copied(self, num: int) -> dict[str, Any]:
        """(num,) columns by name, of the first rows; those that are seen are read-only copies."""
        columns: dict[str, Any] = dict(zip(self._inner, self._values[:, :num], strict=False))
        begin = len(self._inner)
        for kind, names in self._names.items():
            end = begin + len(names)
            columns |= zip(names, read_only(self._values[begin:end, :num].astype(kind)), strict=True)
            begin = end
        return columns


class JobTable:
    """Rows 0..J-1 are the jobs a policy may decide about, in no particular order."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.codes: list[str] = []  #: of the jobs' reasons
        self._row: dict[str, int] = {}
        self._due: dict[str, JobRecord] = {}  #: whose rows are to be written before they are read
        self._rows = Rows(
            COLUMNS,
            one_worker_per_s=lambda record: self._beside[record.id][0],
            kind=lambda record: self._beside[record.id][1],
            family=lambda record: self._beside[record.id][2],
        )
        #: Of each job, what no record tells: see COLUMNS.
        self._beside: dict[str, tuple[float, int, int]] = {}
        self._arrivals: list[Arrival] = []  #: of all jobs, sorted
        self._arrival: dict[str, Arrival] = {}
        self._index: RowIndex | None = None  #: as long as neither ids nor their order change
        self._curves = CostCurves()
        self._options = OptionTable()
        self._packed: OptionRows | None = None
        self._packed_for = (0, 0, 0)
        self._option_costs: tuple[FloatArray, FloatArray] | None = None  #: of the options as they were packed

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._row

    def write(self, record: JobRecord, options: JobOptions | None = None) -> None:
        """Put what a policy may see of this job into its row; a new job gets one.

        What happens to a job changes its row only when rows are read: several events come between two plans.

        Args:
            options: in which it may run; None: they are as before.
        """
        row = self._row.get(record.id)
        if row is None:
            row = self._row[record.id] = len(self.ids)
            self.ids.append(record.id)
            self.codes.append("")
        self.codes[row], self._due[record.id] = record.status.reason_code, record
        if options is not None:
            self._options.write(row, options)
            kind = kind_of(record.spec, record.profile)
            places = self._curves.row(kind), self._curves.row(family_of(kind))
            self._beside[record.id] = options.one_worker_per_s, *places
            self._arrive(record.id, (-record.spec.priority, record.submitted_s, record.id))

    def _write_due(self) -> None:
        if self._due:
            self._rows.write([self._row[job_id] for job_id in self._due], self._due.values())
            self._due.clear()

    def _arrive(self, job_id: str, arrival: Arrival) -> None:
        known = self._arrival.get(job_id)
        if arrival != known:
            if known is not None:
                del self._arrivals[bisect_left(self._arrivals, known)]
            insort(self._arrivals, arrival)
            self._arrival[job_id], self._index = arrival, None

    def remove(self, job_id: str) -> None:
        """Forget the job, if it is here; the last row takes its place."""
        row = self._row.pop(job_id, None)
        if row is None:
            return
        self._due.pop(job_id, None)
        del self._beside[job_id]
        del self._arrivals[bisect_left(self._arrivals, self._arrival.pop(job_id))]
        last_id, last_code, last = self.ids.pop(), self.codes.pop(), len(self.ids)
        self._options.remove(row, last)
        self._index = None
        if last_id != job_id:
            self.ids[row], self.codes[row], self._row[last_id] = last_id, last_code, row
            self._rows.move(last, row)

    def seen(
        self,
        now_s: float,
        num_devices: int,
        num_unpromised: int,
        costs: CostTable,
        margins: FloatArray,
        checkpoint_interval_s: float = 0.0,
    ) -> dict[str, Any]:
        """Copy what a policy sees of the jobs: it stays as it was, however the rows change.

        Args:
            num_devices: that are there.
            num_unpromised: of them, that jobs with a promise may not have.
            margins: by class; see `FittedBelief.margins`.
            checkpoint_interval_s: of jobs that have none of their own; 0: none has been chosen for them.

        Returns:
            Fields of a `Snapshot`.
        """
        self._write_due()
        columns = self._rows.copied(len(self.ids))
        packed = self._pack(columns, num_devices, num_unpromised)
        margin_share = read_only(margins[packed.margin_class])
        option_start_s, option_resize_s = with_way_back(*self._charge(costs, packed, columns), margin_share)
        expected = expected_costs(costs, self._curves, columns, packed.largest)
        own_s = columns["checkpoint_interval_s"]
        return {
            **{name: column for name, column in columns.items() if name in SEEN},
            **expected,
            **advanced(now_s, columns, expected["start_cost_s"]),
            "job_ids": tuple(self.ids),
            "index": self._indexed(),
            "options": packed.options,
            "option_start_s": with_waits(now_s, columns, packed.options, option_start_s, costs.most_wait_s),
            "option_resize_s": option_resize_s,
            "option_margin_share": margin_share,
            "idle_s": idle_s(now_s, columns, packed.options, option_start_s, option_resize_s),
            "checkpoint_interval_s": read_only(
                np.where(own_s > 0.0, own_s, checkpoint_interval_s or DEFAULT_S)
            ),
        }

    @property
    def account_columns(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(J,) columns for `AccountTable.shares`, up to date once rows have been seen."""
        account, waits_s, runs_s = (
            self._rows.unseen(name)[: len(self.ids)] for name in ("account", "waits_from_s", "runs_from_s")
        )
        return account, waits_s, runs_s

    def _indexed(self) -> RowIndex:
        """The very same as long as no job comes or goes."""
        if self._index is None:
            rows = map(self._row.__getitem__, map(itemgetter(2), self._arrivals))
            by_arrival = read_only(np.fromiter(rows, np.int64, len(self.ids)))
            self._index = RowIndex(self._row.copy(), by_arrival)
        return self._index

    def _pack(self, columns: Columns, num_devices: int, num_unpromised: int) -> OptionRows:
        """The very same as long as neither rows nor devices change."""
        key = (len(self.ids), num_devices, num_unpromised)
        if self._packed is None or self._packed_for != key or self._options.is_changed:
            most_devices = num_devices - num_unpromised * (columns["job_class"] == STRICT)
            self._packed = self._options.pack(columns["devices_per_worker"], most_devices)
            self._packed_for, self._option_costs = key, None
        return self._packed

    def _charge(
        self, costs: CostTable, packed: OptionRows, columns: Columns
    ) -> tuple[FloatArray, FloatArray]:
        """The very same as long as neither options nor what was measured change."""
        is_due, others = self._options.is_uncharged(len(self.ids)), self._curves.refresh(costs)
        if others:  # kinds or families
            is_other = np.zeros(len(self._curves.lines), bool)
            is_other[others] = True
            is_due |= is_other[columns["kind"]] | is_other[columns["family"]]
        due = is_due.nonzero()[0]
        if len(due):
            self._charge_rows(due, costs, columns)
            self._option_costs = None
        if self._option_costs is None:
            self._option_costs = self._options.costs_at(packed.places)
        return self._option_costs

    def _charge_rows(self, rows: IntArray, costs: CostTable, columns: Columns) -> None:
        places, of, workers = self._options.of_rows(rows)
        jobs = rows[of]
        most_s = self._curves.most_s(
            workers,
            workers * columns["devices_per_worker"][jobs],
            columns["kind"][jobs],
            columns["family"][jobs],
            columns["own_start_s"][jobs],
            copy_s(costs, columns)[jobs],
        )
        self._options.charge(places, most_s)


def learning_of(records: Sequence[JobRecord], cluster: Cluster) -> Learning:
    """Columns of these jobs, in this order."""
    node_of = {device: at for at, node in enumerate(cluster.nodes) for device in node.devices}
    cores = {at: math.nan if node.cores is None else node.cores for at, node in enumerate(cluster.nodes)}
    nodes = [_node(record, node_of) for record in records]
    shares = [record.gang.goal.configuration.share for record in records]
    return Learning(
        node=read_only(np.array(nodes, dtype=np.int64)),
        node_names=tuple(node.name for node in cluster.nodes),
        value=_column([_lowered(record) for record in records]),
        rises=read_only(np.array([record.spec.metric_rises for record in records], dtype=bool)),
        value_s=_column([record.usage.value_s for record in records]),
        cpu_s=_column([record.usage.cpu_s for record in records]),
        share=_column(shares),
        cores=_column([cores.get(node) for node in nodes]),
        num_whole=read_only(np.array([node.num_whole for node in cluster.nodes], dtype=np.int64)),
    )


def _node(record: JobRecord, node_of: Mapping[str, int]) -> int:
    nodes = {node_of.get(device, -1) for device in record.gang.goal.devices}
    return nodes.pop() if len(nodes) == 1 else -1


def _lowered(record: JobRecord) -> float | None:
    """Latest value of the job's metric, negated if learning raises it; None if there is none."""
    value = record.usage.value
    return -value if value is not None and record.spec.metric_rises else value


def _column(values: Sequence[float | None]) -> FloatArray:
    return read_only(np.array([math.nan if value is None else value for value in values], dtype=np.float64))


class JobOptions(NamedTuple):
    """How one job may run, by ascending size, on a cluster that is large enough."""

    workers: IntArray  #: (n,)
    global_batch: IntArray  #: (n,) samples of a step; 0: the job's own batch
    margin_class: IntArray  #: (n,) which margin a plan at this rate has; see `FittedBelief.margins`
    rate_per_s: FloatArray  #: (n,) > 0
    efficiency: FloatArray  #: (n,) see `Options`
    one_worker_per_s: float = 0.0  #: at the batch that is best for it; 0: not possible, or not known


class OptionRows(NamedTuple):
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
        """(O,) costs of a launch at each of `OptionRows.places`, and of a resize to it."""
        start_s, resize_s = read_only(self._values.reshape(NUM_LAYERS, -1)[START_S:].take(places, axis=1))
        return start_s, resize_s

    def pack(self, devices_per_worker: IntArray, most_devices: IntArray) -> OptionRows:
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
        return OptionRows(options, largest, margin_class, places)
