"""Free capacity over time in plain Python, segment by segment: what the kernels must agree with.

Time runs from 0 (now). A *level* is one of a taker's sizes, numbered from 1 in ascending order;
level 0 is nothing. Sizes come as two arrays: `devices` (L,) ascending and `rates` (L,) of work per
second, strictly ascending.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from swell.arrays import FloatArray, IntArray

#: Work smaller than this share of the whole counts as done: sums of segments are not exact.
TOLERANCE_SHARE = 1e-9


@dataclass(frozen=True, slots=True)
class Fill:
    """What was taken: segment `q` lasts from `starts_s[q]` to `starts_s[q + 1]` at `levels[q]`."""

    top: int  #: the level that sufficed
    starts_s: FloatArray  #: (Q + 1,) from 0 to the end
    levels: IntArray  #: (Q,)

    @property
    def now(self) -> int:
        """Level in the first segment."""
        return int(self.levels[0]) if len(self.levels) else 0

    @property
    def first_change_s(self) -> float:
        """When the level first differs from that of now."""
        changes = np.flatnonzero(self.levels != self.now)
        return float(self.starts_s[changes[0] if len(changes) else len(self.levels)])

    @property
    def end_s(self) -> float:
        """When the last of the taken capacity is given back."""
        used = np.flatnonzero(self.levels)
        return float(self.starts_s[used[-1] + 1]) if len(used) else 0.0


class FreeProfile:
    """Free devices over [0, inf), piecewise constant.

    Complexity: a fill visits each segment once a level; n fills leave at most 2n + 1 segments.
    References: ElasticFlow, section 4.1, Algorithm 1.
    """

    def __init__(self, num_devices: int, num_takers: int) -> None:
        """`num_takers` is a hint: with many, the inner loops are compiled."""
        self.num_takers = num_takers
        self.count = 1  #: segments in use; the last one has no end
        self.starts_s: FloatArray = np.full(2 * num_takers + 8, np.inf)
        self.starts_s[0] = 0.0
        self.free: IntArray = np.full(2 * num_takers + 8, num_devices, dtype=np.int64)

    def copy(self) -> Self:
        """The same capacity, to try something on."""
        twin = type(self)(0, 0)
        twin.num_takers, twin.count = self.num_takers, self.count
        twin.starts_s, twin.free = self.starts_s.copy(), self.free.copy()
        return twin

    def take_over(self, twin: Self) -> None:
        """Make what was tried on a copy true."""
        self.count, self.starts_s, self.free = twin.count, twin.starts_s, twin.free

    def fill(
        self,
        need: float,
        end_s: float,
        devices: IntArray,
        rates: FloatArray,
        hold_s: float = 0.0,
        stop_s: float = 0.0,
        shrink_s: float = 0.0,
        held: int = 0,
    ) -> Fill | None:
        """Take the lowest level, and as late as it can be, that does `need` work before `end_s`.

        Progressive filling (Algorithm 1, lines 11-22) in continuous time. A step up within the next
        `hold_s` happens now instead: the taker could not change its size so soon after. So does one from
        nothing within the next `stop_s`, and one to `held`, or a lower level, within the next `shrink_s`.

        Returns None, and takes nothing, if no level suffices.
        """
        if end_s <= 0.0:
            return None
        end = self._split(end_s)
        find = _find_level
        top, cut_s = find(self.starts_s, self.free, end, devices, rates, need)
        if top == 0:
            return None
        num_segments = self.count
        is_kept = held >= top and cut_s < shrink_s
        cut = self._split(0.0 if cut_s < hold_s or (top == 1 and cut_s < stop_s) or is_kept else cut_s)
        end += self.count - num_segments
        levels = np.zeros(end, dtype=np.int64)
        _take(self.free, cut, top, devices, levels)
        return Fill(int(top), self.starts_s[: end + 1].copy(), levels)

    def serve(self, need: float, devices: IntArray, rates: FloatArray) -> Fill | None:
        """Take from now on the highest level that fits, whatever it is, until `need` is done.

        Returns None, and takes nothing, if that never happens.
        """
        levels = np.zeros(self.count, dtype=np.int64)
        run = _run_early
        end_s = run(self.starts_s, self.free, self.count, need, devices, rates, levels)
        if not np.isfinite(end_s):
            return None
        end = self._split(end_s)
        levels = levels[:end]
        taken = np.where(levels > 0, devices[levels - 1], 0)
        self.free[:end] -= taken
        return Fill(int(levels.max(initial=0)), self.starts_s[: end + 1].copy(), levels)

    def _split(self, at_s: float) -> int:
        """Index of the segment that begins at `at_s`, which is made if need be."""
        if self.count + 1 >= len(self.starts_s):
            self.starts_s = np.concatenate([self.starts_s, np.full_like(self.starts_s, np.inf)])
            self.free = np.concatenate([self.free, np.zeros_like(self.free)])
        index = int(np.searchsorted(self.starts_s[: self.count], at_s))
        if index < self.count and self.starts_s[index] == at_s:
            return index
        self.starts_s[index + 1 : self.count + 1] = self.starts_s[index : self.count]
        self.free[index + 1 : self.count + 1] = self.free[index : self.count]
        self.starts_s[index] = at_s
        self.free[index] = self.free[index - 1]
        self.count += 1
        return index


def _find_level(
    starts_s: FloatArray, free: IntArray, end: int, devices: IntArray, rates: FloatArray, need: float
) -> tuple[int, float]:
    """(level, time from which on it is needed), or (0, 0.0) if the highest level does not suffice."""
    enough = need * (1.0 - TOLERANCE_SHARE)
    rate_below = 0.0
    done = 0.0
    for level in range(1, len(devices) + 1):  # Algorithm 1, line 13: j from 1 to G
        slope = rates[level - 1] - rate_below
        for segment in range(end - 1, -1, -1):  # line 14: t from D_i down to startTime
            if free[segment] < devices[level - 1]:  # line 15: what is left is floored to a lower level
                continue
            gain = slope * (starts_s[segment + 1] - starts_s[segment])
            if done + gain >= enough:  # lines 17-19
                needed_s = max(need - done, 0.0) / slope
                return level, max(starts_s[segment], starts_s[segment + 1] - needed_s)
            done += gain
        rate_below = rates[level - 1]
    return 0, 0.0


def _take(free: IntArray, cut: int, top: int, devices: IntArray, levels: IntArray) -> None:
    """Write the levels taken, `top` from segment `cut` on and one less before, floored to what is free."""
    for segment in range(len(levels)):
        level = top if segment >= cut else top - 1
        while level > 0 and devices[level - 1] > free[segment]:
            level -= 1
        levels[segment] = level
        if level > 0:
            free[segment] -= devices[level - 1]


def _run_early(
    starts_s: FloatArray,
    free: IntArray,
    count: int,
    need: float,
    devices: IntArray,
    rates: FloatArray,
    levels: IntArray,
) -> float:
    """Write the highest level that fits into each segment; returns when `need` is done, or inf."""
    done = 0.0
    for segment in range(count):
        level = len(devices)
        while level > 0 and devices[level - 1] > free[segment]:
            level -= 1
        levels[segment] = level
        if level == 0:
            continue
        rate = rates[level - 1]
        if segment + 1 == count or done + rate * (starts_s[segment + 1] - starts_s[segment]) >= need:
            return float(starts_s[segment] + max(need - done, 0.0) / rate)
        done += rate * (starts_s[segment + 1] - starts_s[segment])
    return np.inf
