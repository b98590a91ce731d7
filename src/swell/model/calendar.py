"""Head time and the calendar: how far apart they are, and which devices are somebody's at which times."""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal

import msgspec

#: A smaller step of the machine's clock is followed and not told: time servers make such steps.
TOLD_STEP_S = 1.0


class Calendar(msgspec.Struct, frozen=True, kw_only=True):
    """Head time never jumps, and the machine's clock may: calendar time is head time plus an offset.

    A boot has one offset, the latest that is known of it: what happened while the clock was wrong is shown
    right once it has been corrected. A plain value, kept with the head's state.
    """

    boot_id: str = ""  #: of the latest boot; empty where the kernel names none
    boot_offset_s: float = 0.0  #: head time less CLOCK_BOOTTIME, on that boot
    #: (head time since, calendar less head time), one for each boot that differs from the one before it, and
    #: for the latest. Before the first the offset was 0.
    offsets: tuple[tuple[float, float], ...] = ()
    step_s: float = 0.0  #: the latest step of the machine's clock that was told
    stepped_s: float | None = None  #: head time at which it was followed

    @property
    def offset_s(self) -> float:
        """Calendar less head time, now."""
        return self.offsets[-1][1] if self.offsets else 0.0

    @property
    def is_head_time(self) -> bool:
        """Both have always been the same."""
        return not any(offset_s for _, offset_s in self.offsets)

    def offset_at(self, at_s: float) -> float:
        """Calendar less head time, on the boot of that head time."""
        place = bisect_right(self.offsets, at_s, key=lambda entry: entry[0])
        return self.offsets[place - 1][1] if place else 0.0

    def time_of(self, at_s: float) -> float:
        """Seconds since 1970 of a head time."""
        return at_s + self.offset_at(at_s)

    def opened(self, at_s: float, boot_id: str, boot_offset_s: float, offset_s: float) -> Calendar:
        """The platform is up: on the boot that is known, or on another one."""
        is_same_boot = (boot_id, boot_offset_s) == (self.boot_id, self.boot_offset_s) and bool(self.offsets)
        if is_same_boot:
            return self._with_offset(offset_s)
        before = self.offsets[:-1] if self._is_last_like_the_one_before else self.offsets
        return msgspec.structs.replace(
            self, boot_id=boot_id, boot_offset_s=boot_offset_s, offsets=(*before, (at_s, offset_s))
        )

    def stepped(self, at_s: float, offset_s: float) -> Calendar:
        """The machine's clock was set: this is the offset of the boot."""
        step_s, known = offset_s - self.offset_s, self._with_offset(offset_s)
        if abs(step_s) <= TOLD_STEP_S:
            return known
        return msgspec.structs.replace(known, step_s=step_s, stepped_s=at_s)

    def _with_offset(self, offset_s: float) -> Calendar:
        since_s = self.offsets[-1][0] if self.offsets else 0.0
        return msgspec.structs.replace(self, offsets=(*self.offsets[:-1], (since_s, offset_s)))

    @property
    def _is_last_like_the_one_before(self) -> bool:
        return bool(self.offsets) and self.offset_s == (self.offsets[-2][1] if self.offsets[1:] else 0.0)


class CalendarEntry(msgspec.Struct, frozen=True):
    """Devices of a node that a fixed job, or a booking, has for some time."""

    what: Literal["job", "booking"]
    owner: str  #: id of the job, or of the booking
    node: str
    num_devices: int
    from_s: float  #: in head time
    until_s: float  #: at the latest
