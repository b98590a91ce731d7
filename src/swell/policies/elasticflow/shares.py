"""What ElasticFlow works out on its way to an answer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.promises import PromisePlanner, Promises, with_borrowed
from swell.policies.elasticflow.standing import NONE
from swell.policies.levels import Levels
from swell.solvers.capacity.plans import BROKEN, Plans
from swell.solvers.filling import FreeProfile, no_plans
from swell.solvers.marginal import SeparatePart, TakerGroups, boost, raise_within


@dataclass(frozen=True, slots=True)
class Queue:
    """Rows in the order in which they are served, each group by what matters in it."""

    promised: IntArray  #: by deadline
    soft: IntArray  #: by priority, by deadline: those that can be on time
    late: IntArray  #: soft ones that cannot, in the same order
    best_effort: IntArray  #: by priority, shortest remaining time first
    plans: Plans  #: (J,) of the soft jobs that can be on time

    @property
    def in_order(self) -> IntArray:
        """Rows of all groups in order of service, without refused jobs."""
        return np.concatenate([self.promised, self.soft, self.late, self.best_effort])


class Ranking(NamedTuple):
    """How jobs compete for what promises leave."""

    worth: FloatArray  #: (J, L + 1) of levels 0, 1, 2, ...: device-seconds that a second at each saves later
    first: IntArray  #: rows that get their smallest size before any job grows, in this order
    #: which jobs without a deadline come before others, as a part of a sentence
    told: str = "jobs that end sooner"
    reach: int = 1  #: levels that a job may go up at once
    most: int | None = None  #: devices that all have together, beyond which no job grows; None: all there are
    widest: int | None = None  #: devices of the largest gang that a job grows to; None: any
    brief: IntArray = NONE  #: rows that get their smallest size before jobs with a deadline but no promise


@dataclass(frozen=True, slots=True)
class Shares:
    """Levels that promises need now, and levels that jobs get."""

    floor: IntArray  #: (J,) level that promises need now
    level: IntArray  #: (J,) level given
    #: (J,) of promised jobs that go to another level than their plan says, where that would not hold then
    after_change: Plans
    left: FreeProfile  #: what is free beyond those plans and these


def share(
    snapshot: Snapshot,
    levels: Levels,
    planner: PromisePlanner,
    promises: Promises,
    queue: Queue,
    refusals: Collection[int],
    ranking: Ranking,
) -> Shares:
    """Levels that floors need, and those that each gets: steps 2 to 6 of `ElasticFlow`'s docstring.

    Args:
        refusals: rows that get nothing.
    """
    num_levels = levels.num.copy()
    num_levels[list(refusals)] = 0
    floor = promises.plans.now.copy()  # Algorithm 2, lines 2-4
    # What a gang that is being started or changed has goes to no other job before it is up; plans know that.
    least = np.where(planner.takers.is_bound & (promises.grade < 0), levels.held, floor)
    while True:
        left = _stay(levels, planner, promises, least)
        level = _wished(snapshot, levels, queue, least, num_levels, ranking)
        shares = Shares(floor, level, no_plans(snapshot.num_jobs), left)
        unpaid = _unpaid(snapshot, levels, planner, promises, shares)
        if not len(unpaid):
            unpaid = _in_the_way(snapshot, levels, queue, promises, shares)
        if not len(unpaid):
            return shares
        held, now = levels.held[unpaid], promises.plans.now[unpaid]
        is_growth = level[unpaid] > held
        num_levels[unpaid] = np.where(is_growth, np.maximum(held, now), now)


def _stay(levels: Levels, planner: PromisePlanner, promises: Promises, least: IntArray) -> FreeProfile:
    """A job that would be stopped, and started again sooner than a start takes, keeps what it has until then.

    If that is free. Writes these levels to `least`; returns what is free beyond them and all promises.
    """
    takers, plans, profile, rows = planner.takers, promises.plans, promises.profile.copy(), promises.rows
    stops = (takers.held[rows] > 0) & (plans.now[rows] == 0) & (plans.top[rows] > 0) & ~takers.is_bound[rows]
    rows = rows[stops]
    level, until_s = takers.held[rows], plans.change_s[rows]
    is_short = until_s <= takers.start_s[rows, level - 1]
    rows, level, until_s = rows[is_short], level[is_short], until_s[is_short]
    stays = profile.take_what_is_free(levels.devices[rows, level - 1], until_s, rows)
    least[rows[stays]] = level[stays]
    return profile


def _wished(
    snapshot: Snapshot, levels: Levels, queue: Queue, least: IntArray, num_levels: IntArray, ranking: Ranking
) -> IntArray:
    """(J,) levels after steps 2 to 5, none below `least`, and none raised above `num_levels`."""
    level = least.copy()
    devices, needs_owned = levels.devices_at(level), snapshot.needs_owned
    of_others = np.maximum(devices - snapshot.held_borrowed, 0)[~needs_owned]  #: of gangs without a promise
    num_own = snapshot.num_owned - int(of_others.sum())
    left, own_left = snapshot.num_devices - int(devices.sum()), num_own - int(devices[needs_owned].sum())
    groups = _groups(snapshot, levels, level)

    def give(rows: IntArray, most: int | IntArray) -> None:
        nonlocal left, own_left
        if len(rows) and left > 0:
            own = SeparatePart(own_left, needs_owned)
            left, own_left = raise_within(level, levels.devices, num_levels, rows, most, left, own, groups)

    if left <= 0:
        return level
    give(ranking.brief, 1)
    soft, is_running = queue.soft, snapshot.held_workers > 0
    planned = np.maximum(queue.plans.now[soft], np.minimum(queue.plans.top[soft], levels.held[soft]))
    if ranking.widest is not None:
        most = levels.up_to(ranking.widest // snapshot.devices_per_worker)[soft]
        planned = np.minimum(planned, np.maximum(most, 1))
    give(soft, planned if ranking.most is None else np.minimum(planned, 1))
    running = np.concatenate([queue.promised[is_running[queue.promised]], soft[is_running[soft]]])
    give(np.concatenate([running, ranking.first]), 1)
    limits, worth = num_levels.copy(), ranking.worth * snapshot.relative_weight[:, None]
    limits[queue.late] = 0
    beyond = 0 if ranking.most is None else max(snapshot.num_devices - ranking.most, 0)
    left = max(left - beyond, 0)
    own_left = min(own_left, left)
    if ranking.most is not None:
        give(soft, planned)
    for late in (NONE, queue.late):  # a job that will be late anyway takes nothing that others can use
        give(late, 1)
        limits[late] = num_levels[late]
        level, left = boost(
            level,
            levels.devices,
            worth,
            limits,
            levels.held,
            snapshot.arrival_rank,
            left,
            SeparatePart(own_left, needs_owned),
            groups,
            ranking.reach,
        )
        own_left = min(left, num_own - int(levels.devices_at(level)[needs_owned].sum()))
        if not len(queue.late):
            break
    return level


def _unpaid(
    snapshot: Snapshot, levels: Levels, planner: PromisePlanner, promises: Promises, shares: Shares
) -> IntArray:
    """Promised jobs whose promises would not be kept if they went to these levels now."""
    rows, plans, level = promises.rows, promises.plans, shares.level
    is_change = (level[rows] != levels.held[rows]) & (level[rows] != plans.now[rows])
    is_change &= (level[rows] > 0) & (plans.grade[rows] != BROKEN) & ~snapshot.is_pinned[rows]
    rows = rows[is_change]
    is_paid = shares.left.pay(planner.takers, plans, shares.after_change, rows, level[rows])
    unpaid: IntArray = rows[~is_paid]
    return unpaid


def _groups(snapshot: Snapshot, levels: Levels, level: IntArray) -> TakerGroups | None:
    """What the quota of each tenant leaves at these levels (J,); None: no tenant has one."""
    if snapshot.quota_devices is None:
        return None
    taken = snapshot.devices_of_tenants(levels.workers_at(level))
    return TakerGroups(snapshot.quota_devices - taken, snapshot.tenant)


def _in_the_way(
    snapshot: Snapshot, levels: Levels, queue: Queue, promises: Promises, shares: Shares
) -> IntArray:
    """Jobs that would still start, or change, when a promise needs their devices.

    Those without a promise, and those whose promise is broken, beyond their plan.
    """
    level, plans = shares.level, promises.plans
    is_beyond = (plans.grade == BROKEN) & (level > plans.now)
    rows = np.concatenate([queue.promised[is_beyond[queue.promised]], queue.in_order[len(queue.promised) :]])
    rows = rows[(level[rows] > 0) & (level[rows] != levels.held[rows]) & ~snapshot.is_pinned[rows]]
    to = level[rows] - 1
    costs_s = np.where(levels.held[rows] > 0, levels.resize_s[rows, to], levels.start_s[rows, to])
    costs_s += _pays_after_s(levels, rows, to, costs_s)
    free = with_borrowed(shares.left, snapshot)
    is_free = free.take_what_is_free(levels.devices[rows, to], costs_s, rows)
    in_the_way: IntArray = rows[~is_free]
    return in_the_way


def _pays_after_s(levels: Levels, rows: IntArray, to: IntArray, costs_s: FloatArray) -> FloatArray:
    """(n,) for how long a growth has to last before it has saved what it costs; 0 for other changes."""
    held = levels.held[rows]
    is_growth = (held > 0) & (to >= held)
    faster = levels.rates[rows, to] / levels.rates[rows, np.maximum(held, 1) - 1] - 1.0
    lasts_s: FloatArray = np.divide(costs_s, faster, out=np.zeros(len(rows)), where=is_growth)
    return lasts_s


def by_savings(levels: Levels, promises: Promises, queue: Queue) -> Ranking:
    """Jobs without a deadline get their smallest size first; then all compete by `savings`."""
    price = savings(levels, np.maximum(promises.plans.top, queue.plans.top))
    return Ranking(levels.worth(price), queue.best_effort)


def savings(levels: Levels, planned: IntArray) -> FloatArray:
    """(J,) what a step is worth: the device-seconds that it costs at the level to which a plan is filled.

    One less step to do then frees that many. A job without a plan is filled to its smallest size.
    """
    return levels.prices(np.maximum(planned, np.minimum(levels.num, 1)))
