"""Clocks that no time service sets, slows or speeds up: what leases are counted by."""

from __future__ import annotations

import time

#: Between the first and the last of the clocks that are read for one time.
LONGEST_READING_S = 1e-3


class HostClock:
    """The clock of the side that holds a lease: not slow, and counts the time in which the machine sleeps.

    The raw clock stands still while the machine sleeps. `CLOCK_BOOTTIME` does not, but is slewed with
    `CLOCK_MONOTONIC`, by up to a tenth; their difference is the time slept.
    """

    def __init__(self) -> None:
        self._latest_s = float("-inf")

    def now_s(self) -> float:
        """Seconds since the boot; never goes back. The same for all processes of the machine, to some µs."""
        self._latest_s = max(self._latest_s, self._read_s())
        return self._latest_s

    def _read_s(self) -> float:
        """Reads again where the process was stopped in between: that time would count as slept, for ever."""
        while True:
            awake_s = time.clock_gettime(time.CLOCK_MONOTONIC)
            slept_s = time.clock_gettime(time.CLOCK_BOOTTIME) - awake_s
            raw_s = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
            if time.clock_gettime(time.CLOCK_MONOTONIC) - awake_s <= LONGEST_READING_S:
                return raw_s + slept_s


def granter_now_s() -> float:
    """Seconds by the clock of the side that grants leases: not fast.

    It may stand still while the machine sleeps. It goes on while the process is stopped: the controller has
    to wrap it in `AwakeClock`.
    """
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
