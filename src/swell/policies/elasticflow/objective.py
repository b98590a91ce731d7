"""Which of the deadlines that could be kept are promised, where the cluster is too small for all.

How crowded it is can be known only from what the latest newcomers asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import NamedTuple, Protocol

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.quantities import span
from swell.model.snapshot import Memory, Snapshot
from swell.policies.elasticflow.promises import Promises
from swell.policies.levels import Levels

#: Sums are not exact: more by less than this share is no more.
TOLERANCE_SHARE = 1e-9
#: A job that needs no more than this share of all that is free until its deadline is small, however crowded
#: the time until then begins: so there is no objection to a deadline that is far enough away.
LATER_SHARE = 0.05
#: Newcomers that are remembered: enough for a share of them to mean something, few enough to follow the day.
NUM_REMEMBERED = 80
#: Columns of `RecentDemand` that are kept for the next snapshot.
REMEMBERED = ("submitted_s", "device_s", "window_s", "tenant")
#: From fewer nothing follows.
LEAST_NUM = 20


class DeadlineDemand(NamedTuple):
    """What is promised until some deadlines, in device-seconds from now on, the newcomer's job among it.

    Of a few hours everything may be promised, and there is room for a job in a hurry all the same: plans of
    later deadlines make way. So amounts are counted until later deadlines too.
    """

    until_s: FloatArray  #: (D,) its deadline and the promised ones after it, ascending
    own: FloatArray  #: (D,) what jobs of its tenant need that are due by then
    everybody: FloatArray  #: (D,) the same of all jobs
    there: FloatArray  #: (D,) what the devices are until then that promises may stand on, > 0


@dataclass(frozen=True, slots=True)
class DeadlineOffer:
    """A deadline that could be kept, and what that would take, in device-seconds from now on."""

    until_s: float  #: its deadline
    tenant: int  #: its number
    free_in_time: float  #: what the promises made before leave it until then
    used_share: float  #: of the devices that it may have, on average, taken while it competes with others
    used_in_time: float  #: the same until its deadline
    need: float  #: what the job needs at its cheapest size
    demand: RecentDemand  #: of the latest newcomers
    due: Callable[[], DeadlineDemand]
    num_tenants: int  #: that have jobs, or had one lately, its own among them


class Objective(Protocol):
    """Says which jobs are worth what they take. It knows of no job that is yet to come."""

    def objection(self, bid: DeadlineOffer) -> str:
        """Why the deadline is not to be promised, as a part of a sentence; empty if it is.

        There must be none to a deadline that is far enough away.
        """


def bid_of(
    snapshot: Snapshot,
    levels: Levels,
    kept: Promises,
    trial: Promises,
    newcomer: int,
    until_s: float,
    demand: RecentDemand,
) -> DeadlineOffer:
    """What a job asks for that has its deadline in `until_s`.

    Args:
        kept, trial: the promises without it, and with it.
    """
    profile, tenant = kept.profile, int(snapshot.tenant[newcomer])
    num_owned = max(snapshot.num_owned, 1)
    quota = num_owned if snapshot.quota_devices is None else min(snapshot.quota_devices[tenant], num_owned)

    def free_device_s(time_s: float) -> tuple[float, float]:
        """What is free of all devices, and of its tenant's quota."""
        return profile.free_device_s(time_s), profile.free_device_s_of_group(newcomer, time_s)

    def used_share(free: tuple[float, float], time_s: float) -> float:
        num_there = max(float(snapshot.mean_owned(time_s)), TOLERANCE_SHARE)
        return max(1.0 - min(free[0] / num_there, free[1] / max(quota, 1)) / time_s, 0.0)

    until_s = max(until_s, TOLERANCE_SHARE)
    within_s = max(demand.within_s(until_s), TOLERANCE_SHARE)
    free_in_time = free_device_s(until_s)
    return DeadlineOffer(
        until_s=until_s,
        tenant=tenant,
        free_in_time=min(free_in_time),
        used_share=used_share(free_device_s(within_s), within_s),
        used_in_time=used_share(free_in_time, until_s),
        need=float(least_device_s(snapshot, levels, np.array([newcomer]), until_s)[0]),
        demand=demand,
        due=partial(_due, snapshot, levels, trial, newcomer, until_s),
        num_tenants=snapshot.num_tenants,
    )


