"""Tiresias: least attained service first, in a few queues, where remaining times are unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.policies.flowcon import requested_levels
from swell.policies.levels import Levels
from swell.policies.policy import Policy
from swell.policies.unpromised import without_promises
from swell.solvers.marginal import raise_in_order
from swell_papers.policies.rounds import LEAST_WAIT_S

#: Device-seconds at which a job leaves the first queue, and the second: those of ElasticFlow's simulator.
THRESHOLDS_DEVICE_S = (3250.0, 7200.0)
#: A job goes back to the first queue when it has waited so many times as long as it has run.
PROMOTE_KNOB = 8.0

PromoteKnob = Annotated[
    float,
    Meta(
        ge=0,
        description="A job that has waited this many times as long as it ran is promoted to the first queue.",
    ),
]


class Tiresias(Policy):
    """Discretised two-dimensional least attained service.

    Service is devices x time. A job begins in the first queue and sinks to the next one at each threshold.
    Queues are served in order, each first come, first served: who runs goes on, then by arrival. A job
    that does not fit is passed over. No remaining time is asked for, and sizes are those that jobs
    asked for.

    References: Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019,
        section 3.2.
    Deviates: a promoted job counts as one of the first queue until that has served it again, then as what it
        is by all its service (in the paper its service begins at 0 again); its waiting since submission
        counts, not since it ran last; a job that was preempted comes back by arrival, behind those of its
        queue that run (as in the authors' simulator), not by its first start; one that sinks while it runs
        goes on before those that wait in its new queue (ElasticFlow's published simulator, which promotes no
        job, puts it behind them); no placement by the skew of a model's tensors; the Gittins index of section
        3.2 is not here.
    """

    name = "tiresias"

    promote_knob: PromoteKnob = PROMOTE_KNOB

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = requested_levels(snapshot)
        thresholds = np.array(THRESHOLDS_DEVICE_S)
        devices = np.maximum(levels.devices[:, 0], 1)
        queue = np.searchsorted(thresholds, snapshot.attained_device_s, side="right")  # section 3.2: K queues
        is_promoted = self._is_promoted(snapshot, devices)
        queue[is_promoted] = 0
        order = self._in_order(snapshot, queue)
        level = np.zeros(snapshot.num_jobs, dtype=np.int64)
        raise_in_order(level, levels.devices, levels.num, order, 1, snapshot.num_devices)
        answer = without_promises(
            snapshot,
            levels,
            level,
            order,
            lambda row: f"its requested size; queue {queue[row] + 1} by attained service",
            "jobs with less attained service come first",
        )
        return replace(answer, wake_s=self._wake_s(snapshot, levels, queue, is_promoted))

    def _is_promoted(self, snapshot: Snapshot, devices: IntArray) -> BoolArray:
        """(J,) those that starved, and have not been served a first queue's worth since their launch."""
        since_s = np.where(snapshot.held_workers > 0, snapshot.now_s - snapshot.changed_s, 0.0)
        before_s = np.maximum(snapshot.attained_device_s / devices - since_s, 0.0)  # run before the launch
        waited_s = snapshot.now_s - since_s - snapshot.submitted_s - before_s
        has_starved = waited_s >= self.promote_knob * before_s  # section 3.2: PROMOTEKNOB
        promoted: BoolArray = has_starved & (since_s * devices < THRESHOLDS_DEVICE_S[0])
        return promoted

    def _wake_s(self, snapshot: Snapshot, levels: Levels, queue: IntArray, is_promoted: BoolArray) -> float:
        """When the first job changes its queue, but not sooner than sizes may change.

        Only if somebody waits: else the order changes nothing.
        """
        is_waiting = (snapshot.held_workers == 0) & (levels.num > 0)
        if not is_waiting.any():
            return np.inf
        devices = np.maximum(levels.devices[:, 0], 1)
        next_at = np.append(THRESHOLDS_DEVICE_S, np.inf)[queue]
        since_s = np.where(snapshot.held_workers > 0, snapshot.now_s - snapshot.changed_s, 0.0)
        served = np.where(is_promoted, since_s * devices, snapshot.attained_device_s)
        sinks_s: FloatArray = np.where(snapshot.held_workers > 0, (next_at - served) / devices, np.inf)
        run_s = snapshot.attained_device_s / devices
        waited_s = snapshot.now_s - snapshot.submitted_s - run_s
        rises_s = np.where(is_waiting & ~is_promoted, self.promote_knob * run_s - waited_s, np.inf)
        first_s = float(np.minimum(sinks_s, rises_s).min())
        return snapshot.now_s + max(first_s, snapshot.min_hold_s, LEAST_WAIT_S)

    def _in_order(self, snapshot: Snapshot, queue: IntArray) -> IntArray:
        """Rows by priority and queue; those that run first, so none is stopped for one of its own queue."""
        rows = snapshot.arrival_order
        is_waiting = snapshot.held_workers == 0
        ordered: IntArray = rows[np.lexsort((is_waiting[rows], queue[rows], -snapshot.priority[rows]))]
        return ordered
