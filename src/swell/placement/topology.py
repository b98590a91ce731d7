"""A cluster in columns: nodes by number, with their racks, widths and islands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, groupby, pairwise, repeat
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.model.cluster import GROUP, Cluster
from swell.model.islands import Islands


class NodeWidths(NamedTuple):
    """Numbers of devices of some nodes."""

    each: IntArray
    num_devices: int  #: of all
    widest: int

    @classmethod
    def of(cls, widths: IntArray) -> NodeWidths:
        return cls(widths, int(widths.sum()), int(widths.max(initial=0)))


@dataclass(frozen=True)
class DeviceGroup:
    """Some devices of a node, by their places in it, and the smaller groups that they form."""

    begin: int
    end: int
    groups: tuple[DeviceGroup, ...] = ()  #: that it consists of; none: its devices are alike

    @property
    def width(self) -> int:
        return self.end - self.begin

    @property
    def places(self) -> range:
        return range(self.begin, self.end)


class IslandLevel(NamedTuple):
    """The islands of all nodes at one level. A node without islands at this level is one of them itself."""

    of_device: IntArray  #: (D,) number of the island of each device, in the order of nodes and devices
    node: IntArray  #: (I,) number of the node of each island


@dataclass(frozen=True)
class Topology:
    """Nodes are numbered in the cluster's order: owned ones first, the nodes of a rack together."""

    names: Sequence[str]  #: (N,)
    devices: Sequence[tuple[str, ...]]  #: (N,) of each node
    widths: IntArray  #: (N,) devices of each node
    racks: IntArray  #: (N,) number of each node's rack; owned and borrowed nodes share none
    num_owned: int  #: nodes
    real_racks: IntArray  #: (N,) number of each node's rack, whoever owns the node
    islands: Sequence[Islands]  #: (N,) of each node
    cores: FloatArray  #: (N,) that the workers on each node share; inf: each device has its own

    @cached_property
    def num_racks(self) -> int:
        """Racks, whoever owns their nodes."""
        return int(self.real_racks.max(initial=-1)) + 1

    @cached_property
    def has_islands(self) -> bool:
        """Whether the devices of a node differ in their surroundings."""
        return any(self.islands)

    @cached_property
    def shares_cores(self) -> bool:
        """Whether the workers of a node share its cores."""
        return bool(np.isfinite(self.cores).any())

    @cached_property
    def trees(self) -> Sequence[DeviceGroup]:
        """(N,) groups of each node's devices."""
        return [
            _tree(0, width, islands)
            for width, islands in zip(self.widths.tolist(), self.islands, strict=True)
        ]

    @cached_property
    def island_levels(self) -> Sequence[IslandLevel]:
        """Levels within nodes, from the smallest islands to whole nodes."""
        depth = max(map(len, self.islands), default=0)
        whole = [((width,),) if width else ((),) for width in self.widths.tolist()]
        # A node with fewer levels repeats its last one.
        padded = [
            (*first, *own, *[(*first, *own)[-1]] * (depth - len(own)))
            for first, own in zip(whole, self.islands, strict=True)
        ]
        return [_island_level([levels[place] for levels in padded]) for place in range(depth, -1, -1)]

    @cached_property
    def place_of(self) -> Mapping[str, int]:
        """Device id -> its place among the devices of all nodes."""
        return {device: place for place, device in enumerate(chain.from_iterable(self.devices))}

    @cached_property
    def is_any(self) -> BoolArray:
        """(N,) every node."""
        return np.ones(len(self.widths), dtype=bool)

    @cached_property
    def is_owned(self) -> BoolArray:
        """(N,) nodes that are never reclaimed."""
        return np.arange(len(self.widths)) < self.num_owned

    def widths_of(self, is_one: BoolArray) -> NodeWidths:
        """Widths of these nodes (N,)."""
        return self._all_widths if is_one is self.is_any else NodeWidths.of(self.widths[is_one])

    @cached_property
    def _all_widths(self) -> NodeWidths:
        return NodeWidths.of(self.widths)

    @cached_property
    def node_of(self) -> Mapping[str, int]:
        """Device id -> number of its node."""
        numbers = chain.from_iterable(map(repeat, range(len(self.devices)), self.widths.tolist()))
        return dict(zip(chain.from_iterable(self.devices), numbers, strict=True))


def topology_of(cluster: Cluster) -> Topology:
    nodes = cluster.in_order
    devices = list(map(attrgetter("devices"), nodes))
    lengths = [len(list(group)) for _, group in groupby(nodes, key=GROUP)]
    numbers: dict[str, int] = {}
    real_racks = [numbers.setdefault(node.rack, len(numbers)) for node in nodes]
    return Topology(
        names=[node.name for node in nodes],
        devices=devices,
        widths=np.fromiter(map(len, devices), np.int64, len(devices)),
        racks=np.repeat(np.arange(len(lengths)), lengths),
        num_owned=len(nodes) - len(cluster.borrowed),
        real_racks=np.array(real_racks, dtype=np.int64),
        islands=[node.islands for node in nodes],
        cores=np.array([math.inf if node.cores is None else node.cores for node in nodes]),
    )


def _tree(begin: int, end: int, islands: Islands) -> DeviceGroup:
    """The group of these places; `islands`: levels of the whole node that are within it."""
    if not islands:
        return DeviceGroup(begin, end)
    borders = [0, *accumulate(islands[0])]
    within = [(low, high) for low, high in pairwise(borders) if begin <= low and high <= end]
    if len(within) == 1:
        return _tree(begin, end, islands[1:])
    return DeviceGroup(begin, end, tuple(_tree(low, high, islands[1:]) for low, high in within))


def _island_level(sizes: Sequence[Sequence[int]]) -> IslandLevel:
    """`sizes`: (N,) of the islands of each node."""
    counts = np.fromiter(map(len, sizes), np.int64, len(sizes))
    widths = np.fromiter(chain.from_iterable(sizes), np.int64)
    return IslandLevel(np.repeat(np.arange(len(widths)), widths), np.repeat(np.arange(len(sizes)), counts))


def spread_by_group(counts: IntArray, groups: IntArray, num: int) -> IntArray:
    """(N,) as `spread`, from as few groups as possible, and within each from as few of these as possible."""
    if not len(groups) or (groups == groups[0]).all():
        return spread(counts, num)
    amounts = np.zeros_like(counts)
    of_groups = spread(np.bincount(groups, counts).astype(np.int64), num)
    for group in np.flatnonzero(of_groups).tolist():
        is_in = groups == group
        amounts[is_in] = spread(counts[is_in], int(of_groups[group]))
    return amounts


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
