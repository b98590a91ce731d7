"""Which of the deadlines that could be kept are promised, where the cluster is too small for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from swell.model.snapshot import Snapshot
from swell.policies.promises import Promises


@dataclass(frozen=True, slots=True)
class Bid:
    """A deadline that could be kept, and what that would take.

    Amounts are device-seconds until the last deadline that is promised, or until its own if that is later:
    within its own time alone a job in a hurry would look large.
    """

    free: float  #: what the promises made before leave
    taken: float  #: of that, by the job, and by promises that are planned anew to make room for it


class Objective(Protocol):
    """Says which jobs are worth what they take. It knows of no job that is yet to come."""

    def objection(self, bid: Bid) -> str:
        """Why the deadline is not to be promised, as a part of a sentence; empty if it is."""


def objection_to(
    objective: Objective | None, snapshot: Snapshot, kept: Promises, trial: Promises, until_s: float
) -> str:
    """Why a job that has its deadline in `until_s` is not to be promised it; empty if it is.

    Args:
        objective: None: whatever can be kept is promised, as the paper has it.
        kept, trial: the promises without it, and with it.
    """
    if objective is None:
        return ""
    last_s = float((snapshot.deadline_s[kept.rows] - snapshot.now_s).max(initial=until_s))
    free = kept.profile.free_device_s(last_s)
    return objective.objection(Bid(free=free, taken=free - trial.profile.free_device_s(last_s)))


@dataclass(frozen=True, slots=True)
class ManyJobs:
    """As many deadlines as possible: none that takes a large bite of what is left for others.

    The fuller the cluster is, the smaller a job must be: a threshold that rises with what is committed, as
    online knapsack algorithms have it, here in its simplest form, for sizes are not known beforehand.
    """

    most_share: float = 0.25  #: of what is free that one job may take

    def objection(self, bid: Bid) -> str:
        if bid.taken <= self.most_share * bid.free:
            return ""
        share, most = bid.taken / bid.free, self.most_share
        return (
            f"it would take {share:.0%} of what the promises made before leave, and one job gets {most:.0%}"
        )
