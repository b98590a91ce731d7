"""Free capacity over time, as segments, and stretches that are taken from them."""

from __future__ import annotations

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.solvers.capacity.plans import INF

#: Segments for which there is room at first.
FEW = 64


class Segments:
    """Free devices over [0, inf), piecewise constant.

    The first `num` places of the columns are segments, in order of time. A segment ends where the next one
    begins, the last one never.
    """

    def __init__(self, num_devices: int) -> None:
        self.starts_s, self.free = np.zeros(FEW), np.zeros(FEW, dtype=np.int64)
        self.free[0], self.num = num_devices, 1

    def copy(self) -> Segments:
        """The same, to try something on."""
        twin = Segments(0)
        twin.starts_s, twin.free, twin.num = np.array(self.starts_s), np.array(self.free), self.num
        return twin


def end_of(profile: Segments, place: int) -> float:
    """When the segment at this place ends."""
    return profile.starts_s[place + 1] if place + 1 < profile.num else INF


def make_room(profile: Segments, num: int) -> None:
    """Have room for so many segments at least."""
    if num > len(profile.starts_s):
        more = 2 * num - len(profile.starts_s)
        profile.starts_s = np.concatenate((profile.starts_s, np.zeros(more)))
        profile.free = np.concatenate((profile.free, np.zeros(more, dtype=np.int64)))


def take_now(profile: Segments, num_devices: IntArray, until_s: FloatArray) -> None:
    """So many are not free from now until then, each."""
    for position in range(len(until_s)):
        take_between(profile, 0.0, until_s[position], num_devices[position])


def take_what_is_free(
    profile: Segments, num_devices: IntArray, until_s: FloatArray, is_free: BoolArray
) -> None:
    """Take so many from now until then, each, if they are free all the while; else none."""
    for position in range(len(until_s)):
        num, end_s = num_devices[position], until_s[position]
        are_free_now = profile.free[0] >= num  # asked for no time, too
        is_free[position] = are_free_now and are_free(profile, 0.0, end_s, num)
        if is_free[position]:
            take_between(profile, 0.0, end_s, num)


def are_free(profile: Segments, start_s: float, end_s: float, num: int) -> bool:
    """Whether so many are free from then on until then."""
    place = _locate(profile, start_s)
    while place < profile.num and profile.starts_s[place] < end_s:
        if profile.free[place] < num:
            return False
        place += 1
    return True


def take_between(profile: Segments, start_s: float, end_s: float, num: int) -> None:
    """So many fewer are free from then on until then."""
    if not end_s > start_s:
        return
    first = _split(profile, start_s)
    for place in range(first, _split(profile, end_s)):
        profile.free[place] -= num


def write_least(first: Segments, second: Segments, least: Segments) -> None:
    """Write what is free in both."""
    place, other, at_s = 0, 0, 0.0
    make_room(least, first.num + second.num)
    least.num = 0
    while at_s < INF:
        least.starts_s[least.num] = at_s
        least.free[least.num] = min(first.free[place], second.free[other])
        least.num += 1
        end_s, other_end_s = end_of(first, place), end_of(second, other)
        at_s = min(end_s, other_end_s)
        if end_s == at_s:
            place += 1
        if other_end_s == at_s:
            other += 1


def _locate(profile: Segments, at_s: float) -> int:
    """The segment that `at_s` lies in."""
    low, high = 0, profile.num - 1
    while low < high:
        middle = (low + high + 1) // 2
        if profile.starts_s[middle] <= at_s:
            low = middle
        else:
            high = middle - 1
    return low


def _split(profile: Segments, at_s: float) -> int:
    """See that a segment begins at `at_s`; returns its place."""
    place = _locate(profile, at_s)
    if profile.starts_s[place] == at_s:
        return place
    make_room(profile, profile.num + 1)
    for later in range(profile.num, place + 1, -1):
        profile.starts_s[later] = profile.starts_s[later - 1]
        profile.free[later] = profile.free[later - 1]
    profile.starts_s[place + 1], profile.free[place + 1] = at_s, profile.free[place]
    profile.num += 1
    return place + 1
