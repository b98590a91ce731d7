"""Free capacity of which groups of takers may have only so much together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.solvers.filling import FreeProfile, fill, no_segments
from swell.solvers.profile.plans import GROUP_ROOM, NO_GROUP, GroupedSegments, Plans, Takers

#: None is exempt.
NONE_EXEMPT: BoolArray = np.zeros(0, dtype=bool)


class GroupedProfile:
    """A `FreeProfile` for all takers, and one more for each group: who is in one takes of both.

    What is free for a taker is the least of both at each time. Without groups it is the profile of all.

    Complexity: a taker in a group takes one pass over the segments of both profiles more.
    """

    def __init__(
        self, everything: FreeProfile, group: IntArray | None = None, of_group: Iterable[FreeProfile] = ()
    ) -> None:
        """`group` (J,): where the profile of each taker's group is in `of_group`, or NO_GROUP; None: all."""
        self.everything = everything
        self._of_group = list(of_group)
        self._group = group if self._of_group else None

    def copy(self) -> GroupedProfile:
        """The same capacity, to try something on."""
        return GroupedProfile(self.everything.copy(), self._group, map(FreeProfile.copy, self._of_group))

    def raised(self, num_devices: int) -> GroupedProfile:
        """A copy with so many more devices at all times, but none more for a group."""
        everything = self.everything.raised(num_devices)
        return GroupedProfile(everything, self._group, map(FreeProfile.copy, self._of_group))

    @property
    def num_free_now(self) -> int:
        """Devices that are free at time 0."""
        return self.everything.num_free_now

    def free_device_s(self, until_s: float) -> float:
        """Device-seconds that are free from now until then."""
        return self.everything.free_device_s(until_s)

    def free_device_s_of_group(self, taker: int, until_s: float) -> float:
        """Device-seconds of the taker's group that are free from now until then; inf if it is in none."""
        group = NO_GROUP if self._group is None else int(self._group[taker])
        return math.inf if group == NO_GROUP else self._of_group[group].free_device_s(until_s)

    def in_groups(self, rows: IntArray) -> BoolArray:
        """(n,) who is in a group."""
        if self._group is None:
            return np.zeros(len(rows), dtype=bool)
        is_in: BoolArray = self._group[rows] != NO_GROUP
        return is_in

    def take_now(
        self, num_owned: IntArray, num_devices: IntArray, until_s: FloatArray, rows: IntArray
    ) -> None:
        """So many (n,) are not free from now until (n,) then, which these takers have.

        Args:
            num_owned: of the devices, those that are part of this profile; a group counts all.
        """
        self.everything.take_now(num_owned, until_s)
        for group, profile in enumerate(self._of_group):
            is_own = self._group[rows] == group if self._group is not None else NONE_EXEMPT
            profile.take_now(num_devices[is_own], until_s[is_own])

    def take_what_is_free(self, num_devices: IntArray, until_s: FloatArray, rows: IntArray) -> BoolArray:
        """(n,) whether so many (n,) are free for each from now until (n,) then; if so, they are taken."""
        is_free = np.zeros(len(rows), dtype=bool)
        for run, profile in self._runs(rows):
            if profile is None:
                is_free[run] = self.everything.take_what_is_free(num_devices[run], until_s[run])
                continue
            least = self.everything.least_with(profile)
            is_free[run] = least.take_what_is_free(num_devices[run], until_s[run])
            if is_free[run].all():
                self.everything.take_now(num_devices[run], until_s[run])
                profile.take_now(num_devices[run], until_s[run])
        return is_free

    def fill(
        self,
        takers: Takers,
        plans: Plans,
        rows: IntArray,
        how: IntArray | int,
        is_late_served: bool = False,
        worst: IntArray | None = None,
        exempt: BoolArray | None = None,
    ) -> int:
        """Each taker in order takes what its plan needs; see `FreeProfile.fill`.

        Args:
            exempt: (J,) takers that may have more than is free for their group; None: none.
        """
        if self._group is None:
            return self.everything.fill(takers, plans, rows, how, is_late_served, worst)
        group, free = self._group, NONE_EXEMPT if exempt is None else exempt

        def groups() -> GroupedSegments:
            of_group = [profile.columns for profile in self._of_group]
            most = len(self.everything.columns.order) + max(len(columns.order) for columns in of_group)
            return GroupedSegments(of_group, group, free, no_segments(2 * most + GROUP_ROOM))

        profiles = [self.everything, *self._of_group]
        return fill(profiles, groups, takers, plans, rows, how, is_late_served, worst, GROUP_ROOM)

    def pay(self, takers: Takers, plans: Plans, others: Plans, rows: IntArray, levels: IntArray) -> BoolArray:
        """(n,) who of `rows` could go to these (n,) levels, if need be by `others`; see `FreeProfile.pay`."""
        is_paid = np.zeros(len(rows), dtype=bool)
        for run, profile in self._runs(rows):
            own = rows[run]
            if profile is None:
                is_paid[run] = self.everything.pay(takers, plans, others, own, levels[run])
            else:
                least = self.everything.least_with(profile)
                is_paid[run] = least.pay(takers, plans, others, own, levels[run])
                self.everything.take_beyond(takers, others, plans, own)
                profile.take_beyond(takers, others, plans, own)
        return is_paid

    def _runs(self, rows: IntArray) -> Iterator[tuple[slice, FreeProfile | None]]:
        """Neighbours that are in no group, together; others one by one, with the profile of the group."""
        groups = [NO_GROUP] * len(rows) if self._group is None else self._group[rows].tolist()
        first = 0
        while first < len(rows):
            end = first + 1
            while groups[first] == NO_GROUP and end < len(rows) and groups[end] == NO_GROUP:
                end += 1
            yield slice(first, end), None if groups[first] == NO_GROUP else self._of_group[groups[first]]
            first = end
