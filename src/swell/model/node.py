"""A machine with devices. Hosts, which are to start soon, import it without the numpy of `cluster`."""

from __future__ import annotations

import math
from collections.abc import Container
from itertools import compress

import msgspec

from swell.model.islands import Islands, remaining

#: Of machines for which none was named.
DEFAULT_RACK = "rack0"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A machine. Its devices are alike."""

    name: str
    devices: tuple[str, ...]  #: ids, unique in the cluster
    kind: str  #: `cpu`, `cuda:NVIDIA H200`, `paced@200`: curves are measured per kind
    rack: str = DEFAULT_RACK
    is_borrowed: bool = False  #: may be reclaimed at any second
    cores: float | None = None  #: that the workers on its devices share; None: each device has its own
    address: str = ""  #: from which its host joined, for people; empty: not known, or the platform's machine
    lacks: tuple[str, ...] = ()  #: what its host cannot do, and what is odd about it, for people
    islands: Islands = ()  #: groups of its devices that are joined by faster links; none: all are alike

    @property
    def num_whole(self) -> int:
        """Devices in use at which each worker still has a core of its own; one at least."""
        num = len(self.devices)
        return num if self.cores is None else min(num, max(1, math.floor(self.cores)))

    def only(self, kept: Container[str]) -> Node:
        """This node with those of its devices alone."""
        is_kept = [device in kept for device in self.devices]
        devices = tuple(compress(self.devices, is_kept))
        islands = remaining(self.islands, is_kept) if self.islands else ()
        return msgspec.structs.replace(self, devices=devices, islands=islands)
