"""What the processes of a gang have used of their machine."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class GangUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sums since the gang was launched, of all its processes, those that have ended included.

    A number of bytes is None where the machine does not tell it.
    """

    cpu_s: float
    memory_bytes: int = 0  #: resident now; 0: not told
    read_bytes: int | None = None  #: from block devices
    written_bytes: int | None = None

    @property
    def without_memory(self) -> GangUsage:
        """What stays used once the processes have ended."""
        return msgspec.structs.replace(self, memory_bytes=0)


NO_USAGE = GangUsage(cpu_s=0.0)


def total_usage(read: Iterable[GangUsage]) -> GangUsage:
    """Return the sum of these readings, field by field; what none of them tells is not told."""
    read = list(read)
    return GangUsage(
        cpu_s=sum(usage.cpu_s for usage in read),
        memory_bytes=sum(usage.memory_bytes for usage in read),
        read_bytes=_sum(usage.read_bytes for usage in read),
        written_bytes=_sum(usage.written_bytes for usage in read),
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    told = [number for number in numbers if number is not None]
    return sum(told) if told else None
