"""ElasticFlow: deadlines that are promises, and what they leave to whom it serves best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import suited
from swell.model.plan import Allocation, Refusal
from swell.model.snapshot import BEST_EFFORT, Snapshot
from swell.policies.elasticflow.account import ElasticFlowAccount
from swell.policies.elasticflow.admission import admit
from swell.policies.elasticflow.objective import Objective
from swell.policies.elasticflow.promises import Promises, Reserve, hold_s, need_of, safe_level, stop_s
from swell.policies.elasticflow.shares import Queue, Shares
from swell.policies.levels import Levels, useful_levels
from swell.policies.order import by_deadline, by_key
from swell.policies.policy import Policy
from swell.solvers.filling import no_plans
from swell.solvers.marginal import Own, boost, raise_within
from swell.solvers.profile import Takers

NONE: IntArray = np.zeros(0, dtype=np.int64)


class ElasticFlow(Policy):
    """Admission by minimum satisfactory share, then devices by marginal return.

    1. Each undecided job is promised its deadline or refused with the earliest one that could be
       promised (`promises.admit`).
    2. Promised jobs get their floor: the share of their plan that is needed now, and of what they hold
       what their promise cannot do without with ease. One whose promise would hold with nothing to
       spare gets a size at which it holds with its reserve; one that is late, as much as is useful.
    3. Soft jobs that can still be on time get the share of their own plan.
    4. Jobs that have nothing yet get their smallest size: first promised and soft ones that run now,
       which would otherwise be suspended only to be started again; then soft ones that will be
       late, by deadline; then best-effort ones, the shortest remaining time first.
    5. What is left goes to whoever uses it best, one size at a time (Algorithm 2).

    A late fill leaves no slack: each plan ends at its deadline. Step 5 undoes that where it is free. Work
    done now saves a promised job the device-seconds of its highest level later, and running at its
    smallest size costs the fewest, so a promise that needs nothing yet has a return of at least 0,
    where a boost of others mostly has a negative one: it starts early on idle devices.

    References: Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep
        Learning", ASPLOS 2023, sections 4.1, 4.2 and 4.4.
    Deviates:
        continuous time, no slots; a plan's steps are events (`wake_s`), not closer than the minimum hold;
        Algorithm 1, line 15, sums over jobs of earlier deadline, not over slots; sizes are powers of two;
        remaining steps are inflated by the belief's margin, and the deadline drawn in by what starts and
        resizes are expected to cost (`promises.Reserve`, `promises.resize_reserve_s`);
        a refusal names a deadline that would be accepted;
        a promise that can no longer be kept is never dropped (`promises.keep_promises` says when it is
        served in its turn, and when behind those that can);
        best-effort and soft jobs enter Algorithm 2 at their smallest size, because from nothing at all
        their return would be the same for all of them: 0.
    """

    name = "elasticflow"
    makes_promises = True
    objective: ClassVar[Objective | None] = None

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = useful_levels(snapshot)
        promises, refusals = admit(snapshot, levels, self.objective)
        queue = _queue(snapshot, levels, promises, refusals)
        shares = _share(snapshot, levels, promises, queue, refusals)
        return Allocation(
            options=snapshot.options,
            option=levels.options_at(shares.level),
            floor=levels.workers_at(shares.floor),
            refusals=refusals,
            wake_s=_wake_s(snapshot, levels, promises, queue, shares),
            is_sated=not refusals and bool((shares.level == levels.num).all()),
            account=ElasticFlowAccount(snapshot, levels, promises, refusals, queue, shares),
        )


def _queue(snapshot: Snapshot, levels: Levels, promises: Promises, refusals: Mapping[int, Refusal]) -> Queue:
    is_other = promises.reserve < 0
    if refusals:
        is_other[list(refusals)] = False
    plans = no_plans(snapshot.num_jobs)
    if not is_other.any():
        return Queue(promises.rows, NONE, NONE, NONE, plans)
    is_best_effort = snapshot.job_class == BEST_EFFORT
    soft = by_deadline(snapshot, np.flatnonzero(is_other & ~is_best_effort))
    if len(soft):
        profile = promises.profile.raised(snapshot.num_borrowed)
        profile.fill(_soft_tries(snapshot, levels), plans, soft, hold_s(snapshot))
    is_on_time = plans.grade[soft] == 0
    best_effort = np.flatnonzero(is_other & is_best_effort)
    best_effort = by_key(snapshot, best_effort, _time_to_end_s(snapshot, levels))
    return Queue(promises.rows, soft[is_on_time], soft[~is_on_time], best_effort, plans)


def _time_to_end_s(snapshot: Snapshot, levels: Levels) -> FloatArray:
    """(J,) at a job's smallest size; inf for one that fits nowhere.

    A waiting job has its start before it, and a running one that is stopped would have to start again:
    so nobody is stopped for a job that is hardly shorter.
    """
    starts_s = np.where(snapshot.held_workers == 0, snapshot.start_cost_s, -snapshot.start_cost_s)
    slowest = np.where(levels.num > 0, levels.rates[:, 0], 0.0)
    lasts_s = np.full(snapshot.num_jobs, np.inf)
    np.divide(snapshot.remaining_steps, slowest, out=lasts_s, where=slowest > 0)
    time_s: FloatArray = starts_s + lasts_s
    return time_s


def _soft_tries(snapshot: Snapshot, levels: Levels) -> Takers:
    """A soft deadline is met or not: there is one try, and who fails takes nothing."""
    until_s = snapshot.deadline_s - snapshot.now_s
    return Takers(
        devices=levels.devices,
        rates=levels.rates,
        num_levels=levels.num,
        work=need_of(snapshot)[:, None],
        ends_s=until_s[:, None],
        grades=np.array([0, 1]),
        is_at_once=np.array([False]),
        is_early=np.array([False]),
        held=levels.held,
        stop_s=stop_s(snapshot),
        shrink_s=np.zeros(snapshot.num_jobs),
        easy_s=until_s,
        left=snapshot.remaining_steps,
    )


def _share(
    snapshot: Snapshot, levels: Levels, promises: Promises, queue: Queue, refusals: Mapping[int, Refusal]
) -> Shares:
    """Steps 2 to 5 of the class's docstring."""
    level = promises.plans.now.copy()  # Algorithm 2, lines 2-4
    num_taken = int(levels.devices_at(level).sum())
    left, own_left = snapshot.num_devices - num_taken, snapshot.num_owned - num_taken
    needs_owned = snapshot.needs_owned

    def give(rows: IntArray, most: int | IntArray) -> None:
        nonlocal left, own_left
        if len(rows) and left:
            own = Own(own_left, needs_owned)
            left, own_left = raise_within(level, levels.devices, levels.num, rows, most, left, own)

    promised, soft, is_running = queue.promised, queue.soft, snapshot.held_workers > 0
    give(promised, promises.plans.keep[promised])
    weak = promised[promises.reserve[promised] > Reserve.FULL]
    if len(weak):
        give(weak[promises.reserve[weak] == Reserve.RUNNING], 1)
        weakest = weak[promises.reserve[weak] >= Reserve.CHANGES]
        give(weakest, safe_level(snapshot, levels, weakest))
    floor = level.copy()
    if left == 0:
        return Shares(floor, level)
    if len(soft):
        give(soft, np.maximum(queue.plans.now[soft], np.minimum(queue.plans.top[soft], levels.held[soft])))
    running = np.concatenate([promised[is_running[promised]], soft[is_running[soft]]])
    give(np.concatenate([running, queue.late, queue.best_effort]), 1)
    num_levels = levels.num
    if refusals:
        num_levels = num_levels.copy()
        num_levels[list(refusals)] = 0
    level, _ = boost(
        level,
        levels.devices,
        levels.rates,
        num_levels,
        _prices(levels, promises, queue),
        levels.held,
        snapshot.arrival_rank,
        left,
        Own(own_left, needs_owned),
    )
    return Shares(floor, level)


