"""Until when the workers of a machine that has joined may train: a file that they have in their memory.

They see it though the process that keeps it stands still, and end with it though nothing else ends them.
Times are of the machine's `HostClock`: leases are counted by clocks that no time service sets, slows or
speeds up.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from swell.wire import environ
from swell.wire.whole_files import write_whole

#: In the state folder of the host. It stays where it is: workers have it in their memory.
LEASE_FILE = "lease-end"
_END = struct.Struct("d")
#: Between the first and the last of the clocks that are read for one time.
LONGEST_READING_S = 1e-3
#: The agent looks at its clock ten times a second; a longer gap is one in which it did not run.
LONGEST_GAP_S = 1.0
_WHY = b"the lease of this machine has ended, and the platform may run the job elsewhere: this worker ends\n"
_STDERR = 2


class ShownEnd:
    """The host's side."""

    def __init__(self, path: Path) -> None:
        """Until it is told otherwise no worker may train. Raises OSError."""
        write_whole(path, _END.pack(-math.inf))
        with path.open("r+b") as file:
            self._end = memoryview(mmap.mmap(file.fileno(), _END.size)).cast("d")

    def show(self, end_s: float) -> None:
        """-inf or inf: no worker may train, or there is none."""
        self._end[0] = end_s if end_s < math.inf else -math.inf  # one store: no reader sees a half


class LeaseWatch:
    """A worker's side: a memory read and a clock, no system call that waits."""

    def __init__(self, path: str, now_s: Callable[[], float] | None = None) -> None:
        """Raises OSError: the host has no such file."""
        with open(path, "rb") as file:
            memory = mmap.mmap(file.fileno(), _END.size, access=mmap.ACCESS_READ)
        self._end = memoryview(memory).cast("d")
        self._now_s = HostClock().now_s if now_s is None else now_s

    @property
    def is_over(self) -> bool:
        """Whether the worker's lease is over, for good in this life of the worker.

        The host begins another term without it.
        """
        return self._now_s() >= self._end[0]


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
    to wrap it in `ProcessClock`.
    """
    return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)


class ProcessClock:
    """Seconds during which the process ran, or might have.

    A stopped agent (SIGSTOP, a frozen container, a machine short of memory) finds every time limit passed
    when it goes on, and its workers' messages unread. By this clock no time has passed.
    """

    def __init__(self, time_s: Callable[[], float]) -> None:
        """`time_s`: a clock that never goes back. `now_s` must be asked more often than `LONGEST_GAP_S`."""
        self._time_s = time_s
        self._last_s = time_s()
        self._lost_s = 0.0

    def now_s(self) -> float:
        """Seconds, without the time in which this process was stopped."""
        time_s = self._time_s()
        gap_s = time_s - self._last_s
        if gap_s > LONGEST_GAP_S:
            self._lost_s += gap_s
        self._last_s = time_s
        return time_s - self._lost_s


class Lease:
    """What the environment says of it; on the platform's own machine there is none."""

    def __init__(self) -> None:
        path = os.environ.get(environ.LEASE)
        self._watch = None if path is None else LeaseWatch(path)

    def check(self) -> None:
        """End this process, from any thread, if it may not train any longer. Cheap enough for each step.

        Nothing is saved: the job may have gone on from the checkpoint that there is.
        """
        if self._watch is not None and self._watch.is_over:
            os.set_blocking(_STDERR, False)  # what reads it may stand still as well
            with suppress(OSError):
                os.write(_STDERR, _WHY)
            os._exit(environ.EXIT_STOPPED)
