"""Nodes of Ray as they are reported to controller and head: pools of devices, drains, hosts that ended."""

from __future__ import annotations

import time
from collections.abc import Collection, Container

import msgspec

from swell.executors.hosts.messages import DevicesOffered
from swell.executors.ray.messages import HostEnded, RayNode
from swell.model.event import NodeCleared, NodeLost, NodeWarned

#: Why a node has no devices, for people.
DRAINED_BY_RAY = "Ray drains it"
OTHERS = "other users of Ray have all its devices"
UNANSWERED = "Ray does not answer, so its devices cannot be leased until it does: see `ray status`"


class ReportedNode:
    """State of one host's node, as it was last reported."""

    def __init__(self) -> None:
        self.offered: DevicesOffered | None = None  #: as the host said itself
        self._told: DevicesOffered | None = None  #: as the controller was told
        self._is_warned = False

    def offer(self, pool: Collection[str], seen: RayNode | None, is_answering: bool) -> DevicesOffered | None:
        """Which devices it has now, if that is news. `seen`: as Ray has read it; None: not yet."""
        if self.offered is None:
            return None
        offered = _restricted(self.offered, pool, seen)
        if not offered.nodes:
            offered = msgspec.structs.replace(offered, why_none=OTHERS if is_answering else UNANSWERED)
        if offered == self._told:
            return None
        self._told = offered
        return offered

    def drains(self, node: RayNode) -> list[NodeWarned | NodeCleared]:
        """That Ray drains it, or does no longer, if that is news."""
        if self._told is None or not self._told.nodes or node.is_leaving == self._is_warned:
            return []
        self._is_warned = node.is_leaving
        now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        names = [told.name for told in self._told.nodes]
        if not node.is_leaving:
            return [NodeCleared(at_s=now_s, name=name, why=DRAINED_BY_RAY) for name in names]
        until_s = None if node.leaves_s is None else now_s + node.leaves_s
        return [NodeWarned(at_s=now_s, name=name, until_s=until_s, why=DRAINED_BY_RAY) for name in names]


class ReportedEnds:
    """Why hosts have ended, as last reported, by node. A host that joins clears its node."""

    def __init__(self) -> None:
        self._whys: dict[str, str] = {}  #: by node

    def joined(self, node: str) -> None:
        self._whys.pop(node, None)

    def keep(self, nodes: Container[str]) -> None:
        """Forget the ends on all nodes but these."""
        self._whys = {name: why for name, why in self._whys.items() if name in nodes}

    def note(self, ended: HostEnded, why: str) -> NodeLost | None:
        """What the head is to hear, once of each cause. One that was told to end says nothing."""
        if self._whys.get(ended.node) == ended.why:
            return None
        self._whys[ended.node] = ended.why
        if not ended.why:
            return None
        now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        return NodeLost(at_s=now_s, name=ended.node, cause=f"its host {why}")


def _restricted(offered: DevicesOffered, pool: Collection[str], seen: RayNode | None) -> DevicesOffered:
    """What a host has, without the devices that other users of Ray have."""
    rack = {} if seen is None or not seen.rack else {"rack": seen.rack}
    nodes = tuple(msgspec.structs.replace(node.only(pool), **rack) for node in offered.nodes)
    devices = {device: binding for device, binding in offered.devices.items() if device in pool}
    return msgspec.structs.replace(offered, devices=devices, nodes=tuple(n for n in nodes if n.devices))
