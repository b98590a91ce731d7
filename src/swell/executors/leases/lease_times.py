"""How long a lease is, and how long after its grant nothing can run under it."""

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
