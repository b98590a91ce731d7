"""What ElasticFlow gives each job, and what it says about that."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.plan import PlanForecast
from swell.model.quantities import span
from swell.model.quota import NO_QUOTA
from swell.model.snapshot import Snapshot
from swell.policies import wording
from swell.policies.elasticflow.promises import PromisePlanner, Promises, with_borrowed
from swell.policies.elasticflow.standing import NONE
from swell.policies.levels import Levels
from swell.policies.policy import share_levels
from swell.policies.unpromised import look_ahead
from swell.solvers.capacity.plans import BROKEN, JUST, Plans
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
    groups = _groups(snapshot, levels, level, num_levels, left)

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
    rounds = [(NONE, groups), (queue.late, groups)][: 1 + (len(queue.late) > 0)]
    is_claimed = np.zeros(snapshot.num_jobs, dtype=bool)
    if groups is not None:  # what no account can use of its share, and no tenant of its claim, is lent
        if snapshot.quota_devices is not None:  # but not where promises count on the rest of the quota
            is_claimed = snapshot.quota_devices[snapshot.tenant] < NO_QUOTA
            is_claimed &= np.isin(snapshot.tenant, snapshot.tenant[needs_owned])
        rows = queue.in_order[len(queue.promised) :]
        rounds.append((rows[~is_claimed[rows]], None))
    for rows, groups in rounds:  # a job that will be late anyway takes nothing that others can use
        give(rows, 1)
        limits[rows] = num_levels[rows]
        if groups is None:
            limits = np.where(is_claimed, level, limits)
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


def _groups(
    snapshot: Snapshot, levels: Levels, level: IntArray, num_levels: IntArray, left: int
) -> TakerGroups | None:
    """What the share of each account, or the quota of each tenant, leaves at these levels (J,).

    None: all may have all.
    """
    if snapshot.fair is not None and len(snapshot.fair.names) > 1:
        return share_levels(snapshot, snapshot.fair, levels, level, num_levels, left)
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
    free.leave_groups(~np.isin(snapshot.tenant, snapshot.tenant[snapshot.needs_owned]))
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


CODES = ("waiting", "sharing", "boosted", "promised", "at_risk")


@dataclass(frozen=True)
class ElasticFlowAccount:
    """Reasons and estimates, worked out when asked for; see `model.plan.Account`."""

    snapshot: Snapshot
    levels: Levels
    promises: Promises
    queue: Queue
    shares: Shares
    come_first: str  #: which jobs without a deadline do, as a part of a sentence

    @cached_property
    def codes(self) -> Sequence[str]:
        """(J,) codes of the reasons."""
        level, grade = self.shares.level, self.promises.grade
        number = 2 - ((grade < 0) & (level == 1))
        number[(grade >= 0) & ((level == self.shares.floor) | (grade == JUST))] = 3
        number[level == 0] = 0
        number[grade == BROKEN] = 4
        return [CODES[one] for one in number.tolist()]

    def text(self, row: int) -> str:
        """Agrees with `codes`."""
        if self.promises.grade[row] >= 0:
            return self._of_promise(row)
        if self.levels.num[row] == 0:
            return wording.fits_nowhere(self.snapshot)
        if self.shares.level[row] == 0:
            return wording.waits(f"promises and {self.come_first} come first", self._num_higher(row))
        has, smallest = self._workers(row, self.shares.level), int(self.levels.workers[row, 0])
        return wording.shares(has, smallest, self._saved_s(row))

    def _num_higher(self, row: int) -> int:
        """Running jobs of its class that have a higher priority."""
        snapshot = self.snapshot
        is_before = (snapshot.job_class == snapshot.job_class[row]) & (
            snapshot.priority > snapshot.priority[row]
        )
        return int(np.count_nonzero(is_before & (self.shares.level > 0)))

    def _of_promise(self, row: int) -> str:
        has, grade = self._workers(row, self.shares.level), self.promises.grade[row]
        until_s = float(self.snapshot.deadline_s[row] - self.snapshot.now_s)
        if grade == BROKEN:
            return wording.at_risk(has, until_s, fits=bool(np.isfinite(self.forecast.finish_s[row])))
        if has == 0:
            starts_s = float(self.forecast.start_s[row]) - self.snapshot.now_s
            return wording.promise_can_wait(until_s, starts_s)
        if grade == JUST:
            return wording.barely_keeps_promise(has, until_s)
        floor, num_others = self._workers(row, self.shares.floor), len(self.promises.rows) - 1
        saved_s, later = self._saved_s(row), self._later_need(row)
        return wording.keeps_promise(has, floor, until_s, saved_s, later, num_others)

    def _later_need(self, row: int) -> str:
        """The first step of the job's plan to more workers than its floor; empty: there is none."""
        plans, floor = self.promises.plans, self.shares.floor[row]
        for segment in range(int(plans.num[row])):
            level = plans.levels[row, segment]
            if level > floor:
                in_s = float(plans.starts_s[row, segment])
                return f"{self.levels.workers[row, level - 1]} in {span(in_s)}"
        return ""

    def _workers(self, row: int, level: IntArray) -> int:
        """Number of workers of the job at its entry of `level` (J,)."""
        return int(self.levels.workers[row, level[row] - 1]) if level[row] > 0 else 0

    def _saved_s(self, row: int) -> float:
        """Time that running at its level saves over running at its floor, or at its smallest size."""
        level, floor = self.shares.level[row], self.shares.floor[row]
        slow, fast = self.levels.rates[row, max(floor, 1) - 1], self.levels.rates[row, level - 1]
        return float(self.snapshot.remaining_steps[row] * (1.0 / slow - 1.0 / fast))

    @cached_property
    def forecast(self) -> PlanForecast:
        """A promise ends by its plan, even if what the job gets now would take it longer."""
        in_order, now_s = self.queue.in_order, self.snapshot.now_s
        waiting = in_order[self.shares.level[in_order] == 0]
        start_s, finish_s = look_ahead(self.snapshot, self.levels, self.shares.level, waiting)
        plans, grade = self.promises.plans, self.promises.grade
        is_late = (grade == BROKEN) & (self.shares.level > 0)
        is_planned = (grade >= 0) & (plans.top > 0) & ~is_late
        return PlanForecast(
            np.where(is_planned, np.fmin(start_s, now_s + plans.change_s), start_s),
            np.where(is_planned, np.minimum(finish_s, now_s + plans.end_s), finish_s),
        )