def _prices(levels: Levels, promises: Promises, queue: Queue) -> FloatArray:
    """(J,) device-seconds that a step costs at the level to which a job's plan is filled.

    One less step to do then frees that many. A job without a plan is filled to its smallest size.
    """
    planned = np.maximum(promises.plans.top, queue.plans.top)
    return levels.prices(np.maximum(planned, np.minimum(levels.num, 1)))


def _wake_s(snapshot: Snapshot, levels: Levels, promises: Promises, queue: Queue, shares: Shares) -> float:
    """The first step of a plan that may need more than its job has, but not sooner than sizes may change."""
    next_s = suited(_next_step_s, snapshot.num_jobs)(
        shares.level,
        levels.held,
        promises.plans.top,
        promises.plans.change_s,
        queue.plans.top,
        queue.plans.change_s,
    )
    return snapshot.now_s + max(float(next_s), hold_s(snapshot))


def _next_step_s(
    level: IntArray,
    held: IntArray,
    promised_top: IntArray,
    promised_change_s: FloatArray,
    queued_top: IntArray,
    queued_change_s: FloatArray,
) -> float:
    """The first step of any plan that goes to more than its job is to have and has; inf if there is none."""
    next_s = np.inf
    for row in range(len(level)):
        has = min(level[row], held[row])
        if promised_top[row] > has:
            next_s = min(next_s, promised_change_s[row])
        if queued_top[row] > has:
            next_s = min(next_s, queued_change_s[row])
    return next_s
