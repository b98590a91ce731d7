"""Which of the deadlines that could be kept are promised, where the cluster is too small for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from swell.arrays import FloatArray
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.promises import Promises, need_of
from swell.policies.levels import Levels

#: Sums are not exact: more by less than this share is no more.
TOLERANCE_SHARE = 1e-9


@dataclass(frozen=True, slots=True)
class Bid:
    """A deadline that could be kept, and what that would take, in device-seconds from now on.

    Of a few hours everything may be promised, and there is room for a job in a hurry all the same: plans of
    later deadlines make way. So amounts are counted until later deadlines too.
    """

    free: float  #: what the promises made before leave until the last deadline, or its own if that is later
    taken: float  #: of that, by the job, and by promises that are planned anew to make room for it
    until_s: FloatArray  #: (D,) its deadline and the promised ones after it, ascending
    own: FloatArray  #: (D,) what jobs of its tenant need that are due by then, itself among them
    everybody: FloatArray  #: (D,) the same of all jobs
    num_devices: int
    num_tenants: int  #: that have jobs, or had one lately, its own among them


class Objective(Protocol):
    """Says which jobs are worth what they take. It knows of no job that is yet to come."""

    def objection(self, bid: Bid) -> str:
        """Why the deadline is not to be promised, as a part of a sentence; empty if it is.

        There must be none to a deadline that is far enough away.
        """


def objection_to(
    objective: Objective | None,
    snapshot: Snapshot,
    levels: Levels,
    kept: Promises,
    trial: Promises,
    newcomer: int,
    until_s: float,
) -> str:
    """Why a job that has its deadline in `until_s` is not to be promised it; empty if it is.

    Args:
        objective: None: whatever can be kept is promised, as the paper has it.
        kept, trial: the promises without it, and with it.
    """
    if objective is None:
        return ""
    rows = trial.rows
    last_s = float((snapshot.deadline_s[kept.rows] - snapshot.now_s).max(initial=until_s))
    free = kept.profile.free_device_s(last_s)
    place = int(np.flatnonzero(rows == newcomer)[0])
    due_s = np.maximum(snapshot.deadline_s[rows[place:]] - snapshot.now_s, until_s)
    due_s[0] = until_s
    need = _need_device_s(snapshot, levels, trial)
    is_own = snapshot.tenant[rows] == snapshot.tenant[newcomer]
    bid = Bid(
        free=free,
        taken=free - trial.profile.free_device_s(last_s),
        until_s=due_s,
        own=np.cumsum(need * is_own)[place:],
        everybody=np.cumsum(need)[place:],
        num_devices=snapshot.num_owned,
        num_tenants=snapshot.num_tenants,
    )
    return objective.objection(bid)


def _need_device_s(snapshot: Snapshot, levels: Levels, promises: Promises) -> FloatArray:
    """(n,) device-seconds that each promised job needs at the highest level of its plan, in their order."""
    rows = promises.rows
    level = np.maximum(promises.plans.top[rows], 1) - 1
    devices, rates = levels.devices[rows, level], levels.rates[rows, level]
    price = np.divide(devices, rates, out=np.zeros(len(rows)), where=rates > 0)
    need: FloatArray = need_of(snapshot)[rows] * price
    return need


@dataclass(frozen=True, slots=True)
class ManyJobs:
    """As many deadlines as possible: none that takes a large bite of what is left for others.

    The fuller the cluster is, the smaller a job must be: a threshold that rises with what is committed, as
    online knapsack algorithms have it, here in its simplest form, for sizes are not known beforehand.
    """

    most_share: float = 0.25  #: of what is free that one job may take

    def objection(self, bid: Bid) -> str:
        """Reason to refuse a job that takes more than `most_share` of the free device time; else empty."""
        if bid.taken <= self.most_share * bid.free:
            return ""
        share, most = bid.taken / bid.free, self.most_share
        return (
            f"it would take {share:.0%} of what the promises already made leave, more than "
            f"the {most:.0%} that one job may take"
        )


@dataclass(frozen=True, slots=True)
class FairShares:
    """No tenant is promised more than stays free for the others, unless that is within its equal share.

    This holds of what is due by each deadline: the demand until then, as tests for deadlines in real-time
    scheduling count it. A tenant that is alone may have all. One that is not leaves room for others to come:
    half of everything if nobody else asks for much, less the more of them ask.
    """

    def objection(self, bid: Bid) -> str:
        """Reason to refuse a job beyond its tenant's equal share and beyond what stays free; else empty."""
        if bid.num_tenants <= 1:
            return ""
        all_s = bid.num_devices * bid.until_s
        left = np.maximum(all_s - bid.everybody, 0.0)
        limit = np.maximum(all_s / bid.num_tenants, left)
        worst = int(np.argmax((bid.own - limit) / all_s))
        if bid.own[worst] <= limit[worst] * (1.0 + TOLERANCE_SHARE):
            return ""
        own, rest = bid.own[worst] / all_s[worst], left[worst] / all_s[worst]
        return (
            f"its tenant would be promised {own:.0%} of all device time of the next "
            f"{bid.until_s[worst]:.0f} s, more than its equal share among {bid.num_tenants} "
            f"tenants ({1 / bid.num_tenants:.0%}) and more than would stay free for the "
            f"others ({rest:.0%})"
        )
