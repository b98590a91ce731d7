"""Progressive filling: one after the other, takers take what their plans need of the free capacity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.solvers.capacity.courses import PlanRows, rows_of
from swell.solvers.capacity.fill import GroupRows, fill_in_order, pay_in_order, take_beyond
from swell.solvers.capacity.plans import MOST_SEGMENTS, NO_GROUP, Plans, Takers
from swell.solvers.capacity.segments import Segments, take_now, take_what_is_free, write_least

EMPTY: IntArray = np.zeros(0, dtype=np.int64)
NONE_EXEMPT: BoolArray = np.zeros(0, dtype=bool)


class FreeProfile:
    """Free devices over [0, inf), what takers have of them, and how much groups of takers may have together.

    What a group may have is a profile of its own. Who is in one takes of both: free for it is the least of
    both at each time.

    Complexity: a taker's search visits each segment once a level. A taker in a group takes one pass over the
        segments of both profiles more.
    References: ElasticFlow, section 4.1, Algorithm 1.
    """

    def __init__(
        self, num_devices: int, group: IntArray = EMPTY, of_group: Iterable[FreeProfile] = ()
    ) -> None:
        """So many devices are free for ever.

        Args:
            group: (J,) where the profile of each taker's group is in `of_group`, or NO_GROUP; empty: no taker
                is in any.
        """
        self._segments = Segments(num_devices)
        self._of_group = list(of_group)
        self._group = group if self._of_group else EMPTY

    def copy(self) -> FreeProfile:
        """The same capacity, to try something on."""
        twin = FreeProfile(0, self._group, [profile.copy() for profile in self._of_group])
        twin._segments = self._segments.copy()
        return twin

    def raised(self, num_devices: int) -> FreeProfile:
        """A copy with so many more devices at all times, but none more for a group."""
        twin = self.copy()
        twin.steps[1][:] += num_devices
        return twin

    def least_with(self, other: FreeProfile) -> FreeProfile:
        """What is free in both, to plan for a few takers."""
        least = FreeProfile(0)
        write_least(self._segments, other._segments, least._segments)
        return least

    @property
    def steps(self) -> tuple[FloatArray, IntArray]:
        """(S,) times from which on (S,) devices are free."""
        segments = self._segments
        return np.asarray(segments.starts_s)[: segments.num], np.asarray(segments.free)[: segments.num]

    def free_device_s(self, until_s: float) -> float:
        """Device-seconds that are free from now until then."""
        starts_s, free = self.steps
        ends_s = np.minimum(np.append(starts_s[1:], np.inf), until_s)
        return float((free * np.maximum(ends_s - starts_s, 0.0)).sum())

    def free_device_s_of_group(self, taker: int, until_s: float) -> float:
        """Device-seconds of the taker's group that are free from now until then; inf if it is in none."""
        group = int(self._group[taker]) if self._of_group else NO_GROUP
        return math.inf if group == NO_GROUP else self._of_group[group].free_device_s(until_s)

    def leave_groups(self, is_leaving: BoolArray) -> None:
        """These (J,) takers are in no group from now on."""
        if self._of_group:
            self._group = np.where(is_leaving, NO_GROUP, self._group)

    def in_groups(self, rows: IntArray) -> BoolArray:
        """(n,) who is in a group."""
        if not self._of_group:
            return np.zeros(len(rows), dtype=bool)
        is_in: BoolArray = self._group[rows] != NO_GROUP
        return is_in

    def take_now(self, num_devices: IntArray, until_s: FloatArray) -> None:
        """So many (n,) are not free from now until (n,) then; what groups may have stays as it is."""
        take_now(self._segments, num_devices, until_s)

    def take_of_groups(self, num_devices: IntArray, until_s: FloatArray, rows: IntArray) -> None:
        """So many (n,) of what their groups may have are not free from now until (n,) then."""
        for group, profile in enumerate(self._of_group):
            is_own = self._group[rows] == group
            profile.take_now(num_devices[is_own], until_s[is_own])

    def take_what_is_free(self, num_devices: IntArray, until_s: FloatArray, rows: IntArray) -> BoolArray:
        """(n,) whether so many (n,) are free for each from now until (n,) then; if so, they are taken."""
        is_free = np.zeros(len(rows), dtype=bool)
        for run, own in self._runs(rows):
            profile = self if own is None else self.least_with(own)
            take_what_is_free(profile._segments, num_devices[run], until_s[run], is_free[run])
            if own is not None and is_free[run].all():
                self.take_now(num_devices[run], until_s[run])
                own.take_now(num_devices[run], until_s[run])
        return is_free

    def fill(
        self,
        takers: Takers,
        plans: Plans,
        rows: IntArray,
        how: IntArray | int,
        is_late_served: bool = False,
        worst: IntArray = EMPTY,
        exempt: BoolArray = NONE_EXEMPT,
    ) -> int:
        """Each taker in order takes what its plan needs; see `fill_in_order`.

        Args:
            how: one for all, or (n,) one for each of `rows`.
            worst: (J,) grades; empty: none is too bad.
            exempt: (J,) takers that may have more than is free for their group; empty: none.

        Returns: how many of `rows` were served: fewer than all only if the next one's grade is too bad.
        """
        ways = np.empty(len(rows), dtype=np.int64)
        ways[:] = how
        groups = GroupRows([profile._segments for profile in self._of_group], self._group, exempt)
        told = self._segments, groups, rows_of(takers), PlanRows(plans)
        return int(fill_in_order(*told, rows, ways, worst, is_late_served))

    def pay(self, takers: Takers, plans: Plans, others: Plans, rows: IntArray, levels: IntArray) -> BoolArray:
        """(n,) who of `rows` could go to these (n,) levels, if need be by `others`; see `pay_in_order`."""
        is_paid, told = np.zeros(len(rows), dtype=bool), (rows_of(takers), PlanRows(plans), PlanRows(others))
        for run, own in self._runs(rows):
            profile = self if own is None else self.least_with(own)
            pay_in_order(profile._segments, *told, rows[run], levels[run], is_paid[run])
            for one in () if own is None else (self, own):
                take_beyond(one._segments, *told, rows[run])
        return is_paid

    def _runs(self, rows: IntArray) -> Iterator[tuple[slice, FreeProfile | None]]:
        """Neighbours that are in no group, together; others one by one, with the profile of the group."""
        groups, first = self._group[rows].tolist() if self._of_group else [NO_GROUP] * len(rows), 0
        while first < len(rows):
            end = first + 1
            while groups[first] == NO_GROUP and end < len(rows) and groups[end] == NO_GROUP:
                end += 1
            yield slice(first, end), None if groups[first] == NO_GROUP else self._of_group[groups[first]]
            first = end


def no_plans(num_takers: int) -> Plans:
    """Columns for plans that are yet to be made."""
    plans = Plans(
        grade=np.zeros(num_takers, dtype=np.int64),
        num=np.zeros(num_takers, dtype=np.int64),
        starts_s=np.zeros((num_takers, MOST_SEGMENTS)),
        levels=np.zeros((num_takers, MOST_SEGMENTS), dtype=np.int64),
        end_s=np.zeros(num_takers),
        now=np.zeros(num_takers, dtype=np.int64),
        top=np.zeros(num_takers, dtype=np.int64),
        change_s=np.zeros(num_takers),
    )
    plans.grade.fill(-1)
    plans.change_s.fill(np.inf)
    return plans


def copy_of(plans: Plans) -> Plans:
    """Return a copy of the plans, for a trial that may be discarded."""
    return Plans._make(map(np.ndarray.copy, plans))
