"""Where jobs hold devices, kept from one decision to the next: only what has changed is looked at again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import repeat
from types import MappingProxyType

from swell.arrays import IntArray
from swell.model.cluster import Cluster
from swell.placement.device_tree import tree_of

Held = Mapping[str, tuple[str, ...]]
#: Leaf of the tree -> how many of its devices, where that is any.
Share = Mapping[int, int]
NOTHING: Share = MappingProxyType({})

#: Leaf of a device that is not in the cluster.
NOT_THERE = -1


class Occupancy:
    """One cluster, and where in it jobs hold devices."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.tree = cluster, tree_of(cluster)
        self.held: dict[str, tuple[str, ...]] = {}
        self.shares: dict[str, Share] = {}  #: what each job holds
        self.jobs_on: dict[int, set[str]] = defaultdict(set)
        self.free: IntArray = self.tree.widths.copy()  #: (L,) devices of each leaf that no job holds
        self.taken: set[str] = set()  #: devices that jobs hold
        self.damaged: set[str] = set()  #: jobs some of whose devices are not in the cluster

    def learn(self, held: Held) -> None:
        """This is what jobs hold now."""
        changed = {job for job, _ in self.held.items() ^ held.items()}
        for job in changed & self.held.keys():
            self._forget(job)
        for job in changed & held.keys():
            self._remember(job, held[job])

    def _forget(self, job: str) -> None:
        for leaf, num in self.shares.pop(job).items():
            self.free[leaf] += num
            self.jobs_on[leaf].remove(job)
        self.taken.difference_update(self.held.pop(job))
        self.damaged.discard(job)

    def _remember(self, job: str, devices: tuple[str, ...]) -> None:
        share = Counter(map(self.tree.leaf_of.get, devices, repeat(NOT_THERE)))
        if share.pop(NOT_THERE, 0):
            self.damaged.add(job)
        for leaf, num in share.items():
            self.free[leaf] -= num
            self.jobs_on[leaf].add(job)
        self.held[job], self.shares[job] = devices, share
        self.taken.update(devices)
