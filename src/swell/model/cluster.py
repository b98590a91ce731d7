"""Tree of racks, nodes and devices."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Set
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter

import msgspec
import numpy as np

from swell.arrays import IntArray
from swell.model.node import Node

#: Devices of a node and how many nodes have so many, the widest first; None: as many as need be.
Widths = tuple[tuple[int, int | None], ...]


class Cluster(msgspec.Struct, frozen=True, dict=True):
    """All nodes that are there now. Immutable: a node that comes or goes makes a new one."""

    nodes: tuple[Node, ...] = ()

    @cached_property
    def in_order(self) -> tuple[Node, ...]:
        """Owned nodes before borrowed ones, and each kind of them by rack; then as they came."""
        return tuple(sorted(self.nodes, key=GROUP))

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Every device id: those of owned nodes first, racks together, nodes together, in their order."""
        return tuple(chain.from_iterable(map(attrgetter("devices"), self.in_order)))

    @cached_property
    def borrowed(self) -> frozenset[str]:
        """Names of the nodes that may be reclaimed at any second."""
        return frozenset(node.name for node in self.nodes if node.is_borrowed)

    @property
    def num_borrowed(self) -> int:
        return len(self.borrowed_devices)

    @cached_property
    def borrowed_devices(self) -> frozenset[str]:
        """Devices that may be reclaimed at any second."""
        return frozenset(chain.from_iterable(node.devices for node in self.nodes if node.is_borrowed))

    @property
    def num_devices(self) -> int:
        return len(self.devices)

    @cached_property
    def is_crowded(self) -> bool:
        """Whether workers on all devices would have less than a core each."""
        return any(node.num_whole < len(node.devices) for node in self.nodes)

    @cached_property
    def node_of(self) -> dict[str, str]:
        """Device id -> name of its node."""
        return {device: node.name for node in self.nodes for device in node.devices}

    @cached_property
    def widths(self) -> Widths:
        """What `nodes_needed` depends on.

        More nodes of the narrowest width make no difference, so they are not counted.
        """
        counts = sorted(
            Counter(len(node.devices) for node in self.nodes if node.devices).items(), reverse=True
        )
        return tuple(
            (width, None if place == len(counts) else num) for place, (width, num) in enumerate(counts, 1)
        )

    @cached_property
    def owned_widths(self) -> tuple[int, ...]:
        """Devices of each owned node, the widest first."""
        widths = (len(node.devices) for node in self.nodes if not node.is_borrowed)
        return tuple(sorted(widths, reverse=True))

    def has_node(self, name: str) -> bool:
        return any(node.name == name for node in self.nodes)

    def with_node(self, node: Node) -> Cluster:
        """This cluster with `node` added, or replaced if one of that name is there."""
        others = self.without_node(node.name)
        if clash := set(node.devices).intersection(others.devices):
            raise ValueError(
                f"device {min(clash)!r} of node {node.name!r} is on another node; ids are unique"
            )
        there = others.in_order
        at = bisect_right(there, GROUP(node), key=GROUP)
        return _in_order((*others.nodes, node), (*there[:at], node, *there[at:]))

    def without_node(self, name: str) -> Cluster:
        place = next((place for place, node in enumerate(self.nodes) if node.name == name), None)
        if place is None:
            return self
        node, there = self.nodes[place], self.in_order
        at = bisect_left(there, GROUP(node), key=GROUP)
        while there[at] is not node:
            at += 1
        return _in_order(self.nodes[:place] + self.nodes[place + 1 :], there[:at] + there[at + 1 :])

    def without_devices(self, devices: Set[str]) -> Cluster:
        """This cluster without those devices, and without their part of the cores of their nodes."""
        return Cluster(tuple(node for node in map(partial(_without, devices), self.nodes) if node.devices))


def _without(devices: Set[str], node: Node) -> Node:
    if devices.isdisjoint(node.devices):
        return node
    left = node.only(set(node.devices).difference(devices))
    cores = None if node.cores is None else node.cores * len(left.devices) / len(node.devices)
    return msgspec.structs.replace(left, cores=cores)


def nodes_needed(widths: Widths, num_devices: IntArray) -> IntArray:
    """The fewest nodes that have so many devices (any shape), all of them idle: the widest first.

    Of more devices than there are it counts as many nodes of the narrowest width as that takes.
    """
    left, nodes = num_devices, np.zeros_like(num_devices)
    for width, num in widths:
        taken = -(-left // width) if num is None else np.minimum(-(-left // width), num)
        left, nodes = np.maximum(left - taken * width, 0), nodes + taken
    return nodes


#: Nodes of one group are neighbours: owned ones first, by rack.
GROUP: Callable[[Node], tuple[bool, str]] = attrgetter("is_borrowed", "rack")


def _in_order(nodes: tuple[Node, ...], ordered: tuple[Node, ...]) -> Cluster:
    """A cluster whose nodes need no sorting again."""
    cluster = Cluster(nodes)
    vars(cluster)["in_order"] = ordered
    return cluster
