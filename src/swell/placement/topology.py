"""A cluster in columns: nodes by number, with their racks and widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby, repeat
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.model.cluster import GROUP, Cluster


class NodeWidths(NamedTuple):
    """Numbers of devices of some nodes."""

    each: IntArray
    num_devices: int  #: of all
    widest: int

    @classmethod
    def of(cls, widths: IntArray) -> NodeWidths:
        return cls(widths, int(widths.sum()), int(widths.max(initial=0)))


@dataclass(frozen=True)
class Topology:
    """Nodes are numbered in the cluster's order: owned ones first, the nodes of a rack together."""

    names: Sequence[str]  #: (N,)
    devices: Sequence[tuple[str, ...]]  #: (N,) of each node
    widths: IntArray  #: (N,) devices of each node
    racks: IntArray  #: (N,) number of each node's rack; owned and borrowed nodes share none
    num_owned: int  #: nodes

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
    return Topology(
        names=[node.name for node in nodes],
        devices=devices,
        widths=np.fromiter(map(len, devices), np.int64, len(devices)),
        racks=np.repeat(np.arange(len(lengths)), lengths),
        num_owned=len(nodes) - len(cluster.borrowed),
    )


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
