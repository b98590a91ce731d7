"""Kinds of device: which ones a platform takes, which one a job gets that names several, or any, and how the
journal's folds hold the head of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from swell.core.sizes import job_sizes
from swell.core.state import Saved, read_saved
from swell.model.coding import decoder
from swell.model.event import EventSetAside, NodeJoined, NodeLost
from swell.model.job import JobSpec
from swell.model.names import ANY
from swell.model.node import Node
from swell.model.options import Sizes


class KindLoad(NamedTuple):
    """Devices of one kind, and how many of them are in use."""

    num_devices: int  #: of nodes that take work; 0 of a kind that was there once
    num_idle: int = 0  #: of these, without a job
    num_wanted: int = 0  #: that waiting jobs need at least

    def fits(self, num_devices: int) -> bool:
        """Whether so many devices are idle that no waiting job needs."""
        return self.num_idle - self.num_wanted >= num_devices

    @property
    def crowd(self) -> float:
        """Devices that are held or wanted, for each that there is."""
        held = self.num_devices - self.num_idle
        return (held + self.num_wanted) / max(self.num_devices, 1)


def named_kinds(kinds: tuple[str, ...], there: Sequence[str]) -> tuple[str, ...]:
    """Those of the kinds that a job names which a platform has, or has had; `any`: all that it has."""
    if ANY in kinds and ANY not in there:
        return tuple(sorted(there))
    return tuple(kind for kind in kinds if kind in there)


def smallest_gang(spec: JobSpec) -> int:
    """Devices of the job's smallest gang."""
    return spec.min_workers * spec.devices_per_worker


def choose(kinds: Sequence[str], spec: JobSpec, loads: Mapping[str, KindLoad], sizes: Sizes) -> str:
    """The first of the kinds on which the smallest gang fits now; else the one where least is wanted.

    Args:
        kinds: to choose from, at least one.
        loads: of each of them.
        sizes: that the policy gives.
    """
    allowed = {kind: job_sizes(spec, loads[kind].num_devices, sizes) for kind in kinds}
    least = {kind: int(own[0]) * spec.devices_per_worker for kind, own in allowed.items() if own.size}
    free = next((kind for kind, num_devices in least.items() if loads[kind].fits(num_devices)), None)
    return free or min(least or kinds, key=lambda kind: loads[kind].crowd)


class KindAdmission(msgspec.Struct):
    """Which kinds a platform takes: a node of another one waits aside, and counts for nothing.

    Otherwise one host of a kind of its own would make a platform of several kinds out of one, and jobs that
    name none would be refused. A part of a head's state.
    """

    is_asked: bool = False  #: in simulations nobody asks: any kind is taken
    allowed: list[str] = []  #: by the operator, or as the kinds of the platform's own devices
    aside: dict[str, Node] = {}  #: nodes by name

    def begin(self, own: tuple[str, ...]) -> None:
        """The platform is up, with devices of these kinds. Hosts tell again of their nodes."""
        self.is_asked = True
        self.allow(*own)
        self.aside.clear()

    def allow(self, *kinds: str) -> list[Node]:
        """Nodes that may be taken now."""
        self.allowed += [kind for kind in kinds if kind not in self.allowed]
        taken = [node for node in self.aside.values() if node.kind in kinds]
        for node in taken:
            del self.aside[node.name]
        return taken

    def takes(self, kind: str) -> bool:
        """Whether a kind that no node has had is taken."""
        return not self.is_asked or kind in self.allowed

    def put_aside(self, event: NodeJoined) -> NodeLost:
        """What is told of a node that is not taken."""
        node = self.aside[event.node.name] = event.node
        cause = (
            f"it waits aside: its devices are of kind {node.kind!r}, which is new here; "
            f"`swell nodes allow-kind '{node.kind}'` lets jobs have them"
        )
        return NodeLost(at_s=event.at_s, name=node.name, cause=cause)


class SavedKind(msgspec.Struct, kw_only=True):
    """A core: see `Core.save`."""

    kind: str  #: of its devices; empty: no node has told yet
    head: msgspec.Raw

    @property
    def saved(self) -> Saved:
        """The core's state, decoded. Raises msgspec.MsgspecError."""
        return read_saved(bytes(self.head))


class SavedPlatform(msgspec.Struct, kw_only=True):
    """See `PlatformCore.save`."""

    kinds: list[SavedKind]  #: one at least, the first core's first
    admission: KindAdmission = msgspec.field(default_factory=KindAdmission)
    lost_nodes: dict[str, NodeLost] = {}  #: by name, the latest last: that were lost for a cause
    set_aside: list[EventSetAside] = []  #: the latest last


#: Raises msgspec.MsgspecError.
read_platform: Callable[[bytes], SavedPlatform] = decoder(SavedPlatform).decode
