"""ElasticFlow: deadlines that are promises, and what they leave to whom it serves best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from swell.model.plan import Allocation, Reason, Refusal
from swell.model.snapshot import BEST_EFFORT, BoolArray, FloatArray, IntArray, Snapshot
from swell.policies import wording
from swell.policies.levels import Levels, useful_levels
from swell.policies.order import by_arrival, by_deadline, by_key
from swell.policies.outlook import Outlook, look_ahead
from swell.policies.promises import Promises, Reserve, admit, hold_s, need_of, safe_level
from swell.solvers.marginal import boost, raise_in_order
from swell.solvers.profile import Fill


class ElasticFlow:
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

    def decide(self, snapshot: Snapshot) -> Allocation:
        levels = useful_levels(snapshot, is_power_of_two(snapshot.sizes))
        promises, refusals = admit(snapshot, levels)
        queue = _queue(snapshot, levels, promises, refusals)
        shares = _share(snapshot, levels, promises, queue)
        waiting = [row for row in queue.in_order if shares.level[row] == 0]
        outlook = look_ahead(snapshot, levels, shares.level, [*waiting, *refusals])
        _trust_plans(promises, shares, outlook)
        return Allocation(
            workers=levels.workers_at(shares.level),
            floor=levels.workers_at(shares.floor),
            finish_s=snapshot.now_s + outlook.end_s,
            reasons=_reasons(snapshot, levels, shares, promises, outlook, refusals),
            refusals=refusals,
            wake_s=_wake_s(snapshot, promises, queue),
        )


def is_power_of_two(sizes: IntArray) -> BoolArray:
    """(K,)"""
    is_power: BoolArray = (sizes & (sizes - 1)) == 0
    return is_power


@dataclass(frozen=True, slots=True)
class Queue:
    """Rows in the order in which they are served, each group by what matters in it."""

    promised: list[int]  #: by deadline
    soft: dict[int, Fill]  #: by deadline: those that can be on time, and their plans
    late: list[int]  #: soft ones that cannot, by deadline
    best_effort: list[int]  #: shortest remaining time first

    @property
    def in_order(self) -> list[int]:
        return [*self.promised, *self.soft, *self.late, *self.best_effort]


@dataclass(frozen=True, slots=True)
class Shares:
    floor: IntArray  #: (J,) level that promises need now
    level: IntArray  #: (J,) level given


def _queue(snapshot: Snapshot, levels: Levels, promises: Promises, refusals: Mapping[int, Refusal]) -> Queue:
    others = [row for row in range(snapshot.num_jobs) if row not in promises.reserve and row not in refusals]
    best_effort = [row for row in others if snapshot.job_class[row] == BEST_EFFORT]
    soft, late = {}, []
    profile = promises.profile.copy()
    for row in by_deadline(snapshot, [row for row in others if snapshot.job_class[row] != BEST_EFFORT]):
        until_s = float(snapshot.deadline_s[row] - snapshot.now_s)
        devices, rates = levels.devices[row, : levels.num[row]], levels.rates[row, : levels.num[row]]
        fill = profile.fill(need_of(snapshot, row), until_s, devices, rates, hold_s(snapshot))
        if fill is None:
            late.append(row)
        else:
            soft[row] = fill
    # A waiting job has its start before it, and a running one that is stopped would have to start again:
    # so nobody is stopped for a job that is hardly shorter.
    starts_s = np.where(snapshot.held_workers == 0, snapshot.start_cost_s, -snapshot.start_cost_s)
    with np.errstate(divide="ignore"):
        remaining_s = starts_s + snapshot.remaining_steps / levels.rates[:, 0]
    return Queue(list(promises.reserve), soft, late, by_key(snapshot, best_effort, remaining_s))


def _share(snapshot: Snapshot, levels: Levels, promises: Promises, queue: Queue) -> Shares:
    """Steps 2 to 5 of the class's docstring."""
    level = np.zeros(snapshot.num_jobs, dtype=np.int64)
    for row, fill in promises.fills.items():
        if fill is not None:
            level[row] = fill.now  # Algorithm 2, lines 2-4
    left = snapshot.num_devices - int(levels.devices_at(level).sum())

    def give(rows: list[int], most: int) -> None:
        nonlocal left
        left = raise_in_order(level, levels.devices, levels.num, rows, most, left)

    for row in queue.promised:
        give([row], _level_to_keep(levels, row, promises))
    give([row for row in queue.promised if promises.reserve[row] is Reserve.RUNNING], 1)
    for row in queue.promised:
        if promises.reserve[row] >= Reserve.NONE:
            give([row], safe_level(snapshot, levels, row))
    floor = level.copy()
    for row, fill in queue.soft.items():
        give([row], max(fill.now, min(fill.top, int(levels.held[row]))))
    give([row for row in [*queue.promised, *queue.soft] if snapshot.held_workers[row] > 0], 1)
    give([*queue.late, *queue.best_effort], 1)
    is_served = np.isin(np.arange(snapshot.num_jobs), queue.in_order)
    level, _ = boost(
        level,
        levels.devices,
        levels.rates,
        np.where(is_served, levels.num, 0),
        _prices(levels, promises.fills | queue.soft),
        levels.held,
        _ranks(snapshot),
        left,
    )
    return Shares(floor, level)


