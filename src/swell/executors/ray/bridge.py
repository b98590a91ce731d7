"""What the bridge does: hosts on all nodes, leases of devices, and what is read of the nodes.

A lease is a reservation of one unit on one node, with a name that says whose it is: reservations and hosts
outlive the bridge, and the next one finds them.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from swell.executors.ray.messages import (
    AcquireDevice,
    Connected,
    DeviceAcquired,
    DeviceReturned,
    DeviceTaken,
    FromBridge,
    HostEnded,
    NodesRead,
    RayNode,
    ReturnDevice,
    StartHosts,
)
from swell.executors.ray.node_names import NodeNames
from swell.executors.ray.options import AUTO, RayOptions
from swell.executors.ray.ray_port import HostOrder, RayPort, Reservation, SeenNode

#: Ray tries again to reserve what was not free after up to half a second.
TAKEN_AFTER_S = 1.5
#: What nodes tell of free resources may be older than our own last change of them.
SETTLED_AFTER_S = 0.5
READ_EVERY_S = 1.0
#: Between two starts of a host that ends by itself.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0
#: What ends after so long is a new fault.
STEADY_S = 60.0
GPU = "GPU"
#: Label that says what the devices of a node are called that jobs ask for.
KIND_LABEL = "kind"
#: Labels that say which nodes are near each other, the first that a node has.
RACK_LABELS = ("rack", "ray.io/availability-zone")
MARKET_LABEL, SPOT = "ray.io/market-type", "spot"

log = logging.getLogger("swell.ray")


@dataclass(slots=True)
class _Acquiring:
    node: str
    device: str
    since_s: float


@dataclass(slots=True)
class _Host:
    node_id: str
    pause_s: float = FIRST_PAUSE_S
    start_s: float = 0.0  #: not before
    started_s: float = 0.0
    is_started: bool = False


class Bridge:
    """One for a platform. `now_s` of all methods: by a clock that never goes back."""

    def __init__(
        self,
        port: RayPort,
        platform: str,
        options: RayOptions,
        say: Callable[[FromBridge], None],
        calendar_s: Callable[[], float],
    ) -> None:
        """`platform`: no other one has the same; `calendar_s`: seconds since 1970."""
        self._port, self._options, self._say, self._calendar_s = port, options, say, calendar_s
        self._leases_prefix, self._hosts_prefix = f"swell:{platform}:", f"swell-host:{platform}:"
        self._platform = platform
        self._resource = options.resource
        self._names = NodeNames()
        self._ids: dict[str, str] = {}  #: of nodes that are alive, by name
        self._order: StartHosts | None = None
        self._hosts: dict[str, _Host] = {}  #: by name of their node
        self._reservations: dict[str, str] = {}  #: by device
        self._acquiring: dict[str, _Acquiring] = {}  #: by reservation
        self._changed_s: dict[str, float] = {}  #: a lease of the node was
        self._read: NodesRead | None = None
        self._read_s = float("-inf")

    def connect(self) -> bool:
        """Say what is leased. To be called first, until it returns True: it may not be known at once."""
        self._choose_resource(self._port.nodes())
        held: dict[str, tuple[str, ...]] = {}
        for name, state in self._port.reservations(self._leases_prefix).items():
            device = name.removeprefix(self._leases_prefix).rpartition(":")[0]
            if state is not Reservation.MADE or self._reservations.get(device, name) != name:
                self._port.release(name)
                continue
            self._reservations[device] = name
            gpus = self._gpus_of(name)
            if gpus is None:
                return False
            held[device] = gpus
        self._say(Connected(address=self._port.address, held=held))
        return True

    def _gpus_of(self, name: str) -> tuple[str, ...] | None:
        """None: not known yet."""
        return self._port.find_gpus(name) if self._resource.name == GPU else ()

    # ------------------------------------------------------------ orders
    def start_hosts(self, order: StartHosts) -> None:
        self._order = order

    def acquire(self, order: AcquireDevice, now_s: float) -> None:
        if order.device in self._reservations:
            return  # said twice: the first one is answered
        node_id = self._ids.get(order.node)
        if node_id is None:
            self._say(DeviceTaken(node=order.node, device=order.device))
            return
        name = f"{self._leases_prefix}{order.device}:{secrets.token_hex(4)}"
        self._port.reserve(name, node_id, self._resource.name)
        self._reservations[order.device] = name
        self._acquiring[name] = _Acquiring(order.node, order.device, now_s)
        self._changed_s[order.node] = now_s
        self._look_at(name, now_s)

    def give_back(self, order: ReturnDevice, now_s: float) -> None:
        name = self._reservations.pop(order.device, None)
        if name is not None:
            self._acquiring.pop(name, None)
            self._port.release(name)
        self._changed_s[order.node] = now_s
        self._say(DeviceReturned(node=order.node, device=order.device))

    def return_all(self) -> None:
        """Nothing of this platform is left in Ray."""
        for actor in self._port.hosts(self._hosts_prefix):
            self._port.end_host(actor)
        for name in self._port.reservations(self._leases_prefix):
            self._port.release(name)

    # ------------------------------------------------------------ time
    def step(self, now_s: float) -> None:
        """Read Ray's nodes, update leases and hosts, and send the agent what is new.

        To be called ten times a second.
        """
        seen = self._port.nodes()
        self._choose_resource(seen)
        names = self._names.of(seen)
        usable = {names[node.id]: node for node in seen if self._num_devices(node)}
        self._ids = {name: node.id for name, node in usable.items()}
        for name in list(self._acquiring):
            self._look_at(name, now_s)
        self._changed_s = {name: at_s for name, at_s in self._changed_s.items() if name in usable}
        self._keep_hosts(usable, now_s)
        self._tell_nodes(usable, now_s)

    def _choose_resource(self, seen: list[SeenNode]) -> None:
        if self._resource.name == AUTO and seen:
            has_gpus = any(node.total.get(GPU, 0.0) >= 1 for node in seen)
            name = GPU if has_gpus else "CPU"
            self._resource = type(self._resource)(name=name, form=self._resource.form)
            log.info("one %s of a node is one device", name)

    def _num_devices(self, node: SeenNode) -> int:
        return int(node.total.get(self._resource.name, 0.0))

    def _look_at(self, name: str, now_s: float) -> None:
        """Whether a reservation has come, or will not come."""
        acquiring = self._acquiring[name]
        node, device = acquiring.node, acquiring.device
        state = self._port.reservation(name)
        if state is Reservation.MADE:
            gpus = self._gpus_of(name)
            if gpus is not None:
                del self._acquiring[name]
                self._changed_s[node] = now_s
                self._say(DeviceAcquired(node=node, device=device, gpus=gpus))
        elif state is Reservation.GONE or now_s >= acquiring.since_s + TAKEN_AFTER_S:
            del self._acquiring[name], self._reservations[device]
            self._port.release(name)
            self._changed_s[node] = now_s
            self._say(DeviceTaken(node=node, device=device))

    # ------------------------------------------------------------ hosts
    def _keep_hosts(self, usable: dict[str, SeenNode], now_s: float) -> None:
        if self._order is None:
            return
        for name, host in list(self._hosts.items()):
            if name not in usable or usable[name].id != host.node_id:
                del self._hosts[name]
                self._port.forget_host(self._actor(name, host.node_id))
        for name, node in usable.items():
            host = self._hosts.setdefault(name, _Host(node.id))
            may_start = not node.is_draining and node.id not in self._order.removed
            if host.is_started:
                self._look_at_host(name, host, now_s)
            elif now_s >= host.start_s and may_start:
                host.is_started, host.started_s = True, now_s
                self._port.start_host(self._actor(name, node.id), node.id, self._host_order(name, node))

    def _actor(self, name: str, node_id: str) -> str:
        return f"{self._hosts_prefix}{name}:{node_id}"

    def _host_order(self, name: str, node: SeenNode) -> HostOrder:
        assert self._order is not None  # noqa: S101 - see `_keep_hosts`
        return HostOrder(
            platform=self._platform,
            name=name,
            join=self._order.join,
            token=self._order.token,
            devices=self._resource.devices(self._num_devices(node)),
            is_borrowed=self._options.is_borrowed or _is_spot(node),
            kind=node.labels.get(KIND_LABEL, ""),
        )

    def _look_at_host(self, name: str, host: _Host, now_s: float) -> None:
        actor = self._actor(name, host.node_id)
        why = self._port.host_end(actor)
        if why is None:
            return
        self._port.end_host(actor)
        host.is_started = False
        if now_s >= host.started_s + STEADY_S:
            host.pause_s = FIRST_PAUSE_S
        host.start_s = now_s + host.pause_s if why else float("inf")
        host.pause_s = min(2 * host.pause_s, LONGEST_PAUSE_S)
        self._say(HostEnded(node=name, why=why))

    # ------------------------------------------------------------ nodes
    def _tell_nodes(self, usable: dict[str, SeenNode], now_s: float) -> None:
        nodes = tuple(self._node(name, node, now_s) for name, node in sorted(usable.items()))
        read = NodesRead(nodes=nodes)
        if read != self._read or now_s >= self._read_s + READ_EVERY_S:
            self._read, self._read_s = read, now_s
            self._say(read)

    def _node(self, name: str, node: SeenNode, now_s: float) -> RayNode:
        is_settled = now_s >= self._changed_s.get(name, float("-inf")) + SETTLED_AFTER_S
        leaves_s = None
        if node.leaves_at_s is not None:
            leaves_s = max(0.0, round(node.leaves_at_s - self._calendar_s()))
        return RayNode(
            name=name,
            id=node.id,
            num_devices=self._num_devices(node),
            num_free=int(node.free.get(self._resource.name, 0.0)) if is_settled else None,
            rack=next((node.labels[label] for label in RACK_LABELS if label in node.labels), ""),
            is_leaving=node.is_draining,
            leaves_s=leaves_s,
        )


def _is_spot(node: SeenNode) -> bool:
    return node.labels.get(MARKET_LABEL) == SPOT
