"""What a policy declares of itself."""

from __future__ import annotations

import inspect
import math
from typing import Annotated, ClassVar, cast, get_type_hints

import msgspec

from swell.model.options import Domain
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot

#: Decisions that are closer than this would be all that the head does.
LEAST_PERIOD_S = 1.0

Period = Annotated[
    float, msgspec.Meta(ge=LEAST_PERIOD_S, description="Longest time between two decisions, in seconds.")
]


class Policy(msgspec.Struct, kw_only=True):
    """A policy is a value: its fields are its parameters, its class variables what it declares.

    `decide` is pure: what it is to know next time goes through `Allocation.memory`.
    A parameter is a number with its bounds and its meaning, and is set by `--set NAME.PARAMETER=VALUE`.
    """

    name: ClassVar[str]
    #: An undecided job that it does not refuse has been promised its deadline.
    makes_promises: ClassVar[bool] = False
    #: What it chooses from.
    domain: ClassVar[Domain] = Domain()
    #: Its decisions count what changes cost. The head then makes each one that can be made now; it asks
    #: of the others' whether it pays (`core.hysteresis`).
    weighs_changes: ClassVar[bool] = False

    #: Its decisions keep the quotas of tenants (`Snapshot.quota_devices`); those of others are made anew
    #: where they do not (`core.within_quotas`). One that makes promises must count them itself.
    counts_quotas: ClassVar[bool] = False

    period_s: Period = math.inf

    def decide(self, snapshot: Snapshot) -> Allocation:
        """Same snapshot, same answer; the order of rows does not matter."""
        raise NotImplementedError


def declared(policy: type[Policy]) -> type[Policy]:
    """The policy itself, if what it declares is in order.

    Raises:
        TypeError: it has no name, sets what no policy has, or has a parameter without a meaning or with a
            default that it may not have. The text names the remedy.
    """
    if "name" not in vars(policy):
        raise TypeError(f"policy {policy.__name__} has no name: give the class a `name`")
    for field in policy.__struct_fields__:
        meaning(policy, field)
    for attribute in vars(policy):
        if attribute != "name" and not _is_known(policy, attribute):
            raise TypeError(
                f"policy {policy.__name__} sets {attribute!r}, which no policy has: is it misspelt? "
                "annotate it as ClassVar if it is the policy's own"
            )
    try:
        msgspec.convert(msgspec.to_builtins(policy()), policy)
    except msgspec.ValidationError as error:
        raise TypeError(f"a default of policy {policy.__name__} is out of its own bounds: {error}") from error
    return policy


def _is_known(policy: type[Policy], attribute: str) -> bool:
    is_own = attribute in policy.__struct_fields__ or attribute in inspect.get_annotations(policy)
    is_private = attribute.startswith("_") or callable(getattr(policy, attribute))
    return is_own or is_private or any(hasattr(base, attribute) for base in policy.__mro__[1:])


def meaning(policy: type[Policy], field: str) -> msgspec.Meta:
    """Return the description of a parameter of a policy, with its bounds.

    Raises:
        TypeError: it has none.
    """
    hint = get_type_hints(policy, include_extras=True)[field]
    for meta in getattr(hint, "__metadata__", ()):
        return cast(msgspec.Meta, meta)
    raise TypeError(
        f"parameter {field!r} of policy {policy.__name__} has no meaning: "
        "annotate it as Annotated[float, msgspec.Meta(ge=..., description=...)]"
    )
