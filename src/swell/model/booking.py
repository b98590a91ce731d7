"""A booking: devices that are its owner's from then to then."""

from __future__ import annotations

import msgspec

from swell.model.quantities import told_devices


class Booking(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Devices of one kind that no job may have at some times but those that name it."""

    id: str
    num_devices: int = 0  #: of any nodes; 0: all those of `node`
    node: str = ""  #: that is to be free of jobs then, for maintenance; empty: none in particular
    kind: str = ""  #: of the devices; empty: of the only kind that there is
    #: (begin, end) of each time, seconds since 1970, UTC, in order; a booking that recurs has several.
    times_s: tuple[tuple[float, float], ...]
    user: str = ""  #: whose jobs may have the devices; empty: the owner's of the platform
    booked_by: str = ""  #: who made it; empty: the owner of the platform

    def time_after(self, at_s: float) -> tuple[float, float] | None:
        """Its first time that is not over at a moment; None: all are."""
        return next((time_s for time_s in self.times_s if time_s[1] > at_s), None)

    def __str__(self) -> str:
        """What is booked, and for whom."""
        if self.node:
            return f"node {self.node}, for maintenance"
        return f"{told_devices(self.num_devices)}{self.user and f', for {self.user}'}"


class BookingRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a booking cannot be made."""

    text: str
    #: First begin, a whole second, with which it could be, all of its times moved alike; None: none.
    earliest_s: float | None
