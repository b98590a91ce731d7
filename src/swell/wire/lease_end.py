"""Until when the workers of a machine that has joined may train: a file that they have in their memory.

They see it though the process that keeps it stands still. Times are of the machine's `HostClock`.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable
from pathlib import Path

from swell.wire.lease_clocks import HostClock
from swell.wire.whole_files import write_whole

#: In the state folder of the host. It stays where it is: workers have it in their memory.
LEASE_FILE = "lease-end"
_END = struct.Struct("d")


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
