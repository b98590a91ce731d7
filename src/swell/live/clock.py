"""Head time: seconds since 1970 as the platform counts them, whatever the machine's clock does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from swell.model.calendar import Calendar

#: Offsets are whole multiples of 1/GRAIN s: sums of these and of times are exact.
GRAIN = 1024
#: A reading of both clocks that took longer says nothing of how far they are apart.
LONGEST_READING_S = 0.05


def read_boot_id() -> str:
    """Another one after each boot; empty where the kernel names none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemClocks:
    """Those of the machine."""

    boot_s: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)  #: never set, never back
    wall_s: Callable[[], float] = lambda: time.time()  #: the calendar; anybody may set it
    boot_id: str = field(default_factory=read_boot_id)


class HeadClock:
    """CLOCK_BOOTTIME and an offset, which stays the same for as long as the machine is up.

    Until `go_on` is called this is the clock of a platform's first start, which begins by the calendar.
    """

    def __init__(self, system: SystemClocks | None = None) -> None:
        self._system = system or SystemClocks()
        self.go_on(Calendar(), 0.0)

    def go_on(self, calendar: Calendar, last_s: float) -> None:
        """Continue the time of an earlier platform, whose journal ends at `last_s`.

        On the same boot the offset stays the same. On another boot, head time is what the calendar and the
        former boot's offset say, but not less than `last_s`. A boot on which CLOCK_BOOTTIME is less than
        before (another time namespace, a restored machine) counts as another boot.
        """
        boot_s, wall_s = self._system.boot_s(), self._system.wall_s()
        is_same_boot = self.boot_id != "" and self.boot_id == calendar.boot_id
        if is_same_boot and boot_s + calendar.boot_offset_s >= last_s:
            self._boot_offset_s = calendar.boot_offset_s
        else:
            now_s = max(last_s, wall_s - calendar.offset_s)
            self._boot_offset_s = math.ceil((now_s - boot_s) * GRAIN) / GRAIN

    @property
    def boot_id(self) -> str:
        return self._system.boot_id

    @property
    def boot_offset_s(self) -> float:
        """Head time less CLOCK_BOOTTIME."""
        return self._boot_offset_s

    def now_s(self) -> float:
        """Head time; never goes back."""
        return self.of_boot_s(self._system.boot_s())

    def of_boot_s(self, boot_s: float) -> float:
        """Head time of a CLOCK_BOOTTIME: other processes of this machine stamp with that."""
        return boot_s + self._boot_offset_s

    def wall_offset_s(self) -> float | None:
        """The machine's calendar less head time; None if something came between the two readings."""
        before_s = self._system.boot_s()
        wall_s = self._system.wall_s()
        after_s = self._system.boot_s()
        if after_s - before_s > LONGEST_READING_S:
            return None
        return round((wall_s - self.of_boot_s((before_s + after_s) / 2.0)) * GRAIN) / GRAIN
