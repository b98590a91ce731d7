"""The hosts of a platform: the line to each, and which devices are whose."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from itertools import chain

import msgspec

from swell.executors.controller.trial_devices import Machine
from swell.executors.gang.job_context import DeviceBinding
from swell.executors.hosts.messages import DevicesOffered, HostLeaving, NodeHost, ToHost
from swell.model.event import NodeJoined, NodeLost, NodeWarned
from swell.model.node import Node

log = logging.getLogger("swell.hosts")


class KnownHosts:
    """Hosts that have joined and were not lost since."""

    def __init__(self) -> None:
        self._hosts: dict[str, NodeHost] = {}
        self._bindings: dict[str, DeviceBinding] = {}
        self._host_of: dict[str, str] = {}
        self._devices: dict[str, tuple[str, ...]] = {}  #: by host, those that are offered
        self._num_cores: dict[str, int] = {}
        self._nodes: dict[str, tuple[Node, ...]] = {}  #: by host
        self._offered: dict[str, DevicesOffered] = {}  #: by host, what it said last
        self._away: dict[str, set[str]] = {}  #: by host, names of nodes that it had and may have again
        self._leaving: dict[str, NodeWarned] = {}  #: by host, for the nodes it will have
        self._unreached_s: dict[str, float] = {}  #: host -> since when it has no line

    def __contains__(self, name: str) -> bool:
        return name in self._hosts

    @property
    def names(self) -> list[str]:
        """Names of the hosts, in alphabetical order."""
        return sorted(self._hosts)

    @property
    def bindings(self) -> Mapping[str, DeviceBinding]:
        """What each device id stands for, or last stood for; kept up to date."""
        return self._bindings

    @property
    def host_of(self) -> Mapping[str, str]:
        """The host of each device that is offered; kept up to date."""
        return self._host_of

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Those that hosts have named, which are there now."""
        return tuple(chain.from_iterable(self._nodes.values()))

    # ------------------------------------------------------------ come and go
    def join(self, name: str, host: NodeHost) -> None:
        """Add a host, which is sent orders from now on."""
        self._hosts[name] = host

    def offer(self, name: str, offered: DevicesOffered) -> list[NodeJoined | NodeLost | NodeWarned]:
        """What this host has, all of it. What is another host's already is not taken.

        Returns:
            What the scheduler is to hear of the nodes that the host names.
        """
        self._offered[name] = offered
        own = {d: b for d, b in offered.devices.items() if self._host_of.get(d, name) == name}
        for device in sorted(offered.devices.keys() - own):
            log.error("device %s of host %s is host %s's: not used", device, name, self._host_of[device])
        self._forget_devices(name, but=own)
        self._bindings.update(own)
        self._host_of.update(dict.fromkeys(own, name))
        self._devices[name] = tuple(own)
        self._num_cores[name] = offered.num_cores
        others = {node.name for host, nodes in self._nodes.items() if host != name for node in nodes}
        nodes = [n for n in offered.nodes if n.name not in others and own.keys() >= set(n.devices)]
        why = "its host offers it no longer"
        changes = self._change_nodes(name, tuple(nodes), why, is_host_kept=True)
        warning = self._leaving.pop(name, None) if nodes else None
        return [*changes, *(_of_nodes(warning, nodes) if warning else ())]

    def warn(self, name: str, leaving: HostLeaving, now_s: float) -> list[NodeWarned]:
        """What the scheduler is to hear of the nodes of a host that is about to go; of one that has none, it
        hears with the next offer.
        """
        warning = NodeWarned(at_s=0.0, name=name, until_s=now_s + leaving.within_s, why=leaving.why)
        nodes = self._nodes.get(name, ())
        if not nodes:
            self._leaving[name] = warning
        return _of_nodes(warning, nodes)

    def withdraw(self, name: str, why: str) -> tuple[DevicesOffered, list[NodeJoined | NodeLost]]:
        """Its devices are not to be had until it offers them again, though workers may be on them.

        Returns:
            What it had offered, and what the scheduler is to hear of its nodes.
        """
        self._forget_devices(name)
        return self._offered[name], self._change_nodes(name, (), why, is_host_kept=True)

    def unreached(self, now_s: float, for_s: float) -> set[str]:
        """Hosts that have had no line for so long. To be asked from time to time."""
        self._unreached_s = {
            name: self._unreached_s.get(name, now_s)
            for name, host in self._hosts.items()
            if not host.is_reached
        }
        return {name for name, since_s in self._unreached_s.items() if now_s - since_s >= for_s}

    def lose(self, name: str, why: str) -> list[NodeJoined | NodeLost] | None:
        """What the scheduler is to hear of its nodes; None if there is no such host."""
        if self._hosts.pop(name, None) is None:
            return None
        self._num_cores.pop(name, None)
        self._offered.pop(name, None)
        self._leaving.pop(name, None)
        self._forget_devices(name)
        events = self._change_nodes(name, (), why, is_host_kept=False)
        del self._nodes[name]
        return events

    def _change_nodes(
        self, host: str, nodes: tuple[Node, ...], why: str, *, is_host_kept: bool
    ) -> list[NodeJoined | NodeLost]:
        """`why`: those are gone that it has no longer."""
        before = {node.name: node for node in self._nodes.get(host, ())}
        self._nodes[host] = nodes
        here = {node.name for of_host in self._nodes.values() for node in of_host}
        gone = before.keys() - here
        away = (self._away.pop(host, set()) | gone) - here
        if is_host_kept:
            self._away[host] = away
        news = [node for node in nodes if before.get(node.name) != node]
        lost = gone if is_host_kept else away  # the head still keeps what it was told of those
        return [
            *(NodeLost(at_s=0.0, name=name, cause=why, is_host_kept=is_host_kept) for name in sorted(lost)),
            *(NodeJoined(at_s=0.0, node=node) for node in news),
        ]

    def _forget_devices(self, name: str, but: Container[str] = ()) -> None:
        """They are no longer offered; workers that are on them stay."""
        for device in self._devices.pop(name, ()):
            if device not in but:
                del self._host_of[device]

    # ------------------------------------------------------------ what they are asked
    def tell(self, name: str, message: ToHost) -> None:
        """Nothing is lost with a host that is gone: its end was told, or will be."""
        if (host := self._hosts.get(name)) is not None:
            host.tell(message)

    def tell_all(self, names: Iterable[str], message: ToHost) -> None:
        """Send the message to each of these hosts, in alphabetical order."""
        for name in sorted(names):
            self.tell(name, message)

    def of(self, devices: Iterable[str]) -> set[str]:
        """The hosts of these devices, each of which is offered."""
        return {self._host_of[device] for device in devices}

    def machine(self, name: str, busy: Iterable[str]) -> Machine:
        """Its devices. `busy`: a device of any host for each process that is on it."""
        bindings = {device: self._bindings[device] for device in self._devices.get(name, ())}
        in_use = Counter(device for device in busy if device in bindings)
        return Machine(bindings, in_use, self._num_cores.get(name, 1))

    def num_of(self, kind: str, avoid: Container[str] = ()) -> dict[str, int]:
        """Devices of a kind, some left out, by host that has any: those with the most first."""
        nums = Counter(
            host
            for device, host in self._host_of.items()
            if self._bindings[device].kind == kind and device not in avoid
        )
        return dict(sorted(nums.items(), key=lambda item: (-item[1], item[0])))


def _of_nodes(warning: NodeWarned, nodes: Iterable[Node]) -> list[NodeWarned]:
    return [msgspec.structs.replace(warning, name=node.name) for node in nodes]
