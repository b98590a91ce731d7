"""Which of the deadlines that could be kept are promised, where the cluster is too small for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels
from swell.policies.promises import Promises, need_of


@dataclass(frozen=True, slots=True)
class Bid:
    """A deadline that could be kept, and what that would take. Amounts are device-seconds until then."""

    capacity: float  #: of the whole cluster
    free: float  #: of it, what the promises made before leave
    taken: float  #: of that, by the job, and by promises that are planned anew to make room for it
    least: float  #: that its work would take at its smallest size, which wastes nothing


class Objective(Protocol):
    """Says which jobs are worth what they take. It knows of no job that is yet to come."""

    def objection(self, bid: Bid) -> str:
        """Why the deadline is not to be promised, as a part of a sentence; empty if it is."""


def bid_of(
    snapshot: Snapshot, levels: Levels, kept: Promises, trial: Promises, row: int, until_s: float
) -> Bid:
    """What job `row` takes until its deadline, in `until_s`.

    Args:
        kept, trial: the promises without it, and with it.
    """
    free = kept.profile.free_device_s(until_s)
    return Bid(
        capacity=snapshot.num_devices * until_s,
        free=free,
        taken=free - trial.profile.free_device_s(until_s),
        least=float(need_of(snapshot)[row] / levels.rates[row, 0] * levels.devices[row, 0]),
    )


class FirstCome:
    """Whatever can be kept is promised, as the paper has it."""

    def objection(self, bid: Bid) -> str:
        return ""


FIRST_COME = FirstCome()


@dataclass(frozen=True, slots=True)
class ManyJobs:
    """As many deadlines as possible: none that takes a large bite of what is left for others.

    The fuller the cluster is until the deadline, the smaller a job must be: a threshold that rises with what
    is committed, as online knapsack algorithms have it, here in its simplest form, for sizes are not known
    beforehand.
    """

    most_share: float = 0.25  #: of what is free until its deadline that one job may take

    def objection(self, bid: Bid) -> str:
        if bid.taken <= self.most_share * bid.free:
            return ""
        share, most = bid.taken / bid.free, self.most_share
        return f"it would take {share:.0%} of what is free until then, and one job gets {most:.0%}"


@dataclass(frozen=True, slots=True)
class MuchWork:
    """As much work as possible: the fuller the cluster is until the deadline, the less haste may waste."""

    def objection(self, bid: Bid) -> str:
        committed = 1.0 - bid.free / bid.capacity
        efficiency = min(1.0, bid.least / bid.taken) if bid.taken > 0 else 1.0
        if efficiency >= committed:
            return ""
        return (
            f"in such haste {1.0 - efficiency:.0%} of its devices' time would be lost to communication, "
            f"where {committed:.0%} of it is promised already"
        )
