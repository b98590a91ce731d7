"""ElasticFlow: deadlines that are promises, and what they leave to whom it serves best."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import suited
from swell.model.plan import Allocation, Moves, Refusal
from swell.model.snapshot import BEST_EFFORT, Memory, Snapshot
from swell.policies.elasticflow.account import ElasticFlowAccount
from swell.policies.elasticflow.admission import admit
from swell.policies.elasticflow.objective import OBJECTIVES
from swell.policies.elasticflow.promises import PromisePlanner, Promises, give_back_ended
from swell.policies.elasticflow.shares import Queue, Ranking, Shares, by_savings, share
from swell.policies.elasticflow.standing import NONE, remembered_soft, to_remember, written
from swell.policies.levels import Levels, useful_levels
from swell.policies.policy import Policy
from swell.solvers.filling import copy_of
from swell.solvers.profile.plans import AS_PLANNED, BROKEN, MOMENT_S

PromisesBy = Annotated[
    str,
    msgspec.Meta(
        description="What is promised where not all deadlines can be: as many as possible (number), those of "
        "large jobs too (balanced), each that can be kept, first come, first served (work), or fair shares "
        "(tenants)."
    ),
]
SurviveNodes = Annotated[
    float,
    msgspec.Meta(
        ge=0,
        le=1000,
        description="Nodes that may be lost at one time without breaking a promise. More deadlines are "
        "refused for it.",
    ),
]


class ElasticFlow(Policy):
    """Admission by plans that keep all promises, then devices by marginal return.

    1. Each undecided job is promised its deadline, if there are plans that keep it and all promises made
       before, or refused with the earliest one that could be promised (`admission.admit`). In a plan every
       start and every resize takes the time that it takes at most at that size (`promises.PromisePlanner`).
    2. Promised jobs get their floor: the share of their plan that is needed now. One that is late has a plan
       to take as much as is useful. One whose plan stops it for less time than a start takes keeps what it
       has until then, if that is free.
    3. Soft jobs that can still be on time, if all goes as believed, get the share of their own plan, which is
       kept like that of a promise as long as it holds. Plans are made by priority, then by deadline.
    4. Jobs that have nothing yet get their smallest size: first promised and soft ones that run now,
       which would otherwise be suspended only to be started again; then best-effort ones, by priority, the
       shortest remaining time over the weight first.
    5. What is left goes where it is used best, one size at a time (Algorithm 2), savings of a job times its
       weight; what these leave, to soft
       jobs that will be late, by priority, then by deadline.
    6. A change of steps 4 and 5 that no plan needs is made to a promised job only if its plan holds with that
       change paid for, and the change back, too.

    A late fill leaves no slack: each plan ends at its deadline. Step 5 undoes that where it is free. Work
    done now saves a promised job the device-seconds of its highest level later, and running at its
    smallest size costs the fewest, so a promise that needs nothing yet has a return of at least 0,
    where a boost of others mostly has a negative one: it starts early on idle devices.

    References: Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep
        Learning", ASPLOS 2023, sections 4.1, 4.2 and 4.4.
    Deviates:
        large jobs that fit are refused where the cluster is crowded (`objective.ManyJobs`); the paper admits
        each job that fits, as `promises_by` = work and `elasticflow_paper` do;
        a refusal names a deadline that would be accepted;
        continuous time, no slots; a plan's steps are events (`wake_s`);
        Algorithm 1, line 15, sums over jobs of earlier deadline, not over slots; sizes are powers of two;
        plans pay for their changes, and remaining steps are inflated by the belief's margin and by one step;
        plans are kept from one decision to the next, and made again where they do not hold; a newcomer is
        tried in the gaps they leave, and with all plans as late and as early as can be;
        promises count quotas, stand on owned nodes only, and survive the loss of `survive_nodes` nodes
        (`reserve.keep_promises`);
        a promise that can no longer be kept is never dropped (`promises.PromisePlanner.keep` says when it is
        served in its turn, and when behind those that can), and does not forbid newcomers;
        Algorithm 2 raises by one size, in closed form (`solvers.marginal.boost`), and makes only changes that
        plans can pay for (step 6); a job may keep what it has between two steps of its plan (step 2);
        soft jobs have plans of their own (step 3), and those that will be late come last (step 5);
        best-effort and soft jobs enter Algorithm 2 at their smallest size (step 4), because from nothing at
        all their return would be the same for all of them: 0.
    """

    name = "elasticflow"
    makes_promises = True
    weighs_jobs = True
    counts_quotas = True
    promises_by: PromisesBy = "number"
    survive_nodes: SurviveNodes = 0.0

    def __post_init__(self) -> None:
        """Raises ValueError: nothing is promised by this."""
        if self.promises_by not in OBJECTIVES:
            raise ValueError(f"promises_by={self.promises_by}: write one of {', '.join(OBJECTIVES)}")

    def _ranking(self, snapshot: Snapshot, levels: Levels, promises: Promises, queue: Queue) -> Ranking:
        """How jobs compete in steps 4 and 5."""
        return by_savings(levels, promises, queue)

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = useful_levels(snapshot)
        planner, promises, refusals, demand = admit(
            snapshot, levels, OBJECTIVES[self.promises_by], int(self.survive_nodes)
        )
        queue = _queue(snapshot, levels, planner, promises, refusals)
        ranking = self._ranking(snapshot, levels, promises, queue)
        shares = share(snapshot, levels, planner, promises, queue, refusals, ranking)
        memory = {
            **to_remember(snapshot, levels, promises.plans, promises.rows, shares.after_change, shares.level),
            "soft": written(snapshot, levels, queue.plans, queue.soft),
            "newcomers": demand.memory,
        }
        return Allocation(
            options=snapshot.options,
            option=levels.options_at(shares.level),
            floor=levels.workers_at(shares.floor),
            refusals=refusals,
            wake_s=_wake_s(snapshot, levels, promises, queue, shares),
            is_sated=not refusals and bool((shares.level == levels.num).all()),
            account=ElasticFlowAccount(snapshot, levels, promises, queue, shares, ranking.told),
            memory=memory,
            moves=partial(_moves, planner, levels, promises, shares, memory),
        )


def _queue(
    snapshot: Snapshot,
    levels: Levels,
    planner: PromisePlanner,
    promises: Promises,
    refusals: Mapping[int, Refusal],
) -> Queue:
    is_other = promises.grade < 0
    if refusals:
        is_other[list(refusals)] = False
    plans = remembered_soft(snapshot, levels)
    if not is_other.any():
        return Queue(promises.rows, NONE, NONE, NONE, plans)
    is_best_effort = snapshot.job_class == BEST_EFFORT
    soft = snapshot.by_key((is_other & ~is_best_effort).nonzero()[0], snapshot.deadline_s)
    if len(soft):  # a soft deadline is met or not: one that cannot be takes nothing here
        profile = promises.profile.raised(snapshot.num_borrowed)
        give_back_ended(profile, snapshot)
        profile.fill(planner.takers, plans, soft, AS_PLANNED)
    is_on_time = plans.grade[soft] != BROKEN
    late = soft[~is_on_time]
    plans.top[late] = plans.now[late] = 0
    best_effort = (is_other & is_best_effort).nonzero()[0]
    best_effort = snapshot.by_key(best_effort, _weighted_time_s(snapshot, levels))
    return Queue(promises.rows, soft[is_on_time], late, best_effort, plans)


def _time_to_end_s(snapshot: Snapshot, levels: Levels) -> FloatArray:
    """(J,) at a job's smallest size; inf for one that fits nowhere.

    A waiting job has its start before it, and a running one that is stopped would have to start again:
    so no job is stopped for one that is hardly shorter.
    """
    starts_s = np.where(snapshot.held_workers == 0, snapshot.start_cost_s, -snapshot.start_cost_s)
    slowest = np.where(levels.num > 0, levels.rates[:, 0], 0.0)
    lasts_s = np.full(snapshot.num_jobs, np.inf)
    np.divide(snapshot.remaining_steps, slowest, out=lasts_s, where=slowest > 0)
    time_s: FloatArray = starts_s + lasts_s
    return time_s


def _weighted_time_s(snapshot: Snapshot, levels: Levels) -> FloatArray:
    """(J,) the time to the end over the weight of the job (Smith's rule); one below 0 is multiplied by it.

    References: Smith, "Various optimizers for single-stage production", 1956.
    """
    time_s, weight = _time_to_end_s(snapshot, levels), snapshot.relative_weight
    return np.where(time_s < 0.0, time_s * weight, time_s / weight)


def _moves(
    planner: PromisePlanner,
    levels: Levels,
    promises: Promises,
    shares: Shares,
    memory: Memory,
    rows: IntArray,
) -> Moves:
    """When the plan of each changes, if all of these go to other devices; -inf: it cannot pay."""
    snapshot, takers, plans = planner.snapshot, planner.takers, promises.plans
    until_s = np.full(len(rows), np.inf)
    is_held = (plans.grade[rows] >= 0) & (takers.held[rows] > 0)
    held, after_move = rows[is_held], copy_of(shares.after_change)
    is_paid = shares.left.copy().pay(takers, plans, after_move, held, takers.held[held])
    change_s, end_s = after_move.change_s[held], after_move.end_s[held]
    change_s = np.where(change_s < end_s, change_s, np.inf)
    until_s[is_held] = np.where(is_paid, snapshot.now_s + np.maximum(change_s, MOMENT_S), -np.inf)
    plans_then = to_remember(snapshot, levels, plans, promises.rows, after_move, shares.level)
    return Moves(until_s, {**memory, **plans_then})


def _wake_s(snapshot: Snapshot, levels: Levels, promises: Promises, queue: Queue, shares: Shares) -> float:
    """The first step of a plan that may need more than its job has."""
    run, held = suited(next_step_s, snapshot.num_jobs), levels.held
    next_s = min(
        float(run(shares.level, held, plans.top, plans.change_s))
        for plans in (promises.plans, shares.after_change, queue.plans)
    )
    # A job that gets more than its plan says pushes the plan's next step away, by less each time: without a
    # least step a run could take infinitely many before a fixed instant.
    return snapshot.now_s + max(next_s, MOMENT_S)


def next_step_s(level: IntArray, held: IntArray, top: IntArray, change_s: FloatArray) -> float:
    """The first step of any plan that goes to more than its job is to have and has; inf if there is none."""
    next_s = np.inf
    for row in range(len(level)):
        if top[row] > min(level[row], held[row]):
            next_s = min(next_s, change_s[row])
    return next_s
