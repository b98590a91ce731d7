"""The devices of a cluster as a tree of racks, nodes, and islands in nodes; and where in it jobs hold some.

That is kept from one decision to the next: only what has changed is looked at again.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, pairwise, repeat
from types import MappingProxyType

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.model.cluster import Cluster
from swell.model.node import Node

NO_PARTS: IntArray = np.zeros(0, dtype=np.int64)


Held = Mapping[str, tuple[str, ...]]
#: Leaf of the tree -> how many of its devices, where that is any.
Share = Mapping[int, int]
NOTHING: Share = MappingProxyType({})
#: Leaf of a device that is not in the cluster.
NOT_THERE = -1


@dataclass(frozen=True)
class DeviceTree:
    """Groups of devices, and which of them consist of others.

    Leaves are the smallest groups, whose devices are alike: nodes, or the innermost islands of a node. They
    have the numbers 0 to L - 1 in the cluster's order: owned nodes first, those of a rack together. Groups
    made of them have the numbers from L on; the last one is the whole cluster.
    """

    devices: Sequence[tuple[str, ...]]  #: (L,) of each leaf
    widths: IntArray  #: (L,) number of devices
    nodes: Sequence[Node]  #: (L,) of which each leaf is a part
    #: (V, L) the group of each leaf at each level: islands from the inside, node, rack, cluster.
    levels: IntArray
    node_level: int

    @cached_property
    def leaf_of(self) -> Mapping[str, int]:
        """Device id -> its leaf."""
        leaves = np.repeat(np.arange(len(self.widths)), self.widths).tolist()
        return dict(zip(chain.from_iterable(self.devices), leaves, strict=True))

    @cached_property
    def everywhere(self) -> BoolArray:
        """(L,) all leaves."""
        return np.ones(len(self.widths), dtype=bool)

    @cached_property
    def is_owned(self) -> BoolArray:
        """(L,) leaves of nodes that are never reclaimed."""
        return np.array([not node.is_borrowed for node in self.nodes], dtype=bool)

    @cached_property
    def has_owned(self) -> BoolArray:
        """(G,) groups with a device that is never reclaimed."""
        return self.sums(self.is_owned.astype(np.int64)) > 0

    @cached_property
    def cores(self) -> FloatArray | None:
        """(G,) cores that all workers of a node share, of nodes and their islands; None: no node says so.

        They are inf where each device has its own.
        """
        if all(node.cores is None for node in self.nodes):
            return None
        cores, of_nodes = np.full(self.num_groups, math.inf), self.levels[self.node_level]
        cores[of_nodes] = [math.inf if node.cores is None else node.cores for node in self.nodes]
        of_groups: FloatArray = cores[self.ancestors[self.node_level]]
        return of_groups

    @cached_property
    def is_node(self) -> BoolArray:
        """(G,) whole nodes."""
        is_node = np.zeros(self.num_groups, dtype=bool)
        is_node[self.levels[self.node_level]] = True
        return is_node

    @cached_property
    def is_on_node(self) -> BoolArray:
        """(G,) nodes and islands."""
        is_on_node: BoolArray = self.is_node[self.ancestors[self.node_level]]
        return is_on_node

    @cached_property
    def is_divided(self) -> BoolArray:
        """(G,) groups that consist of others."""
        return np.arange(self.num_groups) >= len(self.widths)

    @property
    def has_racks(self) -> bool:
        """Whether the cluster has several."""
        return bool((self.levels[-2] != self.levels[-1]).any())

    @cached_property
    def num_groups(self) -> int:
        return int(self.levels.max(initial=-1)) + 1

    @cached_property
    def parents(self) -> IntArray:
        """(G,) the smallest larger group that each is a part of; -1: the whole cluster is part of none."""
        parents = np.full(self.num_groups, -1)
        for below, above in pairwise(self.levels):
            is_larger = above != below
            parents[below[is_larger]] = above[is_larger]
        return parents

    @cached_property
    def _parts(self) -> Sequence[IntArray]:
        """(G - L,) the groups that each consists of, of those that are no leaves."""
        order = np.argsort(self.parents, kind="stable")
        borders = np.searchsorted(self.parents[order], np.arange(len(self.widths), self.num_groups + 1))
        return [order[low:high] for low, high in pairwise(borders.tolist())]

    def parts(self, group: int) -> IntArray:
        """The groups that it consists of; a leaf consists of none."""
        return self._parts[group - len(self.widths)] if group >= len(self.widths) else NO_PARTS

    @cached_property
    def ancestors(self) -> IntArray:
        """(V, G) the group at each level that each group is a part of; itself at levels below its own."""
        ancestors = np.tile(np.arange(self.num_groups), (len(self.levels), 1))
        for level, above in enumerate(self.levels):
            for below in self.levels[: level + 1]:
                ancestors[level, below] = above
        return ancestors

    @cached_property
    def around(self) -> IntArray:
        """(V', G) the same from racks in, but for levels at which all groups are the whole cluster."""
        is_told = (self.levels != self.num_groups - 1).any(axis=1)
        is_told[0] = True
        around: IntArray = self.ancestors[is_told][::-1]
        return around

    @cached_property
    def _leaves(self) -> tuple[IntArray, IntArray]:
        """Leaves of each group that is none itself, group after group, and where each group begins."""
        is_new = self.levels[1:] != self.levels[:-1]
        groups, leaves = self.levels[1:][is_new], is_new.nonzero()[1]
        order = np.argsort(groups, kind="stable")
        return leaves[order], np.searchsorted(groups[order], np.arange(len(self.widths), self.num_groups))

    def sums(self, counts: IntArray) -> IntArray:
        """(G,) sums over the leaves of each group, of (L,) counts."""
        leaves, begins = self._leaves
        return np.concatenate([counts, np.add.reduceat(counts[leaves], begins)]) if len(begins) else counts

    @cached_property
    def group_widths(self) -> IntArray:
        """(G,) devices of each group."""
        return self.sums(self.widths)

    def smallest(self, counts: IntArray, num: int) -> BoolArray:
        """(G,) groups with so many by (G,) counts, none of whose parts has as many."""
        is_one = counts >= num
        is_one[self.parents[:-1][is_one[:-1]]] = False
        return is_one

    def is_in(self, group: int) -> BoolArray:
        """(L,) leaves of this group."""
        is_in: BoolArray = (self.levels == group).any(axis=0)
        return is_in

    def gather(self, counts: IntArray, num: int, group: int = -1) -> Mapping[int, int]:
        """So many of (G,) counts, by leaf: of few parts of the group, and so within each; -1: of all."""
        group %= self.num_groups
        if not len(self.parts(group)):
            return {group: num}
        amounts = spread(counts[self.parts(group)], num)
        chosen: dict[int, int] = {}
        for place in amounts.nonzero()[0].tolist():
            chosen |= self.gather(counts, int(amounts[place]), int(self.parts(group)[place]))
        return chosen


def tree_of(cluster: Cluster) -> DeviceTree:
    """The tree of all nodes that have devices."""
    nodes = [node for node in cluster.in_order if node.devices]
    depth = max((len(node.islands) for node in nodes), default=0)
    sizes = [_sizes(nodes, depth - level) for level in range(depth + 1)]  # from the innermost islands
    ends = [np.cumsum(np.fromiter(chain.from_iterable(level), np.int64)) for level in sizes]
    widths = np.diff(ends[0], prepend=0)
    labels = [np.searchsorted(of_level, ends[0]) for of_level in ends]
    racks: dict[str, int] = {}
    of_nodes = np.array([racks.setdefault(node.rack, len(racks)) for node in nodes], dtype=np.int64)
    labels += [of_nodes[labels[depth]], np.zeros(len(widths), dtype=np.int64)]
    return DeviceTree(
        devices=list(chain.from_iterable(map(_cut, nodes, sizes[0]))),
        widths=widths,
        nodes=[nodes[number] for number in labels[depth].tolist()],
        levels=_numbered(labels),
        node_level=depth,
    )


def _sizes(nodes: Sequence[Node], level: int) -> Sequence[tuple[int, ...]]:
    """Devices of the islands of each node: of the whole node at level 0, of its first islands at level 1.

    A node with fewer levels repeats its last one.
    """
    if level == 0:
        return [(len(node.devices),) for node in nodes]
    return [((len(node.devices),), *node.islands)[: level + 1][-1] for node in nodes]


def _cut(node: Node, sizes: Sequence[int]) -> Sequence[tuple[str, ...]]:
    if len(sizes) == 1:
        return (node.devices,)
    return [node.devices[low:high] for low, high in pairwise([0, *accumulate(sizes)])]


def _numbered(labels: Sequence[IntArray]) -> IntArray:
    """(V, L) groups by one number each, whatever level they are at, from (L,) labels of each level."""
    levels, num_groups = [labels[0]], len(labels[0])
    for below, above in pairwise(labels):
        is_larger = np.bincount(above)[above] > np.bincount(below)[below]
        numbers = np.cumsum(np.bincount(above[is_larger]) > 0)
        level = levels[-1].copy()
        level[is_larger] = num_groups - 1 + numbers[above[is_larger]]
        levels.append(level)
        num_groups += int(numbers.max(initial=0))
    return np.array(levels, dtype=np.int64).reshape(len(labels), -1)


def spread(counts: IntArray, num: int) -> IntArray:
    """(N,) how many to take of these (N,) counts, from as few as possible, to have `num`, at most their sum.

    All of the largest ones, until the rest fits into one; and that from the smallest that has as many.
    """
    amounts = np.zeros(len(counts), dtype=np.int64)
    if num > counts.max(initial=0):
        order = np.argsort(-counts, kind="stable")
        whole = order[: np.searchsorted(np.cumsum(counts[order]), num)]
        amounts[whole] = counts[whole]
        num -= int(counts[whole].sum())
    if num:
        left = counts - amounts
        amounts[np.where(left >= num, left, np.iinfo(np.int64).max).argmin()] += num
    return amounts


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
