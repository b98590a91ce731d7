"""The cluster as a tree: racks, nodes, switches, and aligned blocks of a power of two devices.

```
cluster          rack0                     rack1
nodes        n0        n1                  n2
blocks    [0 .. 8)  [8 .. 16)     [16 .. 20) [20 .. 22)     a node of six: a block of four, one of two
halves   [0..4)[4..8)  ...
devices   0 1 2 3 4 5 6 7  ...
```

A node whose switches carry no power of two devices is divided along its switches first, so that no
block reaches over one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from swell.model.cluster import Cluster, Node


@dataclass(eq=False, slots=True)
class Subtree:
    """Devices `start` to `stop` of the cluster's order, all below one point of the tree."""

    start: int
    stop: int
    lineage: tuple[int, ...]  #: numbers of itself, its parent, and so on up to the root

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def span(self) -> range:
        """Positions of its devices."""
        return range(self.start, self.stop)

    @property
    def number(self) -> int:
        """Counts the subtrees of a tree from 0, which is the root."""
        return self.lineage[0]

    @property
    def depth(self) -> int:
        """0 is the whole cluster."""
        return len(self.lineage) - 1


@dataclass(eq=False, slots=True)
class Tree:
    """Positions are indices into `devices`, numbers of subtrees into `sizes`."""

    devices: list[str] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)  #: devices of each subtree
    leaves: list[Subtree] = field(default_factory=list)  #: blocks of one, by position
    blocks: dict[int, list[Subtree]] = field(default_factory=dict)  #: by size, in order of position
    homes: list[Subtree] = field(default_factory=list)  #: all that is no block, innermost first

    @property
    def largest_block(self) -> int:
        """Devices of the largest block; 0 in an empty cluster."""
        return max(self.blocks, default=0)


def tree_of(cluster: Cluster) -> Tree:
    devices = list(cluster.devices())
    tree = Tree(devices, {device: position for position, device in enumerate(devices)})
    root = _grow(tree, None, 0, len(devices))
    start = 0
    for rack in sorted({node.rack for node in cluster.nodes}):
        nodes = [node for node in cluster.nodes if node.rack == rack]
        rack_tree = _grow(tree, root, start, start + sum(len(node.devices) for node in nodes))
        for node in nodes:
            _grow_node(tree, rack_tree, start, node)
            start += len(node.devices)
    tree.homes.sort(key=lambda home: (-home.depth, home.start))
    return tree


def _grow(tree: Tree, parent: Subtree | None, start: int, stop: int) -> Subtree:
    home = _add(tree, parent, start, stop)
    tree.homes.append(home)
    return home


def _add(tree: Tree, parent: Subtree | None, start: int, stop: int) -> Subtree:
    lineage = (len(tree.sizes), *(parent.lineage if parent is not None else ()))
    tree.sizes.append(stop - start)
    return Subtree(start, stop, lineage)


def _grow_node(tree: Tree, rack: Subtree, start: int, node: Node) -> None:
    stop, per_switch = start + len(node.devices), len(node.devices) // node.num_switches
    node_tree = _grow(tree, rack, start, stop)
    if per_switch & (per_switch - 1) == 0:
        _grow_blocks(tree, node_tree)
        return
    for switch_start in range(start, stop, per_switch):
        _grow_blocks(tree, _grow(tree, node_tree, switch_start, switch_start + per_switch))


def _grow_blocks(tree: Tree, home: Subtree) -> None:
    start = home.start
    for size in powers_of_two(home.size):
        _grow_block(tree, home, start, size)
        start += size


def _grow_block(tree: Tree, parent: Subtree, start: int, size: int) -> None:
    block = _add(tree, parent, start, start + size)
    tree.blocks.setdefault(size, []).append(block)
    if size == 1:
        tree.leaves.append(block)
        return
    _grow_block(tree, block, start, size // 2)
    _grow_block(tree, block, start + size // 2, size // 2)


def powers_of_two(number: int) -> Sequence[int]:
    """The powers of two that sum up to `number`, largest first."""
    return [1 << bit for bit in reversed(range(number.bit_length())) if number >> bit & 1]
