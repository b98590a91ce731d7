"""Where jobs hold devices, kept from one decision to the next: only what has changed is looked at again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import repeat
from types import MappingProxyType

from swell.arrays import IntArray
from swell.model.cluster import Cluster
from swell.model.held_devices import HeldDevices
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
