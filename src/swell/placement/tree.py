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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.compiled import suited
from swell.model.cluster import Cluster, Node

NONE: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Tree:
    """Devices have positions, in the cluster's order; subtrees have numbers, the root's is 0.

    A subtree is the devices from `starts[number]` to `stops[number]`. The last number stands for what is
    above the root: it is there so that each leaf can have an equally long line of ancestors.
    """

    devices: Sequence[str]  #: by position
    starts: IntArray  #: (N + 1,)
    stops: IntArray  #: (N + 1,)
    parents: IntArray  #: (N + 1,) N for the root and for itself
    lineages: IntArray  #: (D, M) of each device: its block of one, that one's parent, up to the root; then N
    blocks: Mapping[int, IntArray]  #: size -> numbers of its blocks, in order of position
    homes: IntArray  #: numbers of all that is no block, innermost first
    _blocks_in: dict[tuple[int, int], IntArray] = field(default_factory=dict)  #: as far as it was asked for
    _is_flat: dict[tuple[int, int], bool] = field(default_factory=dict)  #: likewise

    @cached_property
    def positions(self) -> Mapping[str, int]:
        return {device: position for position, device in enumerate(self.devices)}

    @cached_property
    def is_block(self) -> BoolArray:
        """(N + 1,)"""
        is_block = np.ones(len(self.starts), dtype=bool)
        is_block[[*self.homes, -1]] = False
        return is_block

    @cached_property
    def block_at(self) -> Mapping[int, IntArray]:
        """Size -> (D,) number of the block of that size in which each device is; N where it is in none."""
        at = {size: np.full(len(self.devices), len(self.starts) - 1) for size in self.blocks}
        for size, blocks in self.blocks.items():
            for block in blocks.tolist():
                at[size][self.starts[block] : self.stops[block]] = block
        return at

    def blocks_in(self, home: int, size: int) -> IntArray:
        """Blocks of this size below a home, in order of position."""
        known = self._blocks_in.get((home, size))
        if known is None:
            blocks = self.blocks.get(size, NONE)
            is_in = (self.starts[blocks] >= self.starts[home]) & (self.stops[blocks] <= self.stops[home])
            known = self._blocks_in[home, size] = blocks[is_in]
        return known

    def is_flat(self, home: int, size: int) -> bool:
        """Whether no two blocks of the home have anything around them in common but the home."""
        known = self._is_flat.get((home, size))
        if known is None:
            parents = self.parents[self.blocks_in(home, size)]
            is_near = (parents == home) | (self.parents[parents] == home)
            known = bool(is_near.all()) and len(np.unique(parents)) in (1, len(parents))
            self._is_flat[home, size] = known
        return known

    @cached_property
    def depths(self) -> IntArray:
        """(N + 1,) 0 is the whole cluster."""
        depths = np.zeros_like(self.parents)
        for number, parent in enumerate(self.parents[1:-1].tolist(), start=1):
            depths[number] = depths[parent] + 1
        return depths

    @cached_property
    def largest_block(self) -> int:
        """Devices of the largest block; 0 in an empty cluster."""
        return max(self.blocks, default=0)

    def count(self, num_at: IntArray, positions: IntArray, more: int) -> None:
        """Add `more` to `num_at` (N + 1,) at every point above each of the positions."""
        suited(_count, len(positions))(num_at, self.lineages, positions, more)

    def num_below(self, positions: IntArray) -> IntArray:
        """(N + 1,) how many of the positions are below each point."""
        num_at = np.zeros(len(self.starts), dtype=np.int64)
        self.count(num_at, positions, 1)
        return num_at

    def span(self, number: int) -> range:
        """Positions of a subtree's devices."""
        return range(int(self.starts[number]), int(self.stops[number]))


def _count(num_at: IntArray, lineages: IntArray, positions: IntArray, more: int) -> None:
    for position in positions:
        for point in lineages[position]:
            num_at[point] += more


def tree_of(cluster: Cluster) -> Tree:
    growth = _Growth()
    root = growth.add_home(-1, 0, cluster.num_devices)
    start = 0
    for rack in sorted({node.rack for node in cluster.nodes}):
        nodes = [node for node in cluster.nodes if node.rack == rack]
        rack_tree = growth.add_home(root, start, start + sum(len(node.devices) for node in nodes))
        for node in nodes:
            growth.add_node(rack_tree, start, node)
            start += len(node.devices)
    return growth.tree(tuple(cluster.devices()))


@dataclass
class _Growth:
    """A tree that is being made."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)
    blocks: dict[int, list[int]] = field(default_factory=dict)
    homes: list[tuple[int, int, int]] = field(default_factory=list)  #: (-depth, start, number)

    def add_home(self, parent: int, start: int, stop: int) -> int:
        number = self._add(parent, start, stop)
        self.homes.append((-len(self._lineage(number)), start, number))
        return number

    def add_node(self, rack: int, start: int, node: Node) -> None:
        stop, per_switch = start + len(node.devices), len(node.devices) // node.num_switches
        node_tree = self.add_home(rack, start, stop)
        if per_switch & (per_switch - 1) == 0:
            self._add_blocks(node_tree, start, stop)
            return
        for switch_start in range(start, stop, per_switch):
            switch = self.add_home(node_tree, switch_start, switch_start + per_switch)
            self._add_blocks(switch, switch_start, switch_start + per_switch)

    def _add_blocks(self, home: int, start: int, stop: int) -> None:
        for size in powers_of_two(stop - start):
            self._add_block(home, start, size)
            start += size

    def _add_block(self, parent: int, start: int, size: int) -> None:
        block = self._add(parent, start, start + size)
        self.blocks.setdefault(size, []).append(block)
        if size == 1:
            self.leaves.append(block)
            return
        self._add_block(block, start, size // 2)
        self._add_block(block, start + size // 2, size // 2)

    def _add(self, parent: int, start: int, stop: int) -> int:
        self.spans.append((start, stop))
        self.parents.append(parent)
        return len(self.parents) - 1

    def _lineage(self, number: int) -> list[int]:
        lineage = []
        while number >= 0:
            lineage.append(number)
            number = self.parents[number]
        return lineage

    def tree(self, devices: Sequence[str]) -> Tree:
        above = len(self.parents)
        lineages = [self._lineage(leaf) for leaf in self.leaves]
        longest = max(map(len, lineages), default=0)
        spans = np.array([*self.spans, (0, 0)], dtype=np.int64)
        return Tree(
            devices=devices,
            starts=spans[:, 0],
            stops=spans[:, 1],
            parents=np.array([above, *self.parents[1:], above], dtype=np.int64),
            lineages=np.array(
                [lineage + [above] * (longest - len(lineage)) for lineage in lineages], dtype=np.int64
            ).reshape(len(lineages), longest),
            blocks={size: np.array(numbers) for size, numbers in self.blocks.items()},
            homes=np.array([number for _, _, number in sorted(self.homes)], dtype=np.int64),
        )


@cache
def powers_of_two(number: int) -> Sequence[int]:
    """The powers of two that sum up to `number`, largest first."""
    return tuple(1 << bit for bit in reversed(range(number.bit_length())) if number >> bit & 1)
