"""When will those who wait be done?"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

#: Stands for an end that nobody can name: no size fits. Finite, and beyond any plan (a century).
NEVER_S = 100 * 365.25 * 86400.0


def list_schedule(
    num_free: int, running: Iterable[tuple[float, int]], waiting: Iterable[tuple[int, float]]
) -> list[float]:
    """End of each waiting task if tasks start in the order given, as soon as their devices are free.

    Nobody overtakes, nobody is interrupted. A task that needs more than there ever is ends at
    `NEVER_S` and delays nobody.

    Args:
        num_free: devices free now.
        running: (end in seconds from now, devices) of what holds devices.
        waiting: (devices, duration in seconds), in order of service.

    References: Graham, "Bounds on multiprocessing timing anomalies", 1969 (list scheduling).
    """
    releases = list(running)
    heapq.heapify(releases)
    num_devices = num_free + sum(devices for _, devices in releases)
    clock_s, ends_s = 0.0, []
    for devices, duration_s in waiting:
        if devices > num_devices or duration_s >= NEVER_S:
            ends_s.append(NEVER_S)
            continue
        while num_free < devices:
            end_s, released = heapq.heappop(releases)
            clock_s, num_free = max(clock_s, end_s), num_free + released
        num_free -= devices
        heapq.heappush(releases, (clock_s + duration_s, devices))
        ends_s.append(min(clock_s + duration_s, NEVER_S))
    return ends_s
