"""Earliest deadline first: the canonical way to meet deadlines."""

from __future__ import annotations

import numpy as np

from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels, all_levels, useful_levels
from swell.policies.order import by_deadline
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.solvers.marginal import raise_in_order


class Edf(Policy):
    """The earliest deadline gets as many devices as speed it up, then the next one from what is left.

    A later job runs beside earlier ones if something is left for it, at the most that fits. Jobs without
    deadlines come last, by arrival. Refuses no job, the hopeless neither: these keep devices from others.

    References: Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
        Environment", 1973, section 7; as the baseline of ElasticFlow (ASPLOS 2023), section 6.1: "as many
        GPUs as a job can scale out without decreasing the throughput".
    Deviates: ElasticFlow's published simulator gives the largest size that was profiled even where that is
        slower than a smaller one; this follows the paper, and `edf_largest` the simulator.
    """

    name = "edf"

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = self._levels(snapshot)
        level = np.zeros(snapshot.num_jobs, dtype=np.int64)
        order = by_deadline(snapshot, range(snapshot.num_jobs))
        raise_in_order(level, levels.devices, levels.num, order, levels.highest, snapshot.num_devices)
        return without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: "the most useful workers that jobs with earlier deadlines leave free",
            "jobs with earlier deadlines come first",
        )

    def _levels(self, snapshot: Snapshot) -> Levels:
        return useful_levels(snapshot)  # section 6.1: cut at the peak


class EdfLargest(Edf):
    """The same, but with the largest size that a job may have, be it slower than a smaller one.

    References: the published simulator of ElasticFlow. The figures that its paper prints for EDF are those
        of this rule: 17 of 195 jobs in time in Figure 6(b), 23 of 195 in Figure 8(a).
    Deviates: from section 6.1 of the paper, which says "without decreasing the throughput".
    """

    name = "edf_largest"

    def _levels(self, snapshot: Snapshot) -> Levels:
        return all_levels(snapshot)
