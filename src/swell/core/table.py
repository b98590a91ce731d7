"""Jobs in columns: an event touches its row, a snapshot is a copy of the rows in use."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, Column, FloatArray, IntArray, read_only
from swell.core.arrival_order import ArrivalOrder
from swell.core.cost_curves import CostCurves, stated_pause_s
from swell.core.cost_table import CostTable, family_of, kind_of
from swell.core.option_table import JobOptions, OptionTable, PackedOptions
from swell.core.policy_state import PolicyState
from swell.core.record import JobRecord
from swell.core.snapshot_columns import (
    Rows,
    advanced,
    as_written,
    checkpoint_intervals,
    copy_s,
    expected_costs,
    idle_s,
    with_waits,
)
from swell.model.job import Elasticity
from swell.model.snapshot import CLASS_CODES, STRICT, RowIndex, Snapshot

#: A job's last stretch is never believed to be shorter: reports, not beliefs, end jobs.
LEAST_REMAINING_STEPS = 0.001
#: The same for a restart job, which reports nothing, as a share of what its user estimated.
LEAST_REMAINING_SHARE = 0.1

#: Columns that stay as they are for as long as a job has its row ...
FIXED_FLOATS = (
    "submitted_s",
    "total_steps",
    "least_steps",
    "own_start_s",
    "copied_bytes",
    "stated_growth_s",
    "stated_shrink_s",
    "one_worker_per_s",
    "weight",
)
FIXED_INTS = (
    "job_class",
    "devices_per_worker",
    "requested_workers",
    "tenant",
    "priority",
    "is_restart",
    "keeps_stated",
    "samples_per_step",
    "kind",
    "family",
)
#: ... and those that change with what happens to it.
FLOATS = (
    "deadline_s",
    "done_steps",
    "as_of_s",
    "rate_now_per_s",
    "changed_s",
    "changing_since_s",
    "waits_since_s",
    "attained_device_s",
    "held_devices",
    "trained_s",
    "num_taken",
    "checkpoint_interval_s",
)
INTS = (
    "held_workers",
    "most_workers",
    "num_changes",
    "is_promised",
    "is_undecided",
    "is_pinned",
    "is_launching",
    "paused_workers_1",
    "paused_workers_2",
    "paused_workers_3",
)


class BorrowedDevices(NamedTuple):
    """What there is of borrowed nodes."""

    num_borrowed: int  #: devices
    num_unpromised: int  #: of them, that jobs with a promise may not have: all, if the policy makes any
    reclaims_per_node_s: float


NOTHING_LENT = BorrowedDevices(0, 0, 0.0)


class JobTable:
    """Rows 0..J-1 are the jobs a policy may decide about, in no particular order."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.codes: list[str] = []  #: of the jobs' reasons
        self._row: dict[str, int] = {}
        self._due: dict[str, JobRecord] = {}  #: whose rows are to be written before they are read
        self._arrivals = ArrivalOrder()
        self._index: RowIndex | None = None  #: as long as neither ids nor their order change
        self._kinds: list[str] = []  #: of jobs whose changes cost alike
        self._curves = CostCurves()
        self._upper_costs: tuple[FloatArray, FloatArray] | None = None  #: of the options as they were packed
        #: (O,) of the options as they were packed, at these margins by class
        self._margins: tuple[PackedOptions, FloatArray, FloatArray] | None = None
        self._options = OptionTable()
        self._packed: PackedOptions | None = None
        self._packed_for = (0, 0, 0)
        self._fixed_floats: FloatArray = np.zeros((len(FIXED_FLOATS), 0))
        self._fixed_ints: IntArray = np.zeros((len(FIXED_INTS), 0), dtype=np.int64)
        self._floats: FloatArray = np.zeros((len(FLOATS), 0))
        self._ints: IntArray = np.zeros((len(INTS), 0), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._row

    def row(self, job_id: str) -> int:
        return self._row[job_id]

    def rate_per_s(self, job_id: str, num_workers: int) -> float:
        """Steps per second at this size, as last written; 0 if the job is absent or may not have it."""
        row = self._row.get(job_id)
        return 0.0 if row is None else self._options.rate_per_s(row, num_workers)

    def write(self, record: JobRecord, options: JobOptions | None = None) -> None:
        """Put what a policy may see of this job into its row; a new job gets one.

        What happens to a job changes its row only when rows are read: several events come between two plans.

        Args:
            options: in which it may run; None: they are as before, and so is all that is fixed.
        """
        row = self._row.get(record.id)
        if row is None:
            row = self._row[record.id] = len(self.ids)
            self.ids.append(record.id)
            self._arrivals.add(row, record.spec.priority, record.submitted_s, record.id)
            self._index = None
            self.codes.append(record.status.reason_code)
            if row >= self._ints.shape[1]:
                self._grow(max(16, 2 * row))
        elif options is not None and record.spec.priority != self._fixed("priority")[row]:
            self._arrivals.remove(row, row)
            self._arrivals.add(row, record.spec.priority, record.submitted_s, record.id)
            self._index = None
        if options is not None:
            self._options.write(row, options)
            self._fixed_floats[:, row] = _fixed_floats(record, options)
            self._fixed_ints[:, row] = _fixed_ints(record, *self._join_kind(row, record))
        self.codes[row] = record.status.reason_code
        self._due[record.id] = record

    def _write_due(self) -> None:
        if self._due:
            records, rows = self._due.values(), [self._row[job_id] for job_id in self._due]
            self._floats[:, rows] = np.array([_floats(record) for record in records]).T
            self._ints[:, rows] = np.array([_ints(record) for record in records], dtype=np.int64).T
            self._due.clear()

    def _join_kind(self, row: int, record: JobRecord) -> tuple[int, int]:
        """Where the lines of the job's kind are, and of its family."""
        kind = kind_of(record.spec, record.profile)
        joined = self._curves.join(kind), self._curves.join(family_of(kind))
        if row == len(self._kinds):
            self._kinds.append(kind)
        else:
            self._leave_kind(self._kinds[row])
            self._kinds[row] = kind
        return joined

    def _leave_kind(self, kind: str) -> None:
        self._curves.leave(kind)
        self._curves.leave(family_of(kind))

    def remove(self, job_id: str) -> None:
        """Forget the job, if it is here; the last row takes its place."""
        row = self._row.pop(job_id, None)
        if row is None:
            return
        self._index = None
        self._due.pop(job_id, None)
        self._leave_kind(self._kinds[row])
        last_id, last_code, last_kind = self.ids.pop(), self.codes.pop(), self._kinds.pop()
        last = len(self.ids)
        self._arrivals.remove(row, last)
        self._options.remove(row, last)
        if last_id == job_id:
            return
        self.ids[row], self.codes[row], self._kinds[row] = last_id, last_code, last_kind
        self._row[last_id] = row
        for columns in (self._fixed_floats, self._fixed_ints, self._floats, self._ints):
            columns[:, row] = columns[:, last]

    def snapshot(
        self,
        now_s: float,
        num_devices: int,
        costs: CostTable,
        margins: FloatArray,
        min_hold_s: float,
        num_tenants: int,
        policy: PolicyState,
        lent: BorrowedDevices = NOTHING_LENT,
        quota_devices: IntArray | None = None,
        tenant_since_s: FloatArray | None = None,
        owned_widths: tuple[int, ...] = (),
        checkpoint_interval_s: float = 0.0,
        unheard_s: float = 0.0,
    ) -> Snapshot:
        """A copy: what was seen stays as it was, however the rows change."""
        self._write_due()
        packed, rows = self._pack(num_devices, lent.num_unpromised), self._copied()
        options, largest, _ = packed
        option_start_s, option_resize_s = self._charge(costs, packed, rows)
        expected = expected_costs(costs, self._curves, rows, largest)
        return Snapshot(
            now_s=now_s,
            num_devices=num_devices,
            options=options,
            job_ids=tuple(self.ids),
            index=self._indexed(),
            num_tenants=num_tenants,
            idle_s=idle_s(now_s, rows, options, option_start_s, option_resize_s),
            option_start_s=with_waits(now_s, rows, options, option_start_s, costs.most_wait_s),
            option_resize_s=option_resize_s,
            option_margin_share=self._margins_of(packed, margins),
            min_hold_s=min_hold_s,
            quota_devices=quota_devices,
            tenant_since_s=tenant_since_s,
            num_borrowed=lent.num_borrowed,
            owned_widths=owned_widths,
            checkpoint_interval_s=checkpoint_intervals(rows, checkpoint_interval_s),
            unheard_s=unheard_s,
            reclaims_per_node_s=lent.reclaims_per_node_s,
            is_due=policy.is_due,
            memory=policy.memory,
            **as_written(rows),
            **advanced(now_s, rows, expected["start_cost_s"]),
            **expected,
        )

    def _copied(self) -> Rows:
        """All columns, of the rows in use."""
        count = len(self.ids)
        return Rows(
            _copy(FIXED_FLOATS, self._fixed_floats, count) | _copy(FLOATS, self._floats, count),
            _copy(FIXED_INTS, self._fixed_ints, count) | _copy(INTS, self._ints, count),
        )

    def _indexed(self) -> RowIndex:
        """The very same as long as no job comes or goes."""
        if self._index is None:
            self._index = RowIndex(self._row.copy(), self._arrivals.rows)
        return self._index

    def _pack(self, num_devices: int, num_unpromised: int) -> PackedOptions:
        """The very same as long as neither rows nor devices change."""
        key = (len(self.ids), num_devices, num_unpromised)
        if self._packed is None or self._packed_for != key or self._options.is_changed:
            self._packed_for = key
            most = self._most_devices(num_devices, num_unpromised)
            self._packed = self._options.pack(self._fixed("devices_per_worker"), most)
            self._upper_costs = None
        return self._packed

    def _margins_of(self, packed: PackedOptions, margins: FloatArray) -> FloatArray:
        """(O,) the very same as long as neither options nor margins by class change."""
        known = self._margins
        if known is None or known[0] is not packed or known[1] is not margins:
            of_options = read_only(self._options.margins_at(packed.places, margins))
            known = self._margins = (packed, margins, of_options)
        return known[2]

    def _charge(self, costs: CostTable, packed: PackedOptions, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """The very same as long as neither options nor what was measured change."""
        others = self._curves.refresh(costs)
        if others or self._options.uncharged:
            self._charge_again(costs, others, rows)
            self._upper_costs = None
        if self._upper_costs is None:
            start_s, resize_s = self._options.costs_at(packed.places)
            self._upper_costs = read_only(start_s), read_only(resize_s)
        return self._upper_costs

    def _charge_again(self, costs: CostTable, others: list[int], rows: Rows) -> None:
        """Jobs of these kinds or families, and those with other options than before."""
        floats, ints = rows
        is_other = np.zeros(len(self._curves.lines), bool)
        is_other[others] = True
        is_due = is_other[ints["kind"]] | is_other[ints["family"]]
        is_due[list(self._options.uncharged)] = True
        due = is_due.nonzero()[0]
        places, of, workers = self._options.stretch(due)
        jobs = due[of]
        most_s = self._curves.most_s(
            workers,
            workers * ints["devices_per_worker"][jobs],
            ints["kind"][jobs],
            ints["family"][jobs],
            floats["own_start_s"][jobs],
            copy_s(costs, rows)[jobs],
        )
        self._options.charge(places, most_s)
        self._options.uncharged.clear()

    def _fixed(self, name: str) -> IntArray:
        """(J,) column of what stays as it is."""
        return self._fixed_ints[FIXED_INTS.index(name), : len(self.ids)]

    def _most_devices(self, num_devices: int, num_unpromised: int) -> IntArray:
        """(J,) that a job may have: one whose deadline is promised none that no promise can stand on."""
        most = np.full(len(self.ids), num_devices, dtype=np.int64)
        if num_unpromised:
            most[self._fixed("job_class") == STRICT] -= num_unpromised
        return most

    def pinned(self) -> BoolArray:
        """(J,) jobs whose gang cannot change now; a copy."""
        self._write_due()
        is_pinned: BoolArray = self._ints[INTS.index("is_pinned"), : len(self.ids)] != 0
        return is_pinned

    def _grow(self, capacity: int) -> None:
        wider = ((0, 0), (0, capacity - self._ints.shape[1]))
        self._fixed_floats = np.pad(self._fixed_floats, wider)
        self._fixed_ints = np.pad(self._fixed_ints, wider)
        self._floats = np.pad(self._floats, wider)
        self._ints = np.pad(self._ints, wider)


def _fixed_floats(record: JobRecord, options: JobOptions) -> tuple[float, ...]:
    """Values of the job's FIXED_FLOATS, in that order."""
    profile = record.profile
    return (
        record.submitted_s,
        record.progress.total_steps or 0.0,
        _least_steps(record),
        profile.start_s if profile else 0.0,
        profile.most_copied_bytes if profile else 0,
        stated_pause_s("growth", record.spec, profile),
        stated_pause_s("shrink", record.spec, profile),
        options.one_worker_per_s,
        record.spec.weight,
    )


def _fixed_ints(record: JobRecord, kind: int, family: int) -> tuple[int, ...]:
    """Values of the job's FIXED_INTS, in that order."""
    spec = record.spec
    return (
        CLASS_CODES[record.planned_class],
        spec.devices_per_worker,
        max(spec.requested_workers or 1, record.least_workers),
        record.tenant,
        spec.priority,
        spec.elasticity is Elasticity.RESTART,
        spec.keeps_estimates,
        spec.global_batch,
        kind,
        family,
    )


def _floats(record: JobRecord) -> tuple[float, ...]:
    """Values of the job's FLOATS, in that order."""
    tenure, deadline_s, progress = record.tenure, record.planned_deadline_s, record.progress
    return (
        math.inf if deadline_s is None else deadline_s,
        progress.counted_steps,
        progress.as_of_s,
        progress.rate_per_s if progress.paused_since_s is None else 0.0,
        -math.inf if record.commanded.changed_s is None else record.commanded.changed_s,
        _changing_since_s(record),
        math.nan if record.commanded.waits_since_s is None else record.commanded.waits_since_s,
        progress.attained_device_s,
        len(record.gang.held),
        tenure.total_s,
        tenure.num_taken,
        record.checkpoint_interval_s or 0.0,
    )


def _ints(record: JobRecord) -> tuple[int, ...]:
    """Values of the job's INTS, in that order."""
    pauses = record.progress.pauses
    earlier = pauses if _is_changing(record) else pauses[:-1]
    return (
        record.target_workers,
        record.sizes.most_workers,
        record.sizes.num_changes,
        record.admission.is_promised and record.admission.asked is None,
        record.is_undecided,
        record.is_pinned,
        record.gang.is_launching,
        *(0, 0, 0, *earlier)[-3:],
    )


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


def _least_steps(record: JobRecord) -> float:
    if record.spec.elasticity is Elasticity.LIVE:
        return LEAST_REMAINING_STEPS
    return LEAST_REMAINING_SHARE * (record.progress.total_steps or 0.0)


def _copy(names: tuple[str, ...], columns: Column, count: int) -> dict[str, Column]:
    """Read-only copies of the columns by name, cut to the rows in use."""
    return dict(zip(names, read_only(columns[:, :count].copy()), strict=True))