def _due(
    snapshot: Snapshot, levels: Levels, trial: Promises, newcomer: int, until_s: float
) -> DeadlineDemand:
    rows = trial.rows
    place = int(np.flatnonzero(rows == newcomer)[0])
    due_s = np.maximum(snapshot.deadline_s[rows[place:]] - snapshot.now_s, until_s)
    due_s[0] = until_s
    need = _need_device_s(snapshot, levels, trial)
    is_own = snapshot.tenant[rows] == snapshot.tenant[newcomer]
    return DeadlineDemand(
        until_s=due_s,
        own=np.cumsum(need * is_own)[place:],
        everybody=np.cumsum(need)[place:],
        there=np.maximum(snapshot.mean_owned(due_s), TOLERANCE_SHARE) * due_s,
    )


def _need_device_s(snapshot: Snapshot, levels: Levels, promises: Promises) -> FloatArray:
    """(n,) device-seconds that each promised job needs at the highest level of its plan, in their order."""
    rows = promises.rows
    level = np.maximum(promises.plans.top[rows], 1) - 1
    devices, rates = levels.devices[rows, level], levels.safe_rates[rows, level]
    price = np.divide(devices, rates, out=np.zeros(len(rows)), where=rates > 0)
    need: FloatArray = snapshot.remaining_steps[rows] * price
    return need


@dataclass(frozen=True, slots=True)
class ManyJobs:
    """Promise as many deadlines as possible: while the cluster is crowded, large jobs are refused.

    The largest size that is admitted is that up to which the latest newcomers would have filled a share of
    the cluster, which falls as promises take more of it, as thresholds of online knapsack algorithms do. If
    all of them would have fitted, any size is admitted. A job that needs little of what is free until its
    deadline is never refused.
    """

    full_share: float  #: of a cluster of which promises take all; twice as much where they take half
    #: Whether what they take until its deadline counts, where that is less than what they take while it
    #: competes with others: then more large jobs are let in.
    is_patient: bool = False

    def objection(self, bid: DeadlineOffer) -> str:
        """Reason to refuse a job that is larger than those that would fit; else empty."""
        used = min(bid.used_share, bid.used_in_time) if self.is_patient else bid.used_share
        if used == 0.0:
            return ""
        most = bid.demand.largest_that_fit(self.full_share / used, bid.tenant)
        if bid.need <= max(most * (1.0 + TOLERANCE_SHARE), LATER_SHARE * bid.free_in_time):
            return ""
        return (
            f"it needs {bid.need / 3600:.3g} device-hours, and the cluster is so crowded that only jobs "
            f"of up to {most / 3600:.3g} are promised theirs"
        )


@dataclass(frozen=True, slots=True)
class FairShares:
    """No tenant is promised more than stays free for the others, unless that is within its equal share.

    This holds of what is due by each deadline: the demand until then. A tenant that is alone may have all.
    One that is not leaves room for others to come: half of everything if no other asks for much, less the
    more of them ask.

    References: max-min fairness as in Ghodsi et al., "Dominant Resource Fairness: Fair Allocation of
        Multiple Resource Types", NSDI 2011, with device time as the one resource: an equal share is
        not taken away by others. What may be had beyond it is the rule of Choudhury and Hahne, "Dynamic Queue
        Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking 6(2),
        1998, with alpha = 1: as much as stays free. Demand until each deadline is counted as by Baruah,
        Rosier and Howell, Real-Time Systems 2(4), 1990.
    Deviates: from max-min fairness: a promise is never taken back, so shares become equal only as promises
        end; who asks is compared with what is promised now, for what the others will ask for is unknown; and
        what is shared are promises: devices that these leave go to whom they serve best.
    """

    def objection(self, bid: DeadlineOffer) -> str:
        """Reason to refuse a job beyond its tenant's equal share and beyond what stays free; else empty."""
        if bid.num_tenants <= 1:
            return ""
        due = bid.due()
        all_s = due.there
        left = np.maximum(all_s - due.everybody, 0.0)
        limit = np.maximum(all_s / bid.num_tenants, left)
        worst = int(np.argmax((due.own - limit) / all_s))
        if due.own[worst] <= limit[worst] * (1.0 + TOLERANCE_SHARE):
            return ""
        own, rest = due.own[worst] / all_s[worst], left[worst] / all_s[worst]
        return (
            f"its tenant would be promised {own:.0%} of all device time of the next "
            f"{span(due.until_s[worst])}, more than its equal share among {bid.num_tenants} "
            f"tenants ({1 / bid.num_tenants:.0%}) and more than would stay free for the "
            f"others ({rest:.0%})"
        )


