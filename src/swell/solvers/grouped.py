"""Free capacity of which groups of takers may have only so much together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.solvers.filling import FreeProfile
from swell.solvers.profile import Plans, Takers

#: In a column of groups: of none.
NO_GROUP = -1


class GroupedProfile:
    """A `FreeProfile` for all takers, and one more for each group: who is in one takes of both.

    What is free for a taker is the least of both at each time. Without groups it is the profile of all.

    Complexity: a taker in a group takes one pass over the segments of both profiles more.
    """

    def __init__(
        self, everything: FreeProfile, group: IntArray | None = None, of_group: Mapping[int, FreeProfile] = {}
    ) -> None:
        """`group` (J,): of each taker, or NO_GROUP; its profiles are in `of_group`. None: there are none."""
        self.everything = everything
        self._of_group = dict(of_group)
        self._group = group if of_group else None

    def copy(self) -> GroupedProfile:
        """The same capacity, to try something on."""
        return self._with(self.everything.copy())

    def raised(self, num_devices: int) -> GroupedProfile:
        """A copy with so many more devices at all times, but none more for a group."""
        return self._with(self.everything.raised(num_devices))

    def _with(self, everything: FreeProfile) -> GroupedProfile:
        of_group = {group: profile.copy() for group, profile in self._of_group.items()}
        return GroupedProfile(everything, self._group, of_group)

    @property
    def num_free_now(self) -> int:
        """Devices that are free at time 0."""
        return self.everything.num_free_now

    def free_device_s(self, until_s: float) -> float:
        """Device-seconds that are free from now until then."""
        return self.everything.free_device_s(until_s)

    def in_groups(self, rows: IntArray) -> BoolArray:
        """(n,) who is in a group."""
        if self._group is None:
            return np.zeros(len(rows), dtype=bool)
        is_in: BoolArray = self._group[rows] != NO_GROUP
        return is_in

    def take_now(self, num_devices: IntArray, until_s: FloatArray, rows: IntArray) -> None:
        """So many (n,) are not free from now until (n,) then, which these takers have."""
        self.everything.take_now(num_devices, until_s)
        if self._group is not None:
            for group, profile in self._of_group.items():
                own = self._group[rows] == group
                profile.take_now(num_devices[own], until_s[own])

    def take_what_is_free(self, num_devices: IntArray, until_s: FloatArray, rows: IntArray) -> BoolArray:
        """(n,) whether so many (n,) are free for each from now until (n,) then; if so, they are taken."""
        is_free = np.zeros(len(rows), dtype=bool)
        for run, profile in self._runs(rows):
            if profile is None:
                is_free[run] = self.everything.take_what_is_free(num_devices[run], until_s[run])
            else:
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
        """As `FreeProfile.fill`.

        Args:
            exempt: (J,) takers that may have more than is free for their group; None: none.
        """
        ways = np.broadcast_to(np.asarray(how, dtype=np.int64), len(rows))
        num_served = 0
        for run, profile in self._runs(rows):
            own = rows[run]
            is_bounded = profile is not None and not (exempt is not None and exempt[own].all())
            free = self.everything.least_with(profile) if profile and is_bounded else self.everything
            num_more = free.fill(takers, plans, own, ways[run], is_late_served, worst)
            num_served += num_more
            if num_more < len(own):
                break
            if profile is not None:
                profile.take_as_planned(takers, plans, own)
                if is_bounded:
                    self.everything.take_as_planned(takers, plans, own)
        return num_served

    def pay(self, takers: Takers, plans: Plans, others: Plans, rows: IntArray, levels: IntArray) -> BoolArray:
        """As `FreeProfile.pay`."""
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
        if self._group is None:
            if len(rows):
                yield slice(0, len(rows)), None
            return
        group, first = self._group[rows].tolist(), 0
        while first < len(rows):
            end = first + 1
            if group[first] == NO_GROUP:
                while end < len(rows) and group[end] == NO_GROUP:
                    end += 1
                yield slice(first, end), None
            else:
                yield slice(first, end), self._of_group[group[first]]
            first = end
