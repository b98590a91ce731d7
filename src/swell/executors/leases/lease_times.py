"""How long a lease is, after which time nothing can run under it, and the messages that grant one."""

from __future__ import annotations

import math

import msgspec

#: A clock that is neither set nor slewed gains or loses less than this share of the time: crystals, a tenth.
CLOCK_ERROR_SHARE = 1e-3
#: Asked for so often, several renewals in a row must be lost before a lease ends.
ASKS_IN_LEASE = 6


class InvalidLeaseTimes(ValueError):
    """Leases of this length cannot be kept; the text names the remedy."""


class LeaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Length of a lease and margin after it, as the controller decides them.

    Let e be `CLOCK_ERROR_SHARE`. In real time a host's lease ends at most `lease_s / (1 - e)` after it asked,
    and its workers are gone `margin_s` later. The controller grants after the host asked, and its clock shows
    at most `1 + e` times the real time. So nothing runs once its clock has counted
    `wait_s = (lease_s / (1 - e) + margin_s) * (1 + e)` since the grant.

    Raises:
        InvalidLeaseTimes: a time is not above 0, or not finite.
    """

    lease_s: float = 30.0
    #: From the end of a lease until the last process is gone: the host notices, SIGKILL is sent, the kernel
    #: takes back memory and devices.
    margin_s: float = 5.0

    def __post_init__(self) -> None:
        for name, time_s in (("lease_s", self.lease_s), ("margin_s", self.margin_s)):
            if not 0 < time_s < math.inf:
                raise InvalidLeaseTimes(
                    f"{name}={time_s:g} is no length of time; it must be above 0 s: set for example {name}=30"
                )

    @property
    def wait_s(self) -> float:
        """After a grant, by the controller's clock, until what the host held is free."""
        return self.wait_after_s(self.lease_s)

    def wait_after_s(self, lease_s: float) -> float:
        """The same for a lease of another length."""
        return (lease_s / (1 - CLOCK_ERROR_SHARE) + self.margin_s) * (1 + CLOCK_ERROR_SHARE)


# ---------------------------------------------------------------- what a host and the controller say
# A message may be lost, late, doubled or overtaken by others: each says all that it depends on. They are sent
# as they arise, and never again.
class LeaseMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message between a host and the controller."""


class LeaseAsked(LeaseMessage, frozen=True, kw_only=True):
    """A host asks for its lease, or for a longer one. No worker of an earlier term is left there."""

    term: int
    asked_s: float  #: by the host's clock; the answer says it again


class LeaseGranted(LeaseMessage, frozen=True, kw_only=True):
    """The lease lasts this long *from when the host asked*."""

    term: int
    asked_s: float  #: as in the question
    lease_s: float


class TermOver(LeaseMessage, frozen=True, kw_only=True):
    """There will be no lease in this term or an earlier one: what its workers held may be with others."""

    term: int


FromController = LeaseGranted | TermOver
