"""From a snapshot to a plan: the policy says how much, steadiness says whether now, the placer says where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from swell.core.gain import gain_s
from swell.core.ports import Placer, Policy
from swell.core.steady import GAIN_OVER_COST, Steadied, steady
from swell.model.cluster import Cluster
from swell.model.plan import Allocation, JobPlan, Placement, Plan, Reason
from swell.model.snapshot import BoolArray, IntArray, Snapshot


@dataclass(frozen=True, slots=True)
class Planner:
    """Args: `others` are the policies, by name, that the platform may be switched to."""

    policy: Policy
    placer: Placer
    others: Mapping[str, Policy] = field(default_factory=dict)

    def named(self, policy: str) -> Planner:
        """This planner with the policy of that name. Raises KeyError."""
        return self if policy == self.policy.name else replace(self, policy=self.others[policy])

    def plan(
        self,
        snapshot: Snapshot,
        is_pinned: BoolArray,
        cluster: Cluster,
        held: Mapping[str, tuple[str, ...]],
    ) -> Plan:
        """A plan for every job of the snapshot. Empty devices mean: wait.

        Args:
            is_pinned: (J,) jobs whose gang cannot change now.
            held: job id -> devices of its gang, or of the gang under way.
        """
        allocation = self.policy.decide(snapshot)
        steadied = steady(snapshot, allocation, is_pinned)
        pinned = frozenset(snapshot.job_ids[row] for row in np.flatnonzero(is_pinned))
        placement = self._place(snapshot, allocation, steadied.workers, cluster, held, pinned)
        finish_s = allocation.finish_s
        net_s = gain_s(snapshot, steadied.workers) - snapshot.resize_cost_s
        jobs = {
            job_id: JobPlan(
                devices=placement.devices.get(job_id, ()),
                finish_s=float(finish_s[row]),
                reason=_reason(snapshot, allocation, row, steadied, placement),
                refusal=allocation.refusals.get(row),
                is_short=bool(allocation.floor[row] > snapshot.held_workers[row]),
                expected_gain_s=float(net_s[row]),
                expected_cost_s=float(snapshot.resize_cost_s[row]),
            )
            for row, job_id in enumerate(snapshot.job_ids)
        }
        return Plan(
            jobs=jobs,
            wake_s=min(allocation.wake_s, steadied.wake_s),
            makes_promises=self.policy.makes_promises,
        )

    def _place(
        self,
        snapshot: Snapshot,
        allocation: Allocation,
        workers: IntArray,
        cluster: Cluster,
        held: Mapping[str, tuple[str, ...]],
        pinned: frozenset[str],
    ) -> Placement:
        """Place; a running job that cannot have its new size here and now keeps the devices it has."""
        wanted = _wanted_devices(snapshot, allocation, workers)
        placement = self.placer.place(cluster, wanted, held, pinned)
        stuck = {job for job in wanted if held.get(job) and job not in placement.devices}
        if not stuck:
            return placement
        kept = {job: len(held[job]) if job in stuck else num for job, num in wanted.items()}
        return self.placer.place(cluster, kept, held, pinned | stuck)


def _wanted_devices(snapshot: Snapshot, allocation: Allocation, workers: IntArray) -> dict[str, int]:
    """Job id -> number of devices, promises first, then in order of class and arrival."""
    rows = sorted(
        np.flatnonzero(workers > 0),
        key=lambda row: (
            allocation.floor[row] == 0,
            snapshot.job_class[row],
            snapshot.submitted_s[row],
            snapshot.job_ids[row],
        ),
    )
    return {snapshot.job_ids[row]: int(workers[row] * snapshot.devices_per_worker[row]) for row in rows}


def _reason(
    snapshot: Snapshot, allocation: Allocation, row: int, steadied: Steadied, placement: Placement
) -> Reason:
    """Why the job has what it gets, where that is not what the policy alone would give it."""
    want, held = int(allocation.workers[row]), int(snapshot.held_workers[row])
    workers = int(steadied.workers[row])
    if snapshot.job_ids[row] in placement.moved and want == held:
        return Reason("moved", "moves to other devices so that another job's block is whole")
    if workers == want:
        return allocation.account.reason(row)
    if workers == 0:
        return Reason("waiting", f"waits for devices that cannot be had yet; is to have {_workers(want)}")
    if workers == held and want > held:
        return Reason(
            "held", f"keeps {_workers(held)}: {_why_not_grown(snapshot, allocation, row, steadied)}"
        )
    if workers == held:
        return Reason("held", f"keeps {_workers(held)}: nobody needs the others now, or it has just changed")
    return Reason(
        "held", f"gets {_workers(workers)} of the {want} it should have: others keep theirs for now"
    )


def _why_not_grown(snapshot: Snapshot, allocation: Allocation, row: int, steadied: Steadied) -> str:
    """In the order in which `steady` asks."""
    want = int(allocation.workers[row])
    saves_s, cost_s = float(steadied.gain_s[row]), float(snapshot.resize_cost_s[row])
    if allocation.floor[row] <= snapshot.held_workers[row]:
        if snapshot.now_s < snapshot.changed_s[row] + snapshot.min_hold_s:
            return f"it has changed less than {snapshot.min_hold_s:g} s ago; {want} come later, if they pay"
        if saves_s <= GAIN_OVER_COST * cost_s:
            return (
                f"{want} would save {max(saves_s, 0.0):.2g} s, which is less than {GAIN_OVER_COST:g} times "
                f"the {cost_s:.2g} s that a change takes"
            )
    return f"others keep the devices that {want} would need, or it is about to end or to change"


def _workers(num: int) -> str:
    return "1 worker" if num == 1 else f"{num} workers"
