"""What the processes of a gang have used of their machine."""

from __future__ import annotations

import msgspec


class GangUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sums since the gang was launched, of all its processes, those that have ended included.

    What this machine does not tell is 0; network counters exist only where a gang has a network of its own.
    """

    cpu_s: float
    memory_bytes: int = 0  #: resident now
    read_bytes: int = 0  #: from block devices
    written_bytes: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
