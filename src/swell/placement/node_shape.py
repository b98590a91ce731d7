"""The parts of one node: its switches, and the blocks below them, by numbers from its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from swell.arrays import BoolArray, IntArray

#: In the lineage of a shape: what is above the node.
RACK, ROOT, ABOVE = -1, -2, -3


@dataclass(frozen=True, eq=False)
class NodeShape:
    """The parts of one node, by numbers from its own, which is 0."""

    starts: IntArray  #: (P,) devices of each part, from the node's first
    stops: IntArray  #: (P,)
    parents: IntArray  #: (P,) RACK for the node itself
    depths: IntArray  #: (P,) 0 for the node itself
    is_block: BoolArray  #: (P,)
    lineages: IntArray  #: (D, M) of each device, up to ROOT; then ABOVE


@cache
def node_shape(num_devices: int, num_switches: int) -> NodeShape:
    """Shape of a node whose devices are divided equally between its switches."""
    parts = _Parts()
    parts.add_node(num_devices, num_devices // num_switches)
    return parts.shape()


@dataclass
class _Parts:
    """A node that is being divided."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    is_block: list[bool] = field(default_factory=list)
    leaves: list[int] = field(default_factory=list)

    def add_node(self, num_devices: int, per_switch: int) -> None:
        node = self._add(RACK, 0, num_devices, is_block=False)
        if per_switch & (per_switch - 1) == 0:
            self._add_blocks(node, 0, num_devices)
            return
        for start in range(0, num_devices, per_switch):
            switch = self._add(node, start, start + per_switch, is_block=False)
            self._add_blocks(switch, start, start + per_switch)

    def _add_blocks(self, home: int, start: int, stop: int) -> None:
        for size in powers_of_two(stop - start):
            self._add_block(home, start, size)
            start += size

    def _add_block(self, parent: int, start: int, size: int) -> None:
        block = self._add(parent, start, start + size, is_block=True)
        if size == 1:
            self.leaves.append(block)
            return
        self._add_block(block, start, size // 2)
        self._add_block(block, start + size // 2, size // 2)

    def _add(self, parent: int, start: int, stop: int, is_block: bool) -> int:
        self.spans.append((start, stop))
        self.parents.append(parent)
        self.is_block.append(is_block)
        return len(self.parents) - 1

    def _lineage(self, number: int) -> list[int]:
        lineage = []
        while number >= 0:
            lineage.append(number)
            number = self.parents[number]
        return lineage

    def shape(self) -> NodeShape:
        lineages = [[*self._lineage(leaf), RACK, ROOT] for leaf in self.leaves]
        longest = max(map(len, lineages), default=0)
        padded = [lineage + [ABOVE] * (longest - len(lineage)) for lineage in lineages]
        spans = np.array(self.spans, dtype=np.int64)
        return NodeShape(
            starts=spans[:, 0],
            stops=spans[:, 1],
            parents=np.array(self.parents, dtype=np.int64),
            depths=np.array([len(self._lineage(part)) - 1 for part in range(len(spans))], dtype=np.int64),
            is_block=np.array(self.is_block),
            lineages=np.array(padded, dtype=np.int64).reshape(len(padded), longest),
        )


@cache
def powers_of_two(number: int) -> Sequence[int]:
    """The powers of two that sum up to `number`, largest first."""
    return tuple(1 << bit for bit in reversed(range(number.bit_length())) if number >> bit & 1)
