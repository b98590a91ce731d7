"""Why each job gets what it gets, where that is not what the policy alone would give it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.core.hysteresis import GAIN_OVER_COST, SteadiedSizes
from swell.model.counted import told_devices, told_workers
from swell.model.deadline_state import NOWHERE
from swell.model.lengths import span
from swell.model.plan import Allocation, Placement, PlanForecast
from swell.model.quota import NO_QUOTA
from swell.model.snapshot import Snapshot


@dataclass(frozen=True)
class PlanAccount:
    """The policy's words, or else those of steadiness and of the placer; see `model.plan.Account`."""

    snapshot: Snapshot
    allocation: Allocation
    steadied: SteadiedSizes
    placement: Placement
    backing_off: Mapping[str, str] = field(default_factory=dict)  #: jobs that wait after a failure, and why
    nowhere: Mapping[str, str] = field(default_factory=dict)  #: jobs that no node can run, and why

    @cached_property
    def codes(self) -> Sequence[str]:
        snapshot, workers = self.snapshot, self.steadied.workers
        codes, is_other = list(self.allocation.account.codes), workers != self.allocation.workers
        for row in self.allocation.refusals:
            codes[row] = "refused"
        for row in is_other.nonzero()[0].tolist():
            codes[row] = "kept" if workers[row] else "waiting"
        for row in map(snapshot.row_of.__getitem__, self.backing_off):
            if is_other[row]:
                codes[row] = "backoff"
        for row in map(snapshot.row_of.__getitem__, self.placement.moved):
            if self.allocation.workers[row] == snapshot.held_workers[row]:
                codes[row] = "moved"
        for row in self._waits_for_quota.nonzero()[0].tolist():
            codes[row] = "quota"
        for job_id in self.nowhere:
            codes[snapshot.row_of[job_id]] = NOWHERE
        return codes

    @property
    def forecast(self) -> PlanForecast:
        return self.allocation.account.forecast

    def text(self, row: int) -> str:
        job_id, want = self.snapshot.job_ids[row], int(self.allocation.workers[row])
        match self.codes[row]:
            case "refused":
                return f"refused: {self.allocation.refusals[row].text}"
            case "moved":
                return "moves to another node to make room for another job"
            case "quota":
                return self._why_quota(row)
            case "kept":
                return self._why_held(row, want)
            case "waiting" if self.steadied.workers[row] != want:
                return f"waiting for {told_workers(want)}: the devices are busy"
            case "backoff":
                return self.backing_off[job_id]
            case code if code == NOWHERE:
                return self.nowhere[job_id]
        try:
            return self.allocation.account.text(row)
        except Exception as error:  # noqa: BLE001 - it stands where the words would
            return f"the policy has no words for it: {error!r}"

    @cached_property
    def _waits_for_quota(self) -> BoolArray:
        """(J,) jobs without devices or a promise, whose smallest size is more than a quota leaves."""
        snapshot, options = self.snapshot, self.snapshot.options
        if snapshot.quota_devices is None:
            return np.zeros(snapshot.num_jobs, dtype=bool)
        taken = snapshot.devices_of_tenants(self.steadied.workers)
        left = (snapshot.quota_devices - taken)[snapshot.tenant]
        smallest = np.full(snapshot.num_jobs, NO_QUOTA)
        has_option = options.num > 0
        smallest[has_option] = options.devices[options.starts[:-1][has_option]]
        is_limited = snapshot.quota_devices[snapshot.tenant] < snapshot.num_devices
        waits: BoolArray = (
            is_limited & (self.steadied.workers == 0) & ~snapshot.is_promised & (smallest > left)
        )
        waits[list(self.allocation.refusals)] = False
        waits[[snapshot.row_of[job_id] for job_id in self.backing_off]] = False
        return waits

    def _why_quota(self, row: int) -> str:
        snapshot = self.snapshot
        quota = int(cast(IntArray, snapshot.quota_devices)[snapshot.tenant[row]])
        if not snapshot.options.num[row]:
            return f"waits: none of its allowed sizes fits in the {told_devices(quota)} of its tenant's quota"
        taken = int(snapshot.devices_of_tenants(self.steadied.workers)[snapshot.tenant[row]])
        smallest = int(snapshot.options.devices[snapshot.options.starts[row]])
        others = f"its tenant's quota is {told_devices(quota)}, of which other jobs have {taken}"
        return f"waits: {others}; it needs {smallest}"

    def _why_held(self, row: int, want: int) -> str:
        workers, held = int(self.steadied.workers[row]), int(self.snapshot.held_workers[row])
        if workers != held:
            return f"gets {told_workers(workers)} of {want}: other jobs still use the remaining devices"
        keeps = f"keeps {told_workers(held)}"
        if want < held:
            return f"{keeps}: no other job needs the devices now, or it was resized recently"
        return f"{keeps}: {self._why_not_grown(row, want)}"

    def _why_not_grown(self, row: int, want: int) -> str:
        """Why the job does not grow to `want` workers; the causes are tried in the order of `steady`."""
        snapshot = self.snapshot
        saves_s, cost_s = float(self.steadied.gain_s[row]), float(snapshot.growth_cost_s[row])
        if self.allocation.floor[row] <= snapshot.held_workers[row]:
            if snapshot.now_s < snapshot.changed_s[row] + snapshot.min_hold_s:
                ago = span(snapshot.min_hold_s)
                return f"resized less than {ago} ago; may grow to {want} later if that pays"
            if saves_s <= GAIN_OVER_COST * cost_s:
                saves = f"growing to {want} would save {span(max(saves_s, 0.0))}"
                return f"{saves}, less than {GAIN_OVER_COST:g} times the {span(cost_s)} that a growth costs"
        return f"no free devices to grow to {want}, or the job is about to end or be resized"
