"""Placement that jobs hold, kept from one decision to the next: only what has changed is looked at again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import repeat
from types import MappingProxyType

import numpy as np

from swell.arrays import IntArray
from swell.model.cluster import Cluster
from swell.model.held_devices import HeldDevices
from swell.placement.topology import topology_of

Held = Mapping[str, tuple[str, ...]]
#: Node -> how many of its devices, where that is any.
Share = Mapping[int, int]
NOTHING: Share = MappingProxyType({})

#: Node of a device that is not in the cluster.
NOT_THERE = -1


class HeldPlacement:
    """One cluster, and where in it jobs hold devices."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.topology = cluster, topology_of(cluster)
        self.held: dict[str, tuple[str, ...]] = {}
        self.nums: dict[str, Share] = {}  #: what each job holds
        self.jobs_on: dict[int, set[str]] = defaultdict(set)
        self.free: IntArray = self.topology.widths.copy()  #: (N,) devices of each node that no job holds
        self.taken: set[str] = set()  #: devices that jobs hold
        self.damaged: set[str] = set()  #: jobs some of whose devices are not in the cluster
        #: (I,) free devices of each island, of each level from the smallest islands to whole nodes
        self.free_of_islands: list[IntArray] = []
        if self.topology.has_islands:
            self.free_of_islands = [np.bincount(one.of_device) for one in self.topology.island_levels]
        self._known: tuple[HeldDevices | None, int] = None, 0  #: what was learnt from, and its changes so far

    def learn(self, held: Held) -> None:
        """This is what jobs hold now."""
        changed = [job for job in self._noted(held) if self.held.get(job) is not held.get(job)]
        for job in filter(self.held.__contains__, changed):
            self._forget(job)
        for job in filter(held.__contains__, changed):
            self._remember(job, held[job])

    def _noted(self, held: Held) -> Iterable[str]:
        """Jobs that may hold something else by now, each once."""
        known, num_known = self._known
        changed = held.changed_since(num_known) if isinstance(held, HeldDevices) and held is known else None
        if isinstance(held, HeldDevices):
            self._known = held, held.num_changes
        return dict.fromkeys([*self.held, *held] if changed is None else changed)

    def _forget(self, job: str) -> None:
        for node, num in self.nums.pop(job).items():
            self.free[node] += num
            self.jobs_on[node].remove(job)
        devices = self.held.pop(job)
        self._count_free(devices, 1)
        self.taken.difference_update(devices)
        self.damaged.discard(job)

    def _remember(self, job: str, devices: tuple[str, ...]) -> None:
        nums = Counter(map(self.topology.node_of.get, devices, repeat(NOT_THERE)))
        if nums.pop(NOT_THERE, 0):
            self.damaged.add(job)
        for node, num in nums.items():
            self.free[node] -= num
            self.jobs_on[node].add(job)
        self.held[job], self.nums[job] = devices, nums
        self._count_free(devices, -1)
        self.taken.update(devices)

    def _count_free(self, devices: Iterable[str], sign: int) -> None:
        """So many more of these are free, or fewer, in their islands."""
        if not self.free_of_islands:
            return
        for free, level in zip(self.free_of_islands, self.topology.island_levels, strict=True):
            for device in devices:
                if (place := self.topology.place_of.get(device)) is not None:
                    free[level.of_device[place]] += sign

    def surroundings(self, size: int) -> tuple[IntArray, IntArray]:
        """(N,) the lowest level at which an island of the node has so many free devices, and the fewest that
        such an island has; a level beyond all if there is none."""
        num_nodes, levels = len(self.free), self.topology.island_levels
        lowest, fewest = np.full(num_nodes, len(levels)), np.full(num_nodes, size)
        for number in range(len(levels) - 1, -1, -1):
            free, node = self.free_of_islands[number], levels[number].node
            has_enough = free >= size
            least = np.full(num_nodes, np.iinfo(np.int64).max)
            np.minimum.at(least, node[has_enough], free[has_enough])
            is_one = np.isin(np.arange(num_nodes), node[has_enough])
            lowest[is_one], fewest[is_one] = number, least[is_one]
        return lowest, fewest
