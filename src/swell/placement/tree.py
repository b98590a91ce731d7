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
from functools import cached_property
from itertools import groupby
from operator import attrgetter

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.compiled import suited
from swell.model.cluster import GROUP, Cluster, Node
from swell.placement.node_shape import ABOVE, RACK, ROOT, NodeShape, node_shape

NONE: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Tree:
    """Devices have positions, in the cluster's order; subtrees have numbers, the root's is 0.

    A subtree is the devices from `starts[number]` to `stops[number]`. The last number stands for what is
    above the root: it is there so that each leaf can have an equally long line of ancestors.
    """

    devices: Sequence[str]  #: by position
    num_owned: int  #: of them, the first ones; what follows is of borrowed nodes
    starts: IntArray  #: (N + 1,)
    stops: IntArray  #: (N + 1,)
    parents: IntArray  #: (N + 1,) N for the root and for itself
    lineages: IntArray  #: (D, M) of each device: its block of one, that one's parent, up to the root; then N
    blocks: Mapping[int, IntArray]  #: size -> numbers of its blocks, in order of position
    homes: IntArray  #: numbers of all that is no block, innermost first
    depths: IntArray  #: (N + 1,) 0 is the whole cluster
    is_block: BoolArray  #: (N + 1,)
    _blocks_in: dict[tuple[int, int], IntArray] = field(default_factory=dict)  #: as far as it was asked for
    _is_flat: dict[tuple[int, int], bool] = field(default_factory=dict)  #: likewise

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Device id -> position of the device in the tree."""
        return dict(zip(self.devices, range(len(self.devices)), strict=True))

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
    """Nodes of one shape are written at once: a node that comes or goes makes a new tree.

    Numbers go depth first: the root, a rack, a node of it, its parts, the next node.
    """
    nodes = cluster.in_order
    racks = np.repeat(*_racks(nodes))
    shapes, which = _shapes(nodes)
    sizes = np.array([len(shape.starts) for shape in shapes], dtype=np.int64)[which]
    widths = np.array([len(shape.lineages) for shape in shapes], dtype=np.int64)[which]
    own = 2 + racks + np.cumsum(sizes) - sizes  #: (nodes,) numbers; before each come the root and the racks
    starts = np.cumsum(widths) - widths
    growth = _Growth.of(int(sizes.sum()), shapes, racks, own, starts, widths)
    for number, shape in enumerate(shapes):
        growth.write(shape, np.flatnonzero(which == number))
    return growth.tree(cluster.devices, cluster.num_devices - cluster.num_borrowed)


def _shapes(nodes: Sequence[Node]) -> tuple[list[NodeShape], IntArray]:
    """Those that there are, and (nodes,) which of them each has."""
    widths = np.fromiter(map(len, map(attrgetter("devices"), nodes)), np.int64, len(nodes))
    switches = np.fromiter(map(attrgetter("num_switches"), nodes), np.int64, len(nodes))
    most = int(switches.max(initial=0)) + 1
    kinds, which = np.unique(widths * most + switches, return_inverse=True)
    return [node_shape(*divmod(kind, most)) for kind in kinds.tolist()], which


def _racks(nodes: Sequence[Node]) -> tuple[IntArray, IntArray]:
    """The numbers of the racks, and how many nodes each has."""
    counts = [len(list(group)) for _, group in groupby(nodes, key=GROUP)]
    return np.arange(len(counts)), np.array(counts, dtype=np.int64)


@dataclass
class _Growth:
    """A tree that is being made: its columns, and where each node's parts go."""

    own: IntArray  #: (nodes,) number of each
    rack_numbers: IntArray  #: (nodes,) of its rack
    device_starts: IntArray  #: (nodes,) position of its first device
    starts: IntArray
    stops: IntArray
    parents: IntArray
    depths: IntArray
    is_block: BoolArray
    lineages: IntArray

    @classmethod
    def of(
        cls,
        num_parts: int,
        shapes: Sequence[NodeShape],
        racks: IntArray,
        own: IntArray,
        device_starts: IntArray,
        widths: IntArray,
    ) -> _Growth:
        """Root and racks are written."""
        num_racks, num_devices = int(racks.max(initial=-1)) + 1, int(widths.sum())
        above = 1 + num_racks + num_parts
        firsts = np.searchsorted(racks, np.arange(num_racks))  # the first node of each rack
        numbers = own[firsts] - 1
        starts, stops, parents, depths = np.zeros((4, above + 1), dtype=np.int64)
        stops[0], parents[[0, above]] = num_devices, above
        starts[numbers], depths[numbers] = device_starts[firsts], 1
        stops[numbers] = np.append(device_starts[firsts[1:]], num_devices)[:num_racks]
        is_block = np.zeros(above + 1, dtype=bool)
        longest = max((shape.lineages.shape[1] for shape in shapes), default=0)
        lineages = np.full((num_devices, longest), above, dtype=np.int64)
        columns = (starts, stops, parents, depths, is_block, lineages)
        return cls(own, numbers[racks], device_starts, *columns)

    def write(self, shape: NodeShape, nodes: IntArray) -> None:
        """The parts of these nodes, which are all of that shape."""
        own, racks, first = (
            self.own[nodes, None],
            self.rack_numbers[nodes, None],
            self.device_starts[nodes, None],
        )
        at = own + np.arange(len(shape.starts))
        self.starts[at], self.stops[at] = first + shape.starts, first + shape.stops
        self.parents[at] = np.where(shape.parents == RACK, racks, own + shape.parents)
        self.depths[at], self.is_block[at] = 2 + shape.depths, shape.is_block
        num_devices, length = shape.lineages.shape
        lineages = own[:, :, None] + shape.lineages
        lineages[:, shape.lineages == RACK] = racks
        lineages[:, shape.lineages == ROOT] = 0
        lineages[:, shape.lineages == ABOVE] = len(self.starts) - 1
        self.lineages[first + np.arange(num_devices), :length] = lineages

    def tree(self, devices: Sequence[str], num_owned: int) -> Tree:
        blocks, sizes = np.flatnonzero(self.is_block), self.stops - self.starts
        homes = np.flatnonzero(~self.is_block[:-1])
        return Tree(
            devices=devices,
            num_owned=num_owned,
            starts=self.starts,
            stops=self.stops,
            parents=self.parents,
            depths=self.depths,
            is_block=np.append(self.is_block[:-1], False),
            lineages=self.lineages,
            blocks={int(size): blocks[sizes[blocks] == size] for size in np.unique(sizes[blocks])},
            homes=homes[np.lexsort((homes, self.starts[homes], -self.depths[homes]))],
        )
