"""BFTrainer: the sizes with which borrowed nodes bring most until the pool is expected to change."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from msgspec import Meta

from swell.arrays import BoolArray, FloatArray
from swell.model.options import Domain, Sizes
from swell.model.plan import Allocation
from swell.model.quantities import span
from swell.model.snapshot import Snapshot
from swell.policies.policy import Policy, switch
from swell.policies.unpromised import chosen_without_promises
from swell.solvers.knapsack import best_options

#: T_fwd where a node ends sooner.
LEAST_FORWARD_S = 1.0
#: Of values that differ by a smaller share, that of the present size counts as the larger one.
SAME_SHARE = 1e-9

MaxTrainers = Annotated[int, Meta(ge=1, description="Most jobs that share the nodes at one time (Pjmax).")]
#: Of a value: what a job of the highest priority gains in it, so that it wins ties.
TIE_SHARE = 1e-6


class BFTrainer(Policy):
    """The map of nodes to jobs that is worth most over the time T_fwd, less what the change to it costs.

    The integer program of the paper, collapsed to counts: since a job may keep any of its own nodes and take
    any free ones, the constraint against migration holds for every vector of counts that the nodes allow.
    The placer keeps that constraint (`forbids_migration`). What is left is a multiple-choice knapsack, which
    is solved exactly in milliseconds. Jobs are taken first come, first served, up to `max_trainers` of them.
    The metric of each job is multiplied by its weight.

    References: Liu, Kettimuthu, Papka, Foster, "BFTrainer: Low-Cost Training of Neural Networks on Unfillable
        Supercomputer Nodes", 2021, section 3.
    Deviates: all sizes count, where the paper interpolates between some (Eqs. 11 and 12). A size of 0 is
        allowed, which Eq. 11 as printed forbids. Equation 14 sums the costs over jobs where each has its own
        (Eq. 13). Equation 10 needs M >= 2 |N|, and not M > |N|, which forbids every change by more than half
        of the nodes; counts need no M. Solving needs no limit of time (section 3.6). Nodes of several devices
        are counted in devices. Restart jobs count their work in seconds on one worker. Costs are those that a
        profile names, until growths and shrinks of the job have been measured. T_fwd does not reach beyond
        the next known end of a node. Equation 16 charges the speed *before* the change, so that starting a
        waiting job is free and the new nodes' idle time is not counted. With `corrected` nothing is done at
        the new size while the job changes: V(n) = (T_fwd - R(n)) O(n) for n other than the present size, R_up
        of a start is the time from a launch to the first step, for processes that start take longer than a
        live gang that takes in others, and no change pays that takes longer than T_fwd. A start on nodes that
        nothing else is made of pays all the same: a waiting job has nothing to lose.
    """

    name = "bftrainer"
    domain = Domain(sizes=Sizes.EVERY)
    weighs_changes = True
    forbids_migration = True

    t_fwd_s: Annotated[
        float, Meta(gt=0.0, description="Time that a new map is expected to last (T_fwd), in seconds.")
    ] = 120.0
    reclaim_share: Annotated[
        float,
        Meta(
            ge=0.0,
            lt=1.0,
            description="T_fwd is the time within which a node is reclaimed with this probability, as far as "
            "the pool has shown; 0: it is t_fwd_s.",
        ),
    ] = 0.0
    max_trainers: MaxTrainers = 1_000
    efficiency_share: Annotated[
        float,
        Meta(
            ge=0.0,
            le=1.0,
            description="Objective: 0 is samples a second, 1 is speed over that of one worker; values "
            "between weigh the two.",
        ),
    ] = 0.0
    corrected: Annotated[int, switch("1: a change costs the work that is not done at the new size then.")] = 0

    def decide(self, snapshot: Snapshot) -> Allocation:
        trainers = first_come(snapshot, self.max_trainers)
        forward_s = self.forward_s(snapshot)
        value, nothing = self.values(snapshot, trainers, forward_s)
        options, order = snapshot.options, snapshot.arrival_order
        value = _preferring(snapshot, value)
        best = best_options(
            options.starts, options.devices, value, nothing, snapshot.num_devices, order=order
        )
        has = f"worth most over the next {span(forward_s)}, less what changes cost"
        return chosen_without_promises(
            snapshot, best.option, order, lambda row: has, "other jobs make more of the nodes, or came first"
        )

    def forward_s(self, snapshot: Snapshot) -> float:
        """T_fwd: given, or from what the pool has shown so far (section 3.4.3).

        The time for which a node stays is taken as exponential, with the rate that was seen. Neither reaches
        beyond the next known end of a node.
        """
        forward_s = self.t_fwd_s
        if self.reclaim_share > 0.0 and snapshot.reclaims_per_node_s > 0.0:
            forward_s = -math.log1p(-self.reclaim_share) / snapshot.reclaims_per_node_s
        return max(min(forward_s, snapshot.calendar.next_end_s - snapshot.now_s), LEAST_FORWARD_S)

    def values(
        self, snapshot: Snapshot, trainers: BoolArray, forward_s: float
    ) -> tuple[FloatArray, FloatArray]:
        """(O,) worth of each option and (J,) of none; -inf where a job that is no trainer would have one."""
        options, rows = snapshot.options, snapshot.options.rows
        held, weight = snapshot.held_workers, self._weights(snapshot)
        is_same = options.workers == held[rows]
        change_s = np.where(
            options.workers > held[rows], self.growth_s(snapshot)[rows], snapshot.shrink_cost_s[rows]
        )
        if self.corrected:  # (T_fwd - R(n)) O(n), R by Eqs. 13 to 15
            left_s = forward_s - change_s
            left_s = np.where(held[rows] > 0, left_s, np.maximum(left_s, SAME_SHARE * forward_s))
            per_s = weight[rows] * options.rate_per_s
            kept, value, nothing = forward_s * per_s, left_s * per_s, np.zeros(len(held))
        else:  # T_fwd O(n) - O(C) R(n) (Eq. 16)
            now = weight * snapshot.held_rate_per_s  # O_j(C_j)
            kept = forward_s * weight[rows] * options.rate_per_s
            value, nothing = kept - now[rows] * change_s, -now * snapshot.shrink_cost_s
        value = np.where(is_same, kept * (1.0 + SAME_SHARE), value)
        return np.where(trainers[rows], value, -np.inf), nothing

    def growth_s(self, snapshot: Snapshot) -> FloatArray:
        """(J,) R_up (Eq. 13); corrected: of a start where the job has no workers."""
        if not self.corrected:
            return snapshot.growth_cost_s
        is_start = snapshot.held_workers == 0
        cost_s: FloatArray = np.where(is_start, snapshot.start_cost_s, snapshot.growth_cost_s)
        return cost_s

    def _weights(self, snapshot: Snapshot) -> FloatArray:
        """(J,) metric for each step a second (section 5.2.1): samples, speed-up, or between; weighted."""
        one_samples_per_s = snapshot.smallest_per_s * snapshot.samples_per_step
        metric: FloatArray = snapshot.samples_per_step * one_samples_per_s**-self.efficiency_share
        return metric * snapshot.relative_weight


def _preferring(snapshot: Snapshot, value: FloatArray) -> FloatArray:
    """(O,) values, by up to a millionth higher for jobs of higher priority, which so win ties.

    Those of jobs that are no trainers stay -inf.
    """
    if not snapshot.priority.any():
        return value
    levels, rank = np.unique(snapshot.priority, return_inverse=True)
    share = TIE_SHARE * rank / len(levels)
    finite = np.where(np.isinf(value), 0.0, value)
    preferred: FloatArray = value + share[snapshot.options.rows] * np.abs(finite)
    return preferred


def first_come(snapshot: Snapshot, max_trainers: int) -> BoolArray:
    """(J,) jobs that share the nodes (section 5.3): those that hold some, then the first submitted."""
    is_trainer = np.zeros(snapshot.num_jobs, dtype=bool)
    order = snapshot.arrival_order
    is_held, fits = snapshot.held_workers[order] > 0, snapshot.options.num[order] > 0
    ranked = np.concatenate([order[is_held], order[~is_held & fits]])
    is_trainer[ranked[:max_trainers]] = True
    return is_trainer
