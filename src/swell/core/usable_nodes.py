"""What plans may use of a cluster: for how long, where nodes are to be left; how much, where cores are few.

Where slots share cores, a promise counts cores: how fast a job is must not depend on its neighbours. Several
may say of one node that it is to be left: the earliest of their ends holds.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model.cluster import Cluster
from swell.model.event import NodeWarned
from swell.model.node import Node
from swell.model.snapshot import NO_ENDS, NodeEndTimes


@dataclass(frozen=True, slots=True)
class UsableDevices:
    """What plans may use of a cluster."""

    cluster: Cluster
    num_devices: int
    num_borrowed: int  #: of them
    num_left_idle: int = 0  #: of the cluster beside these

    def num_of(self, node: Node) -> int:
        """Devices of a node of this cluster."""
        return node.num_whole if self.num_left_idle else len(node.devices)

    @property
    def owned_widths(self) -> tuple[int, ...]:
        """Devices of each owned node of this cluster, the widest first."""
        if not self.num_left_idle:
            return self.cluster.owned_widths
        widths = (node.num_whole for node in self.cluster.nodes if not node.is_borrowed)
        return tuple(sorted(widths, reverse=True))


def with_whole_cores(cluster: Cluster) -> UsableDevices:
    """What plans may use where promises count cores: of each node as many devices as it has cores."""
    num_devices = sum(node.num_whole for node in cluster.nodes)
    num_borrowed = sum(node.num_whole for node in cluster.nodes if node.is_borrowed)
    return UsableDevices(cluster, num_devices, num_borrowed, cluster.num_devices - num_devices)


def is_promise_at_stake(records: Iterable[JobRecord]) -> bool:
    """Whether a deadline is promised, or a promise is asked for."""
    return any(
        record.is_plannable and (record.admission.is_promised or record.is_undecided) for record in records
    )


def on_whole_cores(cluster: Cluster, kept: Container[str], held: Container[str]) -> Cluster:
    """The devices of which a placement may choose: of each node as many as it has cores.

    All that jobs are to keep are included, even if they are more. Those that jobs hold and need not keep come
    before free ones.

    Args:
        kept, held: devices.
    """
    return Cluster(tuple(_trimmed(node, kept, held) for node in cluster.nodes))


def _trimmed(node: Node, kept: Container[str], held: Container[str]) -> Node:
    if node.num_whole == len(node.devices):
        return node
    in_order = sorted(node.devices, key=lambda device: (device not in kept, device not in held))
    num_kept = sum(device in kept for device in in_order)
    return node.only(set(in_order[: max(node.num_whole, num_kept)]))


def known_ends(state: HeadState, usable: UsableDevices) -> NodeEndTimes:
    """When usable devices will be gone, as far as is known."""
    if not state.ends_s:
        return NO_ENDS
    ending = [(state.ends_s[node.name], node) for node in usable.cluster.nodes if node.name in state.ends_s]
    owned = ((end_s, usable.num_of(node)) for end_s, node in ending if not node.is_borrowed)
    return NodeEndTimes(min((end_s for end_s, _ in ending), default=math.inf), tuple(sorted(owned)))


def together(causes: Sequence[NodeWarned]) -> NodeWarned:
    """Merge the warnings about one node into one, with the earliest end and every reason."""
    ends = [cause.until_s for cause in causes if cause.until_s is not None]
    return msgspec.structs.replace(
        causes[0], until_s=min(ends, default=None), why="; ".join(cause.why for cause in causes if cause.why)
    )