#: What a crowded cluster promises by; None: each deadline that can be kept, first come, first served.
OBJECTIVES: dict[str, Objective | None] = {
    "number": ManyJobs(full_share=0.45),
    "balanced": ManyJobs(full_share=0.4, is_patient=True),
    "work": None,
    "tenants": FairShares(),
}


@dataclass(frozen=True, slots=True)
class RecentDemand:
    """The latest newcomers, oldest first, those of now among them."""

    submitted_s: list[float]
    device_s: list[float]  #: device-seconds that each needed when it came; see `least_device_s`
    window_s: list[float]  #: time from then to its deadline
    tenant: list[int]  #: its number
    now_s: float
    num_devices: int
    quotas: dict[int, int]  #: devices that jobs of a tenant hold together at most, where it has a quota

    @classmethod
    def of(cls, snapshot: Snapshot, levels: Levels, newcomers: IntArray) -> RecentDemand:
        """What is remembered, and these newcomers (n,)."""
        known = snapshot.memory.get("newcomers", {name: [] for name in REMEMBERED})
        if len(newcomers):
            device_s = least_device_s(snapshot, levels, newcomers)
            windows_s = snapshot.deadline_s[newcomers] - snapshot.now_s
            columns = (snapshot.submitted_s[newcomers], device_s, windows_s, snapshot.tenant[newcomers])
            is_possible = np.isfinite(device_s)
            known = {
                name: [*known[name], *column[is_possible].tolist()][-NUM_REMEMBERED:]
                for name, column in zip(REMEMBERED, columns, strict=True)
            }
        quotas = {} if snapshot.quota_devices is None else dict(enumerate(snapshot.quota_devices.tolist()))
        return cls(**known, now_s=snapshot.now_s, num_devices=snapshot.num_owned, quotas=quotas)

    @property
    def memory(self) -> Memory:
        """What the policy remembers of newcomers for the next snapshot."""
        return {name: getattr(self, name) for name in REMEMBERED}

    def within_s(self, until_s: float) -> float:
        """Time in which a job competes with others: until its deadline, or a usual one if that is sooner."""
        return min(until_s, median(self.window_s)) if self.window_s else until_s

    def largest_that_fit(self, share: float, tenant: int) -> float:
        """Device-seconds of the largest jobs, if newcomers go on like this and the smallest fill this share.

        inf if all fit, or if too few are known. Most jobs are met if the smallest are served; which those are
        depends on what else is to come, and nothing is known of that but what came. Jobs of a tenant with a
        quota fill no more than this share of it.

        Args:
            tenant: whose jobs are meant.
        """
        if len(self.device_s) < LEAST_NUM:
            return math.inf
        time_s = share * (self.now_s - min(self.submitted_s))
        room = self.num_devices * time_s
        room_of = {whose: most * time_s for whose, most in self.quotas.items()}
        for size, whose in sorted(zip(self.device_s, self.tenant, strict=True)):
            room_of[whose] = room_of.get(whose, math.inf) - size
            if room_of[whose] < 0.0:
                if whose == tenant:
                    return size
                continue
            room -= size
            if room < 0.0:
                return size
        return math.inf


def least_device_s(
    snapshot: Snapshot, levels: Levels, rows: IntArray, within_s: float | None = None
) -> FloatArray:
    """(n,) device-seconds at the cheapest size of each that is in time if all is free; inf if none is.

    Args:
        within_s: None: until its own deadline.
    """
    until_s = (snapshot.deadline_s[rows] - snapshot.now_s)[:, None] if within_s is None else within_s
    is_level = np.arange(levels.highest) < levels.num[rows, None]
    rates = np.where(is_level, levels.safe_rates[rows], 1.0)
    lasts_s = snapshot.remaining_steps[rows, None] / rates + levels.start_s[rows]
    device_s = np.where(is_level & (lasts_s <= until_s), levels.devices[rows] * lasts_s, np.inf)
    least: FloatArray = device_s.min(axis=1, initial=np.inf)
    return least
