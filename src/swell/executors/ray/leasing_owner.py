"""Between the door for hosts and the controller: a worker is started once Ray has leased its devices.

The controller sees hosts whose number of devices changes (`reported_nodes`). It asks for a worker as ever;
the order waits until each device of the worker is leased (`held_orders`), and a device that no worker needs
any more is given back at once.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from swell.executors.exit_status import NOT_LEASED
from swell.executors.gang.records import read_record
from swell.executors.hosts.messages import (
    DevicesOffered,
    FromHost,
    NodeHost,
    RunKept,
    SignalWorker,
    StartWorker,
    ToHost,
    WorkerExited,
)
from swell.executors.ray.device_leases import DeviceLeases
from swell.executors.ray.held_orders import HeldOrders
from swell.executors.ray.messages import (
    AcquireDevice,
    Connected,
    DeviceAcquired,
    DeviceReturned,
    DeviceTaken,
    HostEnded,
    NodesRead,
    RayNode,
    ReturnDevice,
    ToBridge,
)
from swell.executors.ray.reported_nodes import ReportedEnds, ReportedNode
from swell.executors.remote.host_door import HostsOwner
from swell.model.event import AnyEvent

#: Of nodes nothing is known any more after so long without a word of Ray.
SILENT_S = 5.0

#: Why a worker was not started.
UNANSWERED_ORDER = "Ray does not answer, so no device can be leased"

log = logging.getLogger("swell.ray")


class LeasesOwner(HostsOwner, Protocol):
    """The controller; see `Controller`."""

    def report(self, event: AnyEvent) -> None: ...


@dataclass(slots=True)
class _Host:
    """A host that the controller has."""

    name: str
    far: NodeHost
    leases: DeviceLeases
    orders: HeldOrders
    told: ReportedNode = field(default_factory=ReportedNode)
    node_id: str = ""  #: of Ray; empty: not seen yet


class LeasingOwner:
    """See `HostsOwner`. Every method is called in the agent's event loop, and returns at once."""

    def __init__(
        self,
        owner: LeasesOwner,
        order: Callable[[ToBridge], None],
        lose_dead: Callable[[str], None],
        is_by_ray: Callable[[str], bool],
    ) -> None:
        """
        Args:
            order: says something to the bridge.
            lose_dead: Ray takes the node of this host for dead, or does not have it.
            is_by_ray: whether Ray has started this host. Another one has its devices without leases.
        """
        self._owner, self._order, self._lose_dead = owner, order, lose_dead
        self._is_by_ray = is_by_ray
        self._others: set[str] = set()  #: hosts of machines that are not Ray's
        self._hosts: dict[str, _Host] = {}
        self._leases: dict[str, DeviceLeases] = {}  #: by node
        self._nodes: dict[str, RayNode] = {}
        self._read_s: float | None = None  #: None: nothing is known
        self._is_silent = False  #: Ray has not answered for long
        self._ends = ReportedEnds()

    # ------------------------------------------------------------ the door
    def await_hosts(self, names: Collection[str]) -> None:
        self._owner.await_hosts(names)

    def join_host(self, name: str, host: NodeHost, machine: str) -> None:
        self._ends.joined(name)
        if not self._is_by_ray(name):
            self._others.add(name)
            self._owner.join_host(name, host, machine)
            return
        leases = self._leases_of(name)
        orders = HeldOrders(host, leases, partial(self._owner.hear, name), partial(self._send_orders, name))
        mine = self._hosts[name] = _Host(name, host, leases, orders)
        self._owner.join_host(name, _LeasedHost(self, mine), machine)

    def lose_host(self, name: str, why: str) -> None:
        self._owner.lose_host(name, why)
        self._others.discard(name)
        host = self._hosts.pop(name, None)
        if host is not None:
            host.leases.drop_all()
            self._send_orders(name)

    def hear(self, host: str, message: FromHost) -> None:
        mine = self._hosts.get(host)
        if mine is None:
            self._owner.hear(host, message)
            return
        match message:
            case RunKept():
                self._adopt(mine, message)
                self._owner.hear(host, message)
            case DevicesOffered():
                mine.told.offered = message
                for node in message.nodes:
                    mine.leases.name(node.devices)
                self._offer(mine)
                self._send_orders(host)
            case WorkerExited(run=run, worker=worker):
                self._owner.hear(host, message)
                mine.leases.drop((run, worker))
                self._send_orders(host)
                if self._is_silent:  # it cannot be leased again
                    self._offer(mine)
            case _:
                self._owner.hear(host, message)

    def _adopt(self, host: _Host, kept: RunKept) -> None:
        """Workers that an earlier controller has started."""
        members = {} if kept.record is None else read_record(kept.record.gang).slots_by_worker
        for worker in kept.workers:
            if worker.exit is None:  # one of a trial run is not on record: it may be on any
                devices = members.get(worker.number, tuple(host.leases.held))
                host.leases.want((kept.order.run, worker.number), devices)

    # ------------------------------------------------------------ the controller
    def tell(self, host: _Host, message: ToHost) -> None:
        """What the controller says to a host."""
        host.orders.tell(message)
        if isinstance(message, StartWorker) and self._is_silent:
            self._call_off_all(host)

    def _call_off_all(self, host: _Host) -> None:
        """Ray is silent. The pool is smaller before the controller hears of it."""
        self._offer(host)
        for holder in list(host.orders.waiting):
            host.orders.call_off(holder, NOT_LEASED, UNANSWERED_ORDER)

    # ------------------------------------------------------------ Ray
    def connected(self, message: Connected) -> None:
        """Handle the first message of a new bridge, which has the devices that are leased."""
        by_node: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in self._leases}
        for device, gpus in message.held.items():
            by_node.setdefault(device.rpartition("/")[0], {})[device] = gpus
        for name, held in by_node.items():
            if name in self._leases:
                self._leases[name].recall(held)
                self._send_orders(name)
            else:
                self._leases[name] = self._new_leases(held)
            if (host := self._hosts.get(name)) is not None:
                host.orders.start_leased(list(host.orders.waiting))

    def acquired(self, message: DeviceAcquired) -> None:
        holders = self._leases_of(message.node).acquired(message.device, message.gpus)
        if (host := self._hosts.get(message.node)) is not None:
            host.orders.start_leased(holders)

    def taken(self, message: DeviceTaken) -> None:
        """The pool is smaller before the controller hears that the worker is not there."""
        losers = self._leases_of(message.node).taken(message.device)
        self._send_orders(message.node)
        host = self._hosts.get(message.node)
        if host is None:
            return
        # Before the controller hears of it, and kills some that wait.
        running = losers.difference(host.orders.waiting)
        self._offer(host)
        why = f"another user of Ray has taken device {message.device}"
        for run, worker in sorted(running):  # it was leased once, and Ray has forgotten that
            log.warning("worker %s of %s is ended: %s", worker, run, why)
            host.far.tell(SignalWorker(run=run, worker=worker, signal=signal.SIGKILL))
        for holder in sorted(losers - running):
            host.orders.call_off(holder, NOT_LEASED, why)

    def returned(self, message: DeviceReturned) -> None:
        self._leases_of(message.node).returned(message.device)
        self._send_orders(message.node)

    def read(self, message: NodesRead) -> None:
        if self._read_s is None:
            log.info("Ray has %d nodes with devices", len(message.nodes))
        self._read_s, self._is_silent = time.monotonic(), False
        self._nodes = {node.name: node for node in message.nodes}
        for node in message.nodes:
            if node.num_free is not None:
                self._leases_of(node.name).read(node.num_free)
        for host in list(self._hosts.values()):
            seen = self._nodes.get(host.name)
            if seen is None or host.node_id not in ("", seen.id):
                self._lose_dead(host.name)
            else:
                host.node_id = seen.id
                self._offer(host)
                for event in host.told.drains(seen):
                    self._owner.report(event)
        self._forget_gone()

    def _forget_gone(self) -> None:
        """What is known of nodes that Ray has no longer, and that owe it nothing."""
        for name in self._leases.keys() - self._nodes.keys() - self._hosts.keys():
            if self._leases[name].is_idle:
                del self._leases[name]
        self._ends.keep(self._nodes)

    def node_ids(self, host: str) -> list[str]:
        """Return the id of the Ray node on which this host is now, in a list; empty: it is on none."""
        return [self._nodes[host].id] if host in self._hosts and host in self._nodes else []

    def host_ended(self, message: HostEnded) -> None:
        """What becomes of its workers, the door hears from the host, or by the end of its lease."""
        why = (
            f"ended: {message.why}; it is started again"
            if message.why
            else "has left; `swell up` brings it back"
        )
        log.warning("the host of Ray's node %s %s", message.node, why)
        if message.node in self._hosts.keys() | self._others:
            return
        if (lost := self._ends.note(message, why)) is not None:
            self._owner.report(lost)

    def tick(self) -> None:
        """Time has passed. To be called ten times a second."""
        if self._read_s is None or time.monotonic() < self._read_s + SILENT_S:
            return
        log.warning("Ray has not answered for %g s: no device is leased until it does", SILENT_S)
        self._read_s, self._is_silent = None, True
        for leases in self._leases.values():
            leases.silent()
        for host in list(self._hosts.values()):
            self._call_off_all(host)

    # ------------------------------------------------------------ inside
    def _leases_of(self, name: str) -> DeviceLeases:
        if name not in self._leases:
            self._leases[name] = self._new_leases({})
        return self._leases[name]

    def _new_leases(self, held: Mapping[str, tuple[str, ...]]) -> DeviceLeases:
        leases = DeviceLeases(held)
        if self._is_silent:
            leases.silent()
        return leases

    def _send_orders(self, name: str) -> None:
        for order in self._leases[name].take_orders():
            kind = ReturnDevice if order.is_return else AcquireDevice
            self._order(kind(node=name, device=order.device))

    def _offer(self, host: _Host) -> None:
        """Tell the controller which devices the host has, if that is news."""
        seen = self._nodes.get(host.name)
        offered = host.told.offer(host.leases.pool, seen, is_answering=bool(self._read_s))
        if offered is not None:
            self._owner.hear(host.name, offered)


class _LeasedHost:
    """See `NodeHost`."""

    def __init__(self, owner: LeasingOwner, host: _Host) -> None:
        self._owner, self._host = owner, host

    @property
    def is_reached(self) -> bool:
        return self._host.far.is_reached

    def tell(self, message: ToHost) -> None:
        self._owner.tell(self._host, message)
