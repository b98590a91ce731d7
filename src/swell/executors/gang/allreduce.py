"""What groups of workers take on one kind of device: measured at some sizes, read off at others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

#: Groups larger than this are not measured, but extrapolated.
MAX_MEASURED = 8


class GroupTimes(msgspec.Struct, kw_only=True):
    """Times measured on groups of workers that run no script, on one kind of device."""

    allreduce_s: dict[int, dict[int, float]] = {}  #: workers on one host -> bytes -> seconds
    crossing_s: dict[int, float] = {}  #: likewise, of two workers on two hosts
    #: Workers on one host -> seconds from the first fork until all are in the group.
    launch_s: dict[int, float] = {}

    @property
    def send_s_per_byte(self) -> float | None:
        """Seconds to send a byte from one worker to another: in a sum of two, each sends all it has.

        None where no sum of two was measured.
        """
        points = self.allreduce_s.get(2)
        return points[max(points)] / max(points) if points else None

    def unmeasured(self, sizes: Sequence[int], num_devices: int) -> list[int]:
        """Powers of two up to what is asked for, what there is, and `MAX_MEASURED`, less those known."""
        most = min(MAX_MEASURED, max(sizes), num_devices)
        return [size for size in (2, 4, 8) if size <= most and size not in self.allreduce_s]

    def extra_s(self, num_bytes: int) -> dict[int, dict[int, float]]:
        """Hosts -> workers -> seconds that gradients of `num_bytes` take longer there than on one host."""
        if not self.crossing_s:
            return {}
        within_s = allreduce_s(self.allreduce_s, 2, num_bytes)
        return {2: {2: max(0.0, sum_s(self.crossing_s, num_bytes) - within_s)}}


def allreduce_s(table: Mapping[int, Mapping[int, float]], num_workers: int, num_bytes: int) -> float:
    """Seconds for gradients of `num_bytes` in a group of `num_workers`; linear between points, log-log.

    Args:
        table: workers -> bytes -> seconds.
    """
    if num_workers == 1 or not table:
        return 0.0
    by_size = {size: sum_s(points, num_bytes) for size, points in table.items()}
    return _interpolate(by_size, num_workers)


def sum_s(points: Mapping[int, float], num_bytes: int) -> float:
    """Seconds for so many bytes; beyond the largest measured number they grow as the bytes do.

    That is no less than a sum takes whose time is a latency and a time per byte.
    """
    most = max(points)
    return _interpolate(points, min(num_bytes, most)) * max(1.0, num_bytes / most)


def _interpolate(points: Mapping[int, float], at: float) -> float:
    """Through the two points around `at`; beyond the outermost the line goes on, but never falls."""
    known = sorted((math.log(x), math.log(max(y, 1e-9))) for x, y in points.items())
    x = math.log(max(at, 1))
    if len(known) == 1:
        return math.exp(known[0][1])
    index = min(max(sum(each[0] < x for each in known), 1), len(known) - 1)
    (x0, y0), (x1, y1) = known[index - 1], known[index]
    slope = (y1 - y0) / (x1 - x0)
    if x < x0 or x > x1:
        slope = max(slope, 0.0)
    base_x, base_y = (x0, y0) if x < x0 else (x1, y1)
    return math.exp(base_y + slope * (x - base_x))
