"""Chronus: deadlines by admission and leases, and best-effort jobs in the gaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from swell.arrays import IntArray
from swell.model.plan import Allocation
from swell.model.snapshot import BEST_EFFORT, Snapshot
from swell.policies.flowcon import requested_levels
from swell.policies.levels import Levels
from swell.policies.policy import Policy
from swell_papers.policies.edf_feasibility import EdfForecast
from swell_papers.policies.rounds import RoundClaim, claims, next_round_s

#: ElasticFlow's evaluation gives it slots of this length.
LEASE_S = 240.0


class Chronus(Policy):
    """Jobs with deadlines are admitted if they can be met at the sizes asked for; the rest fills the gaps.

    Who has devices keeps them to the end of the lease. Then admitted jobs come first, by deadline, next soft
    ones, and best-effort ones with the shortest remaining time first; of these two, each by priority first.

    References: Gao et al., "Chronus: A Novel Deadline-aware Scheduler for Deep Learning Training Jobs", SoCC
        2021: leases, guaranteed deadlines for SLO jobs, best-effort jobs for the shortest completion time.
    Deviates: the lease of each job is found by deadline, not by a mixed-integer program, so some sets of
        deadlines that could be met are refused; a job that is not guaranteed is refused, where the paper lets
        it run without a deadline; no local search for placement, which
        is the placer's; while devices are short, admission adds a lease to a job that waits, for it may have
        to wait for the end of one.
    """

    name = "chronus"
    makes_promises = True

    lease_s: Annotated[
        float, Meta(ge=1, description="Length of a lease: a job keeps its devices for this many seconds.")
    ] = LEASE_S

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = requested_levels(snapshot)
        gate = EdfForecast(snapshot, levels, _wait_s(snapshot, levels, self.lease_s))
        gate.admit()
        order = _in_order(snapshot, levels, gate, self.lease_s)
        waits = "other jobs hold leases or have earlier deadlines"
        answer = gate.serve(order, 1, "its requested size, for one lease", waits)
        return replace(answer, wake_s=next_round_s(snapshot, levels, self.lease_s))


def _wait_s(snapshot: Snapshot, levels: Levels, lease_s: float) -> float:
    """Seconds that a job may wait for the end of a lease; 0 if there are idle devices for all jobs."""
    num_held = int((snapshot.held_workers * snapshot.devices_per_worker).sum())
    num_wanted = int(levels.devices[snapshot.held_workers == 0].sum())
    return 0.0 if num_held + num_wanted <= snapshot.num_devices else lease_s


def _in_order(snapshot: Snapshot, levels: Levels, gate: EdfForecast, lease_s: float) -> IntArray:
    """Rows that are served; those with a lease that runs first, then SLO jobs, then best effort."""
    others = gate.others
    is_best_effort = snapshot.job_class[others] == BEST_EFFORT
    soft = snapshot.by_key(others[~is_best_effort], snapshot.deadline_s)
    left_s = snapshot.remaining_steps / np.where(levels.num > 0, levels.rates[:, 0], 1.0)
    best_effort = snapshot.by_key(others[is_best_effort], left_s)
    served = np.concatenate([gate.kept, soft, best_effort])
    keeps = claims(snapshot, lease_s)[served] == RoundClaim.KEEPS
    return np.concatenate([served[keeps], served[~keeps]])
