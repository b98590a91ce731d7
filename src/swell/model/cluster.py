"""Tree of racks, nodes, switches and devices."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A machine. Its devices hang in equal numbers, in order, from its switches (or sockets)."""

    name: str
    devices: tuple[str, ...]  #: ids, unique in the cluster, neighbours next to each other
    kind: str  #: `cpu`, `cuda:NVIDIA H200`, `paced@200`: curves are measured per kind
    rack: str = "rack0"
    num_switches: int = 1
    is_borrowed: bool = False  #: may be reclaimed at any second

    def __post_init__(self) -> None:
        if self.num_switches < 1 or len(self.devices) % self.num_switches:
            raise ValueError(
                f"node {self.name!r} has {len(self.devices)} devices on {self.num_switches} switches; "
                "switches carry equal numbers of devices: change one of the two"
            )


class Cluster(msgspec.Struct, frozen=True):
    """All nodes that are there now. Immutable: a node that comes or goes makes a new one."""

    nodes: tuple[Node, ...] = ()

    def devices(self) -> Iterator[str]:
        """Every device id: those of owned nodes first, racks together, nodes together, in their order."""
        for node in self.in_order():
            yield from node.devices

    def in_order(self) -> list[Node]:
        """Owned nodes before borrowed ones, and each kind of them by rack."""
        return sorted(self.nodes, key=lambda node: (node.is_borrowed, node.rack))

    @property
    def num_borrowed(self) -> int:
        """Devices that may be reclaimed at any second."""
        return sum(len(node.devices) for node in self.nodes if node.is_borrowed)

    @property
    def num_devices(self) -> int:
        return sum(len(node.devices) for node in self.nodes)

    def kinds_beside(self, node: Node) -> set[str]:
        """Kinds of the other nodes that are not this one's."""
        return {other.kind for other in self.nodes if other.name != node.name} - {node.kind}

    def with_node(self, node: Node) -> Cluster:
        """This cluster with `node` added, or replaced if one of that name is there."""
        others = self.without_node(node.name).nodes
        taken = {device for other in others for device in other.devices}
        if clash := taken.intersection(node.devices):
            raise ValueError(
                f"device {min(clash)!r} of node {node.name!r} is on another node; ids are unique"
            )
        return Cluster((*others, node))

    def without_node(self, name: str) -> Cluster:
        return Cluster(tuple(node for node in self.nodes if node.name != name))
