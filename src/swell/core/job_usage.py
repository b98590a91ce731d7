"""What a job has learnt, and what its gangs have used for that, as their reports say."""

from __future__ import annotations

import math

import msgspec

from swell.model.resource import Resource
from swell.model.usage import NO_USAGE, GangUsage, total_usage


class JobUsage(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Mutable, a part of a job's record. Times are head time."""

    latest: GangUsage | None = None  #: of the gang that there is, or was last
    latest_s: float | None = None  #: when that was told; None: by no report of this gang
    before_cpu_s: float = 0.0  #: used by the gangs before that one
    before: GangUsage = NO_USAGE  #: all else that they used
    memory_byte_s: float = 0.0  #: resident memory over time, all gangs
    value: float | None = None  #: of its evaluation function, as last reported; None: none, or not finite
    value_s: float | None = None  #: when that was

    @property
    def cpu_s(self) -> float | None:
        """CPU time of all its gangs; None: not measured."""
        return None if self.latest is None else self.before_cpu_s + self.latest.cpu_s

    @property
    def total(self) -> GangUsage:
        """What all its gangs have used, but for CPU time."""
        return self.before if self.latest is None else total_usage([self.before, self.latest])

    def begin_gang(self) -> None:
        """The next gang counts from 0."""
        if self.latest is not None:
            self.before_cpu_s += self.latest.cpu_s
            ended = msgspec.structs.replace(self.latest.without_memory, cpu_s=0.0)
            self.before = total_usage([self.before, ended])
            self.latest, self.latest_s = NO_USAGE, None

    def note(self, at_s: float, value: float | None, usage: GangUsage | None) -> None:
        """A report of its gang."""
        if usage is not None:
            self._note_usage(at_s, usage)
        if value is not None:
            self.value, self.value_s = (value if math.isfinite(value) else None), at_s

    def _note_usage(self, at_s: float, usage: GangUsage) -> None:
        if self.latest is not None and self.latest_s is not None and at_s > self.latest_s:
            mean_bytes = (self.latest.memory_bytes + usage.memory_bytes) / 2.0
            self.memory_byte_s += mean_bytes * (at_s - self.latest_s)
        self.latest, self.latest_s = usage, at_s

    def used(self, resource: Resource) -> float | None:
        """So much of a resource that a rate of it is its use: CPU seconds, byte-seconds, bytes.

        None: not measured.
        """
        match resource:
            case Resource.CPU:
                return self.cpu_s
            case Resource.MEMORY:
                return self.memory_byte_s or None
            case Resource.BLOCK_IO:
                return self.total.block_io_bytes
            case Resource.NETWORK:
                return self.total.network_bytes
