"""When will those who wait be done?"""

from __future__ import annotations

import heapq

import numpy as np

from swell.arrays import FloatArray, IntArray

#: Stands for an end that cannot be named: no size fits. Finite, and beyond any plan (a century).
NEVER_S = 100 * 365.25 * 86400.0


def list_schedule(
    num_free: int, end_s: FloatArray, held: IntArray, wanted: IntArray, lasts_s: FloatArray
) -> FloatArray:
    """(W,) end of each waiting task if tasks start in the order given, as soon as their devices are free.

    No task overtakes, none is interrupted. A task that needs more than there ever is ends at
    `NEVER_S` and delays no other.

    Args:
        num_free: devices free now.
        end_s, held: (R,) of what holds devices: its end in seconds from now, and how many.
        wanted, lasts_s: (W,) of what waits, in order of service: devices, and seconds it takes.

    References: Graham, "Bounds on multiprocessing timing anomalies", 1969 (list scheduling).
    """
    done_s = np.full(len(wanted), NEVER_S)
    releases = list(zip(end_s.tolist(), held.tolist(), strict=True))
    heapq.heapify(releases)
    num_devices, now_s = num_free + held.sum(), 0.0
    for row, (devices, takes_s) in enumerate(zip(wanted.tolist(), lasts_s.tolist(), strict=True)):
        if devices > num_devices or takes_s >= NEVER_S:
            continue
        while num_free < devices:
            release_s, released = heapq.heappop(releases)
            now_s, num_free = max(now_s, release_s), num_free + released
        num_free -= devices
        heapq.heappush(releases, (now_s + takes_s, devices))
        done_s[row] = min(now_s + takes_s, NEVER_S)
    return done_s
