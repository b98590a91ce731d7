"""What a job has learnt, and what its gangs have used for that, as their reports say."""

from __future__ import annotations

import math

import msgspec

from swell.model.usage import NO_USAGE, GangUsage, total_usage


class JobUsage(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Mutable, a part of a job's record. Times are head time."""

    latest: GangUsage | None = None  #: of the gang that there is, or was last
    before_cpu_s: float = 0.0  #: used by the gangs before that one
    before: GangUsage = NO_USAGE  #: all else that they used
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
            self.latest = NO_USAGE

    def note(self, at_s: float, value: float | None, usage: GangUsage | None) -> None:
        """A report of its gang."""
        if usage is not None:
            self.latest = usage
        if value is not None:
            self.value, self.value_s = (value if math.isfinite(value) else None), at_s
