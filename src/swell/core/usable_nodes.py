"""What plans may use of a cluster: for how long, as far as is known; how much, where cores are few.

Where slots share cores, a promise counts cores: how fast a job is must not depend on its neighbours. Several
may say of one node that it is to be left: the earliest of their ends holds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec
import numpy as np

from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model.calendar import CalendarEntry
from swell.model.cluster import Cluster
from swell.model.event import NodeWarned
from swell.model.node import Node
from swell.model.snapshot import NO_CHANGES, DeviceCalendar
from swell.placement.windows import NodeWindows


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


def calendar_of(state: HeadState, usable: UsableDevices) -> DeviceCalendar:
    """When usable devices go or come back, as far as is known."""
    if state.entries:
        return _calendar_by_node(state, usable)
    if not state.ends_s:
        return NO_CHANGES
    ending = [(state.ends_s[node.name], node) for node in usable.cluster.nodes if node.name in state.ends_s]
    owned = ((end_s, -usable.num_of(node)) for end_s, node in ending if not node.is_borrowed)
    return DeviceCalendar(min((end_s for end_s, _ in ending), default=math.inf), tuple(sorted(owned)))


def _calendar_by_node(state: HeadState, usable: UsableDevices) -> DeviceCalendar:
    windows = node_windows(state)
    nodes = [node for node in state.cluster.nodes if node.name not in state.warned]
    if usable.num_left_idle:  # jobs have as large a part of the cores as of the devices
        num_devices = np.array([[max(len(node.devices), 1)] for node in nodes])
        windows.free = windows.free * [[node.num_whole] for node in nodes] // num_devices
    ends_s = (at_s for at_s, change in windows.changes(windows.names) if change < 0)
    owned = [node.name for node in nodes if not node.is_borrowed]
    return DeviceCalendar(next(ends_s, math.inf), tuple(windows.changes(owned)))


def node_windows(
    state: HeadState, more: Iterable[CalendarEntry] = (), without: Collection[str] = ()
) -> NodeWindows:
    """What fixed jobs and bookings leave of each node of the cluster, and for how long it is there.

    Args:
        more: entries that the calendar does not have.
        without: jobs, and bookings, that do not count.
    """
    nodes = [node for node in state.cluster.nodes if node.name not in state.warned]
    widths, taken = {node.name: len(node.devices) for node in nodes}, []
    for entry in chain(more, *state.entries.values()):
        record = state.records.get(entry.owner)
        if entry.owner not in without and not (record and record.booking):  # the booking counts
            taken.append((entry.node, entry.num_devices, entry.from_s, entry.until_s))
    ends = [(name, num, state.ends_s[name], math.inf) for name, num in widths.items() if name in state.ends_s]
    return NodeWindows(state.now_s, widths, taken + ends)


def together(causes: Sequence[NodeWarned]) -> NodeWarned:
    """Merge the warnings about one node into one, with the earliest end and every reason."""
    ends = [cause.until_s for cause in causes if cause.until_s is not None]
    return msgspec.structs.replace(
        causes[0],
        until_s=min(ends, default=None),
        why="; ".join(cause.why for cause in causes if cause.why),
        is_ill=any(cause.is_ill for cause in causes),
    )
