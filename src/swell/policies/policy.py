"""What a policy declares of itself."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import msgspec

from swell.model.options import Domain
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.plugins import RegistryEntry

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
    #: where they do not (`core.within_quotas`). One that makes promises must count them itself.
    counts_quotas: ClassVar[bool] = False

    #: A running job gives up devices or takes in others, and does not change them for others of the cluster:
    #: it moves only from a node that is to be left.
    forbids_migration: ClassVar[bool] = False

    period_s: Period = math.inf

    @property
    def offered(self) -> Domain:
        """What it chooses from with these parameters: `domain`, unless one of them says otherwise."""
        return self.domain

    def decide(self, snapshot: Snapshot) -> Allocation:
        """Same snapshot, same answer; the order of rows does not matter."""
        raise NotImplementedError
