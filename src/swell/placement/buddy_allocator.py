"""Which devices of a node with islands jobs get: buddy allocation within the node."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from swell.arrays import IntArray
from swell.placement.placed_part import PlacedPart, cost_of, fewest
from swell.placement.topology import DeviceGroup, spread


class BuddyAllocator:
    """The devices of one node, by their places, and the jobs that are to have them.

    A job that fits into an island gets devices of one: of the smallest that is large enough, and of several
    such the one with the fewest free devices (best fit). Others move to other islands of the node where this
    is needed, few running ones and small ones, and never one that is pinned. If that does not help, either,
    the job gets devices of as few islands as possible.

    References: ElasticFlow, section 4.3 and Figure 5.
    """

    def __init__(self, tree: DeviceGroup, held: Mapping[str, Sequence[int]], pinned: Collection[str]) -> None:
        """
        Args:
            held: places of the devices that each job holds on this node, in rank order.
        """
        self.evicted: set[str] = set()  #: jobs that ran, and moved so that others have room
        self._tree, self._held, self._pinned = tree, held, pinned
        self._is_held: list[str | None] = [None] * tree.width
        for job, places in held.items():
            for place in places:
                self._is_held[place] = job
        self._owner = list(self._is_held)
        self._sizes = {job: len(places) for job, places in held.items()}

    def places(self, job: str) -> set[int]:
        """The devices that the job has by now."""
        return {place for place, owner in enumerate(self._owner) if owner == job}

    def allocate(self, wanted: Mapping[str, int]) -> None:
        """Give these jobs so many devices, together no more than there are; others keep what they have, or
        move."""
        self._sizes.update(wanted)
        for job, num in wanted.items():
            self._keep(job, num)
        lacking = [job for job, num in wanted.items() if len(self.places(job)) < num]
        for job in sorted(lacking, key=lambda job: -wanted[job]):
            if job in self._pinned or not self._settle(job):
                self._take(job, self._sizes[job], self._tree)

    def _keep(self, job: str, num: int) -> None:
        """The job gives up what it has beyond so many: it keeps devices that are close to each other."""
        own = self.places(job)
        for place in own.difference(self._closest(self._tree, list(self._held.get(job, ())), num)):
            self._owner[place] = None

    def _closest(self, group: DeviceGroup, own: Sequence[int], num: int) -> Sequence[int]:
        """So many of these places, in rank order: of as few islands as possible."""
        if num >= len(own) or not group.groups:
            return own[:num]
        inside = [[place for place in own if place in part.places] for part in group.groups]
        amounts = spread(np.array([len(part) for part in inside]), num).tolist()
        parts = zip(group.groups, inside, amounts, strict=True)
        return [place for part, places, amount in parts for place in self._closest(part, places, amount)]

    def _settle(self, job: str) -> bool:
        """Give it devices of one of the smallest islands that are large enough; False: there is no room."""
        num, own = self._sizes[job], self.places(job)
        groups = list(_smallest(self._tree, num))
        fitting = [group for group in groups if self._num_free(group, job) >= num]
        if fitting:
            self._take(job, num, min(fitting, key=lambda group: self._rank(group, job, num)))
            return True
        found = {group: parts for group in groups if (parts := self._leaving(group, job, num)) is not None}
        if not found:
            return False
        cheapest = min(found, key=lambda group: (cost_of(found[group]), -len(own.intersection(group.places))))
        return self._evict([part.job for part in found[cheapest]], job, cheapest)

    def _evict(self, leaving: Sequence[str], job: str, group: DeviceGroup) -> bool:
        """Give the job its devices in this group, and these jobs others; False, and nothing has changed, if
        one of them has no island then that is large enough."""
        before = self._owner, set(self.evicted)
        self._clear(leaving)
        self.evicted.update(leaving)
        self._take(job, self._sizes[job], group)
        if all(self._settle(other) for other in sorted(leaving, key=lambda other: -self._sizes[other])):
            return True
        self._owner, self.evicted = before
        return False

    def _leaving(self, group: DeviceGroup, job: str, num: int) -> Sequence[PlacedPart] | None:
        """Smaller jobs that have to leave this island for the job; None: not enough of them can."""
        there = {owner for owner in self._owner[group.begin : group.end] if owner is not None}
        movable = [other for other in sorted(there - {job}) if other not in self._pinned]
        smaller = [
            PlacedPart(len(self.places(other).intersection(group.places)), int(other in self._held), other)
            for other in movable
            if self._sizes[other] < num
        ]
        return fewest(smaller, num - self._num_free(group, job))

    def _clear(self, jobs: Collection[str]) -> None:
        self._owner = [None if owner in jobs else owner for owner in self._owner]

    def _num_free(self, group: DeviceGroup, job: str) -> int:
        """Devices of the group that the job has or could have."""
        return sum(owner is None or owner == job for owner in self._owner[group.begin : group.end])

    def _rank(self, group: DeviceGroup, job: str, num: int) -> tuple[int, int, int, int]:
        """Most of its own devices, fewest that others have yet to leave, fewest free ones."""
        num_own = sum(place in group.places for place in self._held.get(job, ()))
        at_once = sum(self._is_free_at_once(place, job) for place in group.places)
        return -num_own, max(0, num - at_once), self._num_free(group, job), group.begin

    def _is_free_at_once(self, place: int, job: str) -> bool:
        return self._owner[place] in (None, job) and self._is_held[place] in (None, job)

    def _take(self, job: str, num: int, group: DeviceGroup) -> None:
        """Give it so many of the group, where so many are free or its own, and nothing elsewhere."""
        kept = self.places(job).intersection(group.places)
        self._clear([job])
        for place in kept:
            self._owner[place] = job
        for place in self._free_places(group, job, num - len(kept)):
            self._owner[place] = job

    def _free_places(self, group: DeviceGroup, job: str, num: int) -> Sequence[int]:
        """So many free devices of the group: of one island, if one has enough, else of as few as possible."""
        if not group.groups:
            free = [place for place in group.places if self._owner[place] is None]
            return sorted(free, key=lambda place: not self._is_free_at_once(place, job))[:num]
        parts = group.groups
        counts: IntArray = np.array([self._num_without_owner(part) for part in parts])
        fitting = [part for part, count in zip(parts, counts.tolist(), strict=True) if count >= num]
        if fitting:
            return self._free_places(min(fitting, key=lambda part: self._rank(part, job, num)), job, num)
        amounts = spread(counts, num).tolist()
        return [
            place
            for part, amount in zip(parts, amounts, strict=True)
            if amount
            for place in self._free_places(part, job, amount)
        ]

    def _num_without_owner(self, group: DeviceGroup) -> int:
        return self._owner[group.begin : group.end].count(None)


def _smallest(tree: DeviceGroup, num: int) -> Iterator[DeviceGroup]:
    """Groups with at least so many devices none of whose own groups has as many."""
    larger = [part for part in tree.groups if part.width >= num]
    if not larger:
        yield tree
    for part in larger:
        yield from _smallest(part, num)
