"""Equal shares, divided again in each period."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.levels import useful_levels
from swell.policies.policy import Period, Policy
from swell.policies.unpromised import without_promises
from swell.solvers.marginal import raise_in_order


class PeriodicShares(Policy):
    """A job keeps its share from the beginning of a period to its end."""

    name = "periodic_shares"
    weighs_changes = True

    period_s: Period = 300.0
    most_workers: Annotated[int, Meta(ge=1, description="Most workers of a job.")] = 64

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels, order = useful_levels(snapshot), snapshot.arrival_order
        given = snapshot.memory.get("workers", {})
        if snapshot.is_due:
            share = min(self.most_workers, snapshot.num_devices // max(1, snapshot.num_jobs))
            most = np.maximum(levels.up_to(np.full(snapshot.num_jobs, share)), 1)
        else:
            most = levels.up_to(np.array([given.get(job_id, 0) for job_id in snapshot.job_ids]))
        level = np.zeros(snapshot.num_jobs, dtype=np.int64)
        raise_in_order(level, levels.devices, levels.num, order, most[order], snapshot.num_devices)
        waits = "all devices were divided at the beginning of this period"
        answer = without_promises(snapshot, levels, level, order, lambda row: "its equal share", waits)
        given = dict(zip(snapshot.job_ids, answer.workers.tolist(), strict=True))
        return replace(answer, memory={"workers": given})
