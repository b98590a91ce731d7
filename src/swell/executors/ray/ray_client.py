"""The real Ray: the only module that imports it.

What is free on each node and which nodes are drained Ray 2.60 tells by no public call: `ray._private.state`
has both.
"""

from __future__ import annotations

import socket
from typing import Any

import ray
from ray._private.state import state as ray_state
from ray.actor import ActorHandle
from ray.util import get_node_ip_address, list_named_actors
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from swell import __version__
from swell.executors.ray.host_actor import HostActor
from swell.executors.ray.ray_port import HostOrder, Reservation, SeenNode

#: Of all that Swell has in a cluster.
NAMESPACE = "swell"
NODE_ID_LABEL = "ray.io/node-id"
CONNECT_S = 5.0
_STATES = {"CREATED": Reservation.MADE, "PENDING": Reservation.PENDING, "PREPARED": Reservation.PENDING}


class NoRay(RuntimeError):
    """Ray cannot be reached; the text names the remedy."""


class RayClient:
    """See `RayPort`."""

    def __init__(self, address: str) -> None:
        """Raises NoRay."""
        _check_reachable(address)
        try:
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
        except Exception as error:
            raise NoRay(_told(address, error)) from error
        self.address: str = get_node_ip_address()
        self._groups: dict[str, PlacementGroup] = {}
        self._finding: dict[str, Any] = {}  #: what finds out GPUs, by reservation
        self._hosts: dict[str, ActorHandle[Any]] = {}
        self._ends: dict[str, Any] = {}  #: what waits for the end of a host

    def nodes(self) -> list[SeenNode]:
        free, draining = ray_state.available_resources_per_node(), ray_state.get_draining_nodes()
        return [
            SeenNode(
                id=node["NodeID"],
                name=node["NodeName"],
                labels=dict(node["Labels"]),
                total=dict(node["Resources"]),
                free=dict(free.get(node["NodeID"], {})),
                is_draining=node["NodeID"] in draining,
                leaves_at_s=draining.get(node["NodeID"], 0) / 1000 or None,
            )
            for node in ray.nodes()
            if node["Alive"]
        ]

    # ------------------------------------------------------------ reservations
    def reserve(self, name: str, node_id: str, resource: str) -> None:
        self._groups[name] = placement_group(
            [{resource: 1}],
            strategy="STRICT_PACK",
            name=name,
            lifetime="detached",
            bundle_label_selector=[{NODE_ID_LABEL: node_id}],
        )

    def reservation(self, name: str) -> Reservation:
        group = self._group(name)
        if group is None:
            return Reservation.GONE
        return _STATES.get(placement_group_table(group)["state"], Reservation.GONE)

    def release(self, name: str) -> None:
        group = self._group(name)
        self._groups.pop(name, None)
        self._finding.pop(name, None)
        if group is not None:
            remove_placement_group(group)

    def reservations(self, prefix: str) -> dict[str, Reservation]:
        states = {group["name"]: group["state"] for group in placement_group_table().values()}
        return {
            name: _STATES.get(state, Reservation.PENDING)
            for name, state in states.items()
            if name.startswith(prefix) and state != "REMOVED"
        }

    def find_gpus(self, name: str) -> tuple[str, ...] | None:
        if name not in self._finding:
            strategy = PlacementGroupSchedulingStrategy(self._group(name))
            task = ray.remote(_own_gpus).options(num_cpus=0, num_gpus=1, scheduling_strategy=strategy)
            self._finding[name] = task.remote()
        if not ray.wait([self._finding[name]], timeout=0)[0]:
            return None
        return tuple(map(str, ray.get(self._finding[name])))

    def _group(self, name: str) -> PlacementGroup | None:
        if name not in self._groups:
            try:
                self._groups[name] = get_placement_group(name)
            except ValueError:  # there is none
                return None
        return self._groups[name]

    # ------------------------------------------------------------ hosts
    def start_host(self, actor: str, node_id: str, order: HostOrder) -> None:
        on_node = NodeAffinitySchedulingStrategy(node_id, soft=False)
        kind = ray.remote(HostActor).options(
            name=actor,
            get_if_exists=True,
            lifetime="detached",
            num_cpus=0,
            max_restarts=0,
            scheduling_strategy=on_node,
        )
        host = self._hosts[actor] = kind.remote(order)
        self._ends[actor] = host.wait.remote()

    def host_end(self, actor: str) -> str | None:
        end = self._ends[actor]
        if not ray.wait([end], timeout=0)[0]:
            return None
        try:
            why: str = ray.get(end)
        except ray.exceptions.RayError as error:
            return _told_of_actor(error)
        return why

    def hosts(self, prefix: str) -> list[str]:
        named = list_named_actors(all_namespaces=True)
        return [
            actor["name"]
            for actor in named
            if actor["namespace"] == NAMESPACE and actor["name"].startswith(prefix)
        ]

    def forget_host(self, actor: str) -> None:
        self._hosts.pop(actor, None)
        self._ends.pop(actor, None)

    def end_host(self, actor: str) -> None:
        host = self._hosts.pop(actor, None)
        self._ends.pop(actor, None)
        try:
            ray.kill(host or ray.get_actor(actor), no_restart=True)
        except ValueError:
            pass  # it is gone


def _check_reachable(address: str) -> None:
    """Ray itself takes half a minute to find that no program listens. Raises NoRay."""
    host, sign, port = address.rpartition(":")
    if not sign or not port.isdecimal() or "/" in host:
        return  # `auto`, or a form that Ray knows
    try:
        socket.create_connection((host, int(port)), CONNECT_S).close()
    except OSError as error:
        raise NoRay(_told(address, error)) from error


def _own_gpus() -> list[int] | list[str]:
    return list(ray.get_gpu_ids())


def _told(address: str, error: Exception) -> str:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if isinstance(error, RuntimeError) and "ersion mismatch" in str(error):
        versions = " ".join(str(error).split())
        return (
            f"Ray at {address!r} is not the Ray that Swell has here ({versions}); both must have the same "
            "versions of Ray and of Python: install those of the cluster here"
        )
    return (
        f"there is no Ray to be reached at {address!r} ({first}); it must be the address of a running "
        "cluster: start one with `ray start --head`, or name it with --address HOST:6379"
    )


def _told_of_actor(error: Exception) -> str:
    text = str(error)
    if "No module named" in text or "ModuleNotFoundError" in text:
        return (
            f"this node has no Swell {__version__}, or lacks a package of it; a node needs the same packages "
            "as the head: install `swell[ray]` and torch there"
        )
    lines = [line for line in text.splitlines() if line.strip()] or [type(error).__name__]
    if "creation task" in lines[0]:  # what `HostActor` raised comes last, behind the name of its kind
        return lines[-1].partition(": ")[2] or lines[-1]
    return lines[0]