def _level_to_keep(levels: Levels, row: int, promises: Promises) -> int:
    """A gang gives up what it holds only as far as its promise can do without it with ease.

    A late fill spends any slack at once on a smaller size now and a larger one again later: without
    this, a gang whose deadline is near goes to and fro between the two with each report.
    """
    return min(int(levels.held[row]), promises.ease.get(row, 0))


def _prices(levels: Levels, plans: Mapping[int, Fill | None]) -> FloatArray:
    """(J,) device-seconds that a step costs at the level to which a job's plan is filled.

    One less step to do then frees that many. A job without a plan is filled to its smallest size.
    """
    top = np.minimum(levels.num, 1)
    for row, fill in plans.items():
        top[row] = max(fill.top, 1) if fill is not None else top[row]
    below = np.maximum(top - 1, 0)
    devices = levels.devices_at(top) - levels.devices_at(below)
    return devices / np.where(top > 0, levels.rates_at(top) - levels.rates_at(below), 1.0)


def _ranks(snapshot: Snapshot) -> IntArray:
    """(J,) position by arrival."""
    ranks = np.empty(snapshot.num_jobs, dtype=np.int64)
    ranks[by_arrival(snapshot, range(snapshot.num_jobs))] = np.arange(snapshot.num_jobs)
    return ranks


def _trust_plans(promises: Promises, shares: Shares, outlook: Outlook) -> None:
    """A promise ends by its plan, even if what the job gets now would take it longer."""
    for row, fill in promises.fills.items():
        if fill is not None and (promises.reserve[row] is not Reserve.LATE or shares.level[row] == 0):
            outlook.end_s[row] = min(outlook.end_s[row], fill.end_s)
            outlook.start_s[row] = min(outlook.start_s[row], fill.first_change_s)


def _wake_s(snapshot: Snapshot, promises: Promises, queue: Queue) -> float:
    plans = [fill for fill in [*promises.fills.values(), *queue.soft.values()] if fill is not None]
    first_s = min((fill.first_change_s for fill in plans), default=math.inf)
    return float(snapshot.now_s + max(first_s, hold_s(snapshot)))


def _reasons(
    snapshot: Snapshot,
    levels: Levels,
    shares: Shares,
    promises: Promises,
    outlook: Outlook,
    refusals: Mapping[int, Refusal],
) -> tuple[Reason, ...]:
    workers, floor = levels.workers_at(shares.level), levels.workers_at(shares.floor)
    base = np.minimum(np.maximum(shares.floor, 1), shares.level)
    saved_s = _saved_s(snapshot, levels, base, shares.level)

    def reason(row: int) -> Reason:
        has, until_s = int(workers[row]), float(snapshot.deadline_s[row] - snapshot.now_s)
        start_s, end_s = float(outlook.start_s[row]), float(outlook.end_s[row])
        if row in refusals:
            return wording.refused(refusals[row])
        if promises.reserve.get(row) is Reserve.LATE:
            return wording.at_risk(has, until_s, end_s)
        if row in promises.reserve and has == 0:
            return wording.promise_can_wait(until_s, start_s)
        if promises.reserve.get(row) is Reserve.NONE:
            return wording.barely_keeps_promise(has, until_s)
        if row in promises.reserve:
            return wording.keeps_promise(has, int(floor[row]), until_s, float(saved_s[row]))
        if levels.num[row] == 0:
            return wording.fits_nowhere(snapshot.num_devices)
        if has == 0:
            return wording.waits("promises and jobs that end sooner come first", start_s)
        return wording.shares(has, int(levels.workers[row, 0]), float(saved_s[row]), end_s)

    return tuple(reason(row) for row in range(snapshot.num_jobs))


def _saved_s(snapshot: Snapshot, levels: Levels, base: IntArray, level: IntArray) -> FloatArray:
    """(J,) time that running at `level` saves over running at `base`, both to the end; 0 at level 0."""
    slow, fast = (np.where(level > 0, levels.rates_at(at), 1.0) for at in (base, level))
    return np.where(level > 0, snapshot.remaining_steps * (1.0 / slow - 1.0 / fast), 0.0)
