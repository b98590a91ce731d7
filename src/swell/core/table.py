"""Jobs in columns: an event touches its row, a snapshot is a read-only view of the rows in use."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from swell.core.costs import ChangeCosts
from swell.core.record import JobRecord
from swell.model.job import Elasticity, JobClass
from swell.model.snapshot import CLASS_CODES, FloatArray, IntArray, Snapshot

#: A job's last stretch is never believed to be shorter: reports, not beliefs, end jobs.
LEAST_REMAINING_STEPS = 1.0
#: The same for a restart job, which reports nothing, as a share of what its user estimated.
LEAST_REMAINING_SHARE = 0.1

FLOAT_COLUMNS = (
    "submitted_s",
    "deadline_s",
    "total_steps",
    "least_steps",
    "done_steps",
    "as_of_s",
    "rate_now_per_s",
    "changed_s",
    "attained_device_s",
    "held_devices",
    "own_pause_s",
    "own_wait_s",
    "own_start_s",
    "trained_s",
    "num_taken",
    "state_bytes",
)
INT_COLUMNS = ("job_class", "devices_per_worker", "requested_workers", "held_workers")
BOOL_COLUMNS = ("is_promised", "is_undecided", "is_pinned", "is_restart")


class JobTable:
    """Rows 0..J-1 are the jobs a policy may decide about, in no particular order."""

    def __init__(self, sizes: IntArray) -> None:
        self.sizes = sizes
        self.ids: list[str] = []
        self._row: dict[str, int] = {}
        self._columns: dict[str, npt.NDArray[Any]] = {}
        self._rates = np.zeros((0, len(sizes)))
        self._grow(16)

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, job_id: str) -> int:
        return self._row[job_id]

    def write(self, record: JobRecord, rates_per_s: FloatArray) -> None:
        """Put what a policy may see of this job into its row; a new job gets one."""
        row = self._row.get(record.id)
        if row is None:
            row = self._row[record.id] = len(self.ids)
            self.ids.append(record.id)
            if row >= len(self._rates):
                self._grow(2 * row)
        self._rates[row] = rates_per_s
        for name, value in self._values(record).items():
            self._columns[name][row] = value

    def remove(self, job_id: str) -> None:
        """Forget the job, if it is here; the last row takes its place."""
        row = self._row.pop(job_id, None)
        if row is None:
            return
        last_id = self.ids.pop()
        if last_id == job_id:
            return
        last = len(self.ids)
        self.ids[row] = last_id
        self._row[last_id] = row
        self._rates[row] = self._rates[last]
        for column in self._columns.values():
            column[row] = column[last]

    def snapshot(
        self, now_s: float, num_devices: int, costs: ChangeCosts, margin_share: float, min_hold_s: float
    ) -> Snapshot:
        count = len(self.ids)
        view = {name: _read_only(column[:count]) for name, column in self._columns.items()}
        elapsed_s = now_s - view["as_of_s"]
        done = view["done_steps"] + view["rate_now_per_s"] * np.maximum(elapsed_s, 0.0)
        attained = view["attained_device_s"] + view["held_devices"] * np.maximum(elapsed_s, 0.0)
        most_workers = np.max(np.where(self._rates[:count] > 0, self.sizes, 0), axis=1, initial=1)
        start_cost_s = costs.launch_s(view["own_start_s"], most_workers)
        remaining = view["total_steps"] - done
        # What should have ended by now is not believed to be about to end: who knows what holds it up.
        overdue = view["least_steps"] + view["rate_now_per_s"] * start_cost_s
        remaining = np.where(remaining > view["least_steps"], remaining, overdue)
        return Snapshot(
            now_s=now_s,
            num_devices=num_devices,
            sizes=_read_only(self.sizes),
            job_ids=tuple(self.ids),
            job_class=view["job_class"],
            submitted_s=view["submitted_s"],
            deadline_s=view["deadline_s"],
            remaining_steps=_read_only(remaining),
            done_steps=_read_only(done),
            rate_per_s=_read_only(self._rates[:count]),
            devices_per_worker=view["devices_per_worker"],
            requested_workers=view["requested_workers"],
            held_workers=view["held_workers"],
            changed_s=view["changed_s"],
            attained_device_s=_read_only(attained),
            resize_cost_s=_read_only(
                costs.resize_s(view["own_pause_s"], view["state_bytes"], view["is_restart"])
            ),
            resize_wait_s=_read_only(costs.wait_s(view["own_wait_s"], start_cost_s, view["is_restart"])),
            expected_hold_s=_read_only(costs.hold_s(view["trained_s"], view["num_taken"])),
            start_cost_s=_read_only(start_cost_s),
            is_promised=view["is_promised"],
            is_undecided=view["is_undecided"],
            margin_share=margin_share,
            min_hold_s=min_hold_s,
        )

    def pinned(self) -> npt.NDArray[np.bool_]:
        """(J,) jobs whose gang cannot change now."""
        return self._columns["is_pinned"][: len(self.ids)].astype(bool)

    def _values(self, record: JobRecord) -> dict[str, float | int | bool]:
        spec, profile = record.spec, record.profile
        return {
            "submitted_s": record.submitted_s,
            "deadline_s": math.inf if spec.deadline_s is None else spec.deadline_s,
            "total_steps": record.total_steps or 0.0,
            "least_steps": _least_steps(record),
            "done_steps": record.done_steps,
            "as_of_s": record.as_of_s,
            "rate_now_per_s": record.rate_per_s,
            "changed_s": -math.inf if record.changed_s is None else record.changed_s,
            "attained_device_s": record.attained_device_s,
            "held_devices": len(record.held),
            "own_pause_s": record.own_pause_s,
            "own_wait_s": record.resizes.wait_s,
            "own_start_s": profile.start_s if profile else 0.0,
            "trained_s": record.tenure.total_s,
            "num_taken": record.tenure.num_taken,
            "state_bytes": profile.state_bytes if profile else 0,
            "job_class": CLASS_CODES[spec.job_class],
            "devices_per_worker": spec.devices_per_worker,
            "requested_workers": spec.requested_workers or spec.min_workers,
            "held_workers": record.target_workers,
            "is_promised": record.is_promised,
            "is_undecided": spec.job_class is JobClass.STRICT and not record.is_decided,
            "is_pinned": record.is_pinned,
            "is_restart": spec.elasticity is Elasticity.RESTART,
        }

    def _grow(self, capacity: int) -> None:
        kinds: tuple[tuple[tuple[str, ...], type], ...] = (
            (FLOAT_COLUMNS, np.float64),
            (INT_COLUMNS, np.int64),
            (BOOL_COLUMNS, np.bool_),
        )
        for names, dtype in kinds:
            for name in names:
                old = self._columns.get(name, np.zeros(0, dtype))
                self._columns[name] = np.concatenate([old, np.zeros(capacity - len(old), dtype)])
        missing = capacity - len(self._rates)
        self._rates = np.concatenate([self._rates, np.zeros((missing, len(self.sizes)))])


def _least_steps(record: JobRecord) -> float:
    if record.spec.elasticity is Elasticity.LIVE:
        return LEAST_REMAINING_STEPS
    return LEAST_REMAINING_SHARE * (record.total_steps or 0.0)


def allowed(sizes: IntArray, min_workers: int, max_workers: int | None) -> npt.NDArray[np.bool_]:
    """(K,) which of the cluster's sizes a job may have."""
    at_least: npt.NDArray[np.bool_] = sizes >= min_workers
    return at_least if max_workers is None else at_least & (sizes <= max_workers)


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
