"""Gandiva: everybody soon gets a turn, by slices of time."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.flowcon import requested_levels
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.solvers.marginal import raise_in_order
from swell_papers.policies.rounds import claims, longest_first, next_round_s

#: Long beside a suspension, short beside a job: as the leases of `themis` (see `Gandiva`).
SLICE_S = 1200.0


class Gandiva(Policy):
    """Time slicing: jobs at the sizes they asked for, round robin in slices of 20 minutes.

    A gang keeps its devices for its slice. Then those go first who have waited longest, and it goes on if
    no job that fits wants its devices. So each job soon has a first slice, and all are slowed down
    alike: there is no order by length or deadline.

    References: Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018,
        sections 3.1 and 4.1 (suspend-resume, over-subscription by time slicing).
    Deviates: a slice takes as long as a lease of `themis`, the paper's about a minute (`slice_s=60`): there a
        suspension takes a second at most, or 2 % of its slice, and here a launch takes several; no packing
        of two jobs on one device, for here a device has one owner; no migration beside that of the placer,
        which makes room on nodes; no growing and shrinking (section 3.1), of which the paper's own
        evaluation makes little use, and ElasticFlow's section 6.1 none; slices are handed out over the whole
        cluster, not within groups of nodes of one job size, and only while devices are short: ElasticFlow's
        published simulator lets jobs of one size take turns on one set of nodes while others are idle.
    """

    name = "gandiva"

    slice_s: Annotated[
        float,
        Meta(ge=1, description="Length of a time slice: a job keeps its devices for this many seconds."),
    ] = SLICE_S

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = requested_levels(snapshot)
        rows = snapshot.arrival_order
        order = longest_first(snapshot, rows, claims(snapshot, self.slice_s))  # round robin
        level = np.zeros(snapshot.num_jobs, dtype=np.int64)
        raise_in_order(level, levels.devices, levels.num, order, 1, snapshot.num_devices)
        answer = without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: "its requested size, for one time slice",
            "other jobs have their time slice",
        )
        return replace(answer, wake_s=next_round_s(snapshot, levels, self.slice_s))
