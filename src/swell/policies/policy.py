"""What a policy declares of itself; and its decisions within quotas and shares of accounts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.model.options import Domain
from swell.model.plan import Allocation, PromiseOutlook
from swell.model.quota import NO_QUOTA
from swell.model.snapshot import TURN_S, AccountUsage, Snapshot
from swell.plugins import RegistryEntry
from swell.policies.levels import Levels, useful_levels
from swell.solvers.marginal import TakerGroups, raise_in_order
from swell.solvers.queueing import AccountDemand, share_out

#: Decisions that are closer than this would be all that the head does.
LEAST_PERIOD_S = 1.0

Period = Annotated[
    float, msgspec.Meta(ge=LEAST_PERIOD_S, description="Longest time between two decisions, in seconds.")
]


def switch(description: str) -> msgspec.Meta:
    """Return the metadata of a parameter that is 0 or 1."""
    return msgspec.Meta(ge=0, le=1, description=description)


class Policy(RegistryEntry, kw_only=True):
    """A policy is a value: its fields are its parameters, its class variables what it declares.

    `decide` is pure: what it is to know next time goes through `Allocation.memory`.
    A parameter is a number with its bounds, or a text, and has a meaning; it is set by
    `--set NAME.PARAMETER=VALUE`.
    """

    #: An undecided job that it does not refuse has been promised its deadline.
    makes_promises: ClassVar[bool] = False
    #: What it chooses from.
    domain: ClassVar[Domain] = Domain()
    #: Its decisions count what changes cost. The head then makes each one that can be made now; it asks
    #: of the others' whether it pays (`core.hysteresis`).
    weighs_changes: ClassVar[bool] = False

    #: Its decisions keep the quotas of tenants (`Snapshot.quota_devices`); those of others are made again
    #: where they do not (`decide_fairly`). One that makes promises must count them itself.
    counts_quotas: ClassVar[bool] = False

    #: Accounts get devices by what they have used (`decide_fairly`). Policies that reproduce papers do not
    #: honour that; one that counts quotas counts shares of accounts by itself.
    shares_fairly: ClassVar[bool] = False

    #: It counts on devices that the calendar says come back, and may be shown sizes that fit only then.
    reads_calendar: ClassVar[bool] = False

    #: A running job gives up devices or takes in others, and does not change them for others of the cluster:
    #: it moves only from a node that is to be left.
    forbids_migration: ClassVar[bool] = False

    period_s: Period = math.inf

    @property
    def offered(self) -> Domain:
        """What it chooses from with these parameters: `domain`, unless one of them says otherwise."""
        return self.domain

    def outlook(self, snapshot: Snapshot) -> PromiseOutlook | None:
        """How the promises that were made would be kept on these devices, by this calendar.

        None: it makes none, or its promises do not count on the calendar.
        """
        return None

    def decide(self, snapshot: Snapshot) -> Allocation:
        """Same snapshot, same answer; the order of rows does not matter."""
        raise NotImplementedError

    def decide_fairly(self, snapshot: Snapshot) -> tuple[Snapshot, Allocation]:
        """The answer within quotas and shares of accounts, and what was asked.

        A policy that counts what tenants have keeps both by itself. Another one is asked again where a
        tenant, or an account, would have too much: what it would give to these jobs alone, on a cluster of as
        many devices as are left to those that can change, is the most that they are offered then. What stays
        idle for that is lent, as its first answer has it.
        """
        if self.counts_quotas:
            snapshot = _narrowed(snapshot)
            return snapshot, self.decide(snapshot)
        first = self.decide(snapshot)
        group, limit = _limits(self, snapshot)
        if limit is None:
            return snapshot, first
        allocation, most = first, np.full(snapshot.num_jobs, NO_QUOTA)
        while len(beyond := _beyond(snapshot, group, limit, allocation, most)):
            for one in beyond.tolist():
                _offer_less(self, snapshot, group == one, int(limit[one]), most)
            is_offered = snapshot.options.workers <= most[snapshot.options.rows]
            allocation = self.decide(snapshot.with_only(is_offered))
        if allocation is not first:
            allocation = _with_lent(snapshot, allocation, first.workers)
        return snapshot, allocation


def _limits(policy: Policy, snapshot: Snapshot) -> tuple[IntArray, IntArray | None]:
    """(J,) the account, or the tenant, of each job, and what each of them may have; None: any number."""
    if not policy.shares_fairly or snapshot.fair is None or len(snapshot.fair.names) < 2:
        return snapshot.tenant, snapshot.quota_devices
    levels = useful_levels(snapshot)
    level = np.where(snapshot.is_pinned, levels.held, 0)
    left = snapshot.num_devices - int(levels.devices_at(level).sum())
    num_levels = np.where(snapshot.is_pinned, level, levels.num)
    shares = share_levels(snapshot, snapshot.fair, levels, level, num_levels, max(left, 0))
    num = len(shares.left)
    return snapshot.fair.account, shares.left + snapshot.devices_of_groups(
        shares.of, levels.workers_at(level), num
    )


def _with_lent(snapshot: Snapshot, allocation: Allocation, most: IntArray) -> Allocation:
    """The answer with what it leaves idle lent to jobs, by arrival, up to these sizes (J,)."""
    levels, order = useful_levels(snapshot), snapshot.arrival_order
    level, num_levels = levels.up_to(allocation.workers), levels.up_to(most)
    num_levels[list(allocation.refusals)] = 0
    order = order[~snapshot.is_pinned[order]]
    left = snapshot.num_devices - int(allocation.workers @ snapshot.devices_per_worker)
    before = level.copy()
    for least in (1, levels.highest):
        left = raise_in_order(level, levels.devices, num_levels, order, least, left)
    if left < 0 or (level == before).all():
        return allocation
    option = np.where(level > before, levels.options_at(level), snapshot.options.at(allocation.workers))
    return replace(allocation, options=snapshot.options, option=option)


def _offer_less(policy: Policy, snapshot: Snapshot, is_own: BoolArray, limit: int, most: IntArray) -> None:
    """Write the most (J,) workers for these (J,) jobs, so that they stay within the limit together."""
    pinned = np.flatnonzero(is_own & snapshot.is_pinned)
    most[pinned] = snapshot.held_workers[pinned]
    left = limit - int(most[pinned] @ snapshot.devices_per_worker[pinned])
    others = np.flatnonzero(is_own & ~snapshot.is_pinned)
    most[others] = policy.decide(snapshot.of_jobs(others, max(left, 0))).workers


def _narrowed(snapshot: Snapshot) -> Snapshot:
    """Without options of jobs that ask for a promise, if they exceed the quota: it is not lent for these."""
    options, quota = snapshot.options, snapshot.quota_devices
    if quota is None:
        return snapshot
    rows = options.rows
    is_kept = (options.devices <= quota[snapshot.tenant[rows]]) | ~snapshot.is_undecided[rows]
    is_kept |= options.workers == snapshot.held_workers[rows]
    return snapshot if is_kept.all() else snapshot.with_only(is_kept)


def _beyond(
    snapshot: Snapshot, group: IntArray, limit: IntArray, allocation: Allocation, most: IntArray
) -> IntArray:
    """Groups that would have too much, and whose jobs are offered everything yet."""
    is_beyond = snapshot.devices_of_groups(group, allocation.workers, len(limit)) > limit
    is_beyond[group[most < NO_QUOTA]] = False
    return np.flatnonzero(is_beyond)


def share_levels(
    snapshot: Snapshot, fair: AccountUsage, levels: Levels, level: IntArray, num_levels: IntArray, left: int
) -> TakerGroups:
    """What each account may have of what is left, beyond what its jobs have at these levels (J,).

    The smallest size of a job is handed out as a whole: of aged jobs, of running ones, by priority, then
    by arrival. The one that is overdue has it whatever its account has used.

    Args:
        num_levels: (J,) levels that each job may be raised to.
    """
    num, most, given = len(fair.names), levels.devices_at(num_levels), levels.devices_at(level)
    least = np.where((level == 0) & (num_levels > 0), levels.devices[:, 0], 0)
    growth = np.bincount(fair.account, np.maximum(most - np.maximum(given, least), 0), num).astype(int)
    taken = np.bincount(fair.account, given, num).astype(np.int64)
    has = taken.copy()
    if fair.overdue is not None and least[fair.overdue] <= left:
        has[fair.account[fair.overdue]] += least[fair.overdue]
        least[fair.overdue] = 0
    sizes: list[tuple[list[int], list[int], list[int]]] = [([], [], []) for _ in range(num)]
    place = np.where(fair.is_aged, 0, np.where(snapshot.held_workers > 0, 1, 2))
    for row in snapshot.in_order(least.nonzero()[0]).tolist():
        sizes[fair.account[row]][place[row]].append(int(least[row]))
    demands = [AccountDemand(*of, more) for of, more in zip(sizes, growth.tolist(), strict=True)]
    left -= int((has - taken).sum())
    shares = share_out(left, has, fair.claim, demands, fair.used_s, fair.weight, TURN_S)
    return TakerGroups(shares - taken, fair.account)
