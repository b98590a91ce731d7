"""The hosts of a platform: the line to each, and which devices are whose."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field

from swell.executors.gang.host_messages import (
    DevicesOffered,
    HostLeaving,
    OpenRun,
    RunOpened,
    RunRefused,
    ToHost,
)
from swell.executors.gang.job_context import DeviceBinding
from swell.model.command import GangCommand
from swell.model.event import AnyEvent, HostRuledOut, NodeJoined, NodeLost, NodeWarned, Outcome
from swell.model.failure import MAX_CHARS
from swell.model.node import Node

log = logging.getLogger("swell.hosts")
#: A host that leaves later than this need not say so yet.
LONGEST_NOTICE_S = 366 * 86400.0
NOTHING_OFFERED = DevicesOffered(devices={}, num_cores=1)


@dataclass(slots=True)
class _Host:
    """What is known of one host."""

    tell: Callable[[ToHost], None]
    is_reached: Callable[[], bool]
    offered: DevicesOffered = NOTHING_OFFERED  #: that it said last
    devices: tuple[str, ...] = ()  #: of these, those that are to be had
    nodes: tuple[Node, ...] = ()
    away: set[str] = field(default_factory=set)  #: names of nodes that it had and may have again


class KnownHosts:
    """Hosts that have joined and were not lost since."""

    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}
        self._unreached_s: dict[str, float] = {}  #: since when, of hosts without a line
        self.bindings: dict[str, DeviceBinding] = {}  #: what each device id stands for, or last stood for
        self.host_of: dict[str, str] = {}  #: the host of each device that is offered

    def __contains__(self, name: str) -> bool:
        return name in self._hosts

    @property
    def names(self) -> list[str]:
        """Names of the hosts, in alphabetical order."""
        return sorted(self._hosts)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Those that hosts have named, which are there now."""
        return tuple(node for host in self._hosts.values() for node in host.nodes)

    @property
    def away(self) -> tuple[str, ...]:
        """Names of nodes that hosts have had and may have again."""
        return tuple(sorted(name for host in self._hosts.values() for name in host.away))

    # ------------------------------------------------------------ come and go
    def join(self, name: str, tell: Callable[[ToHost], None], is_reached: Callable[[], bool]) -> None:
        """Add a host, which is sent orders from now on.

        Args:
            tell: acts on a message, or sends it. It never waits and never raises; answers come later, or
                before it returns.
            is_reached: whether it has a line now. What it is told without one waits.
        """
        host = self._hosts.setdefault(name, _Host(tell, is_reached))
        host.tell, host.is_reached = tell, is_reached

    def offered(self, name: str) -> DevicesOffered:
        """What this host has offered last."""
        return self._hosts[name].offered

    def offer(
        self, name: str, offered: DevicesOffered, why: str = "its host offers it no longer"
    ) -> list[NodeJoined | NodeLost]:
        """What this host has, all of it. What is another host's already is not taken.

        Args:
            why: a node is gone that it has no more, though workers may be there.

        Returns:
            What the scheduler is to hear of the nodes that the host names.
        """
        host = self._hosts[name]
        own = {d: b for d, b in offered.devices.items() if self.host_of.get(d, name) == name}
        for device in sorted(offered.devices.keys() - own):
            log.error("device %s of host %s is host %s's: not used", device, name, self.host_of[device])
        self._forget_devices(host)
        self.bindings.update(own)
        self.host_of.update(dict.fromkeys(own, name))
        host.offered, host.devices = offered, tuple(own)
        others = {node.name for other in self._hosts.values() if other is not host for node in other.nodes}
        nodes = [n for n in offered.nodes if n.name not in others and own.keys() >= set(n.devices)]
        before, host.nodes = {node.name: node for node in host.nodes}, tuple(nodes)
        here = {node.name for node in self.nodes}
        gone = before.keys() - here
        host.away = (host.away | gone) - here
        return [
            *(NodeLost(at_s=0.0, name=name, cause=why, is_host_kept=True) for name in sorted(gone)),
            *(NodeJoined(at_s=0.0, node=node) for node in nodes if before.get(node.name) != node),
        ]

    def warn(self, name: str, leaving: HostLeaving, now_s: float) -> list[NodeWarned]:
        """What the scheduler is to hear of the nodes of a host that is about to go."""
        until_s = now_s + min(max(0.0, leaving.within_s), LONGEST_NOTICE_S)
        why = leaving.why[:MAX_CHARS]
        nodes = self._hosts[name].nodes
        return [NodeWarned(at_s=0.0, name=node.name, until_s=until_s, why=why) for node in nodes]

    def unreached(self, now_s: float, for_s: float) -> set[str]:
        """Hosts that have had no line for so long. To be asked from time to time."""
        names = [name for name, host in self._hosts.items() if not host.is_reached()]
        self._unreached_s = {name: self._unreached_s.get(name, now_s) for name in names}
        return {name for name, since_s in self._unreached_s.items() if now_s - since_s >= for_s}

    def lose(self, name: str, why: str) -> list[NodeLost] | None:
        """What the scheduler is to hear of its nodes; None if there is no such host.

        So it is of nodes that were away: the head has kept what it was told of them.
        """
        if (host := self._hosts.pop(name, None)) is None:
            return None
        self._forget_devices(host)
        here = {node.name for node in self.nodes}
        gone = host.away.union(node.name for node in host.nodes) - here
        return [NodeLost(at_s=0.0, name=node, cause=why) for node in sorted(gone)]

    def _forget_devices(self, host: _Host) -> None:
        """They are no longer offered; workers that are on them stay."""
        for device in host.devices:
            del self.host_of[device]
        host.devices = ()

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
        return {self.host_of[device] for device in devices}

    def machine(self, name: str, busy: Iterable[str], avoid: Collection[str]) -> Machine:
        """Its devices, some to `avoid`. `busy`: a device of any host for each process that is on it."""
        host = self._hosts.get(name)
        bindings = {device: self.bindings[device] for device in (host.devices if host else ())}
        in_use = Counter(device for device in busy if device in bindings)
        return Machine(bindings, in_use, host.offered.num_cores if host else 1, avoid)

    def num_of(self, kind: str, avoid: Container[str] = ()) -> dict[str, int]:
        """Devices of a kind, some left out, by host that has any: those with the most first."""
        nums = Counter(
            host
            for device, host in self.host_of.items()
            if self.bindings[device].kind == kind and device not in avoid
        )
        return dict(sorted(nums.items(), key=lambda item: (-item[1], item[0])))


# ---------------------------------------------------------------- devices for trial runs
#: Of a core, that a worker on a `paced` device keeps busy at most: it waits for its pace.
PACED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Machine:
    """Its devices, and how many processes each has now, of gangs and of trial runs."""

    bindings: Mapping[str, DeviceBinding]
    in_use: Mapping[str, int]
    num_cores: int
    avoid: Collection[str] = ()  #: devices that are not to be had

    def of(self, kind: str) -> list[str]:
        """Devices of the kind that are to be had."""
        bindings = self.bindings.items()
        return [device for device, binding in bindings if binding.kind == kind and device not in self.avoid]

    def idlest(self, kind: str, num: int) -> tuple[str, ...]:
        """So many devices of the kind, those with the fewest processes first; some twice if it has fewer.

        Empty if it has none.
        """
        pool = sorted(self.of(kind), key=lambda device: self.in_use.get(device, 0))
        return tuple(pool[place % len(pool)] for place in range(num)) if pool else ()

    def is_idle(self, devices: Collection[str]) -> bool:
        """Whether these are different devices, and no process is on any of them."""
        return len(set(devices)) == len(devices) and not any(self.in_use.get(device) for device in devices)

    def has_room(self, devices: Collection[str]) -> bool:
        """Whether these are idle, and a worker on each finds what it needs of the cores."""
        needed = sum(map(self._cores, devices))
        used = sum(count * self._cores(device) for device, count in self.in_use.items())
        return self.is_idle(devices) and (not needed or used + needed <= self.num_cores)

    def _cores(self, device: str) -> float:
        """That a worker on the device keeps busy."""
        binding = self.bindings[device]
        if binding.torch_device != "cpu":
            return 0.0
        return 1.0 if binding.pace_per_s is None else PACED_SHARE


# ---------------------------------------------------------------- hosts make ready
@dataclass(slots=True)
class Opening:
    """A run for which some hosts make ready, and what they have answered so far."""

    order: OpenRun
    then: Callable[[Opening], None]  #: is called once none is awaited
    awaited: set[str]  #: hosts that have yet to answer
    commands: list[GangCommand]  #: of a gang: the one for which they make ready, and later ones, which wait
    is_called_off: bool = False  #: nothing follows but that what was opened is closed
    opened: dict[str, RunOpened] = field(default_factory=dict)  #: by host
    refusal: tuple[Outcome, str] | None = None  #: the first one

    @property
    def first_worker(self) -> int:
        """No worker had this number, or a higher one, on any of the hosts."""
        return max((opened.first_worker for opened in self.opened.values()), default=0)


class OpeningSet:
    """The hosts that make ready now, and for which run: no run twice at a time."""

    def __init__(self, hosts: KnownHosts, report: Callable[[AnyEvent], None]) -> None:
        self._hosts, self._report = hosts, report
        self.under_way: dict[str, Opening] = {}  #: by run

    def ask(
        self, order: OpenRun, hosts: Collection[str], then: Callable[[Opening], None], *commands: GangCommand
    ) -> None:
        """Have these hosts make ready."""
        opening = self.under_way[order.run] = Opening(order, then, set(hosts), list(commands))
        self._hosts.tell_all(hosts, order)
        self._go_on(opening)

    def note_answer(self, host: str, answer: RunOpened | RunRefused) -> None:
        """No effect if the host was not asked, or has answered."""
        opening = self.under_way.get(answer.run)
        if opening is None or host not in opening.awaited:
            return
        opening.awaited.discard(host)
        if isinstance(answer, RunOpened):
            opening.opened[host] = answer
        else:
            opening.refusal = opening.refusal or (answer.outcome, answer.why)
            if answer.is_lacking:  # told before what comes of it, so that the head does not choose it again
                devices = tuple(sorted(device for device, of in self._hosts.host_of.items() if of == host))
                job_id, why = opening.order.job_id, answer.why
                self._report(HostRuledOut(at_s=0.0, job_id=job_id, devices=devices, message=why))
        self._go_on(opening)

    def lose_host(self, host: str, why: str) -> None:
        """It answers nothing more, and what it has opened is gone with it."""
        for opening in list(self.under_way.values()):
            if host in opening.awaited or host in opening.opened:
                opening.awaited.discard(host)
                opening.opened.pop(host, None)
                opening.refusal = opening.refusal or (Outcome.LOST, why)
                self._go_on(opening)

    def _go_on(self, opening: Opening) -> None:
        key = opening.order.run
        if not opening.awaited and self.under_way.get(key) is opening:
            del self.under_way[key]
            opening.then(opening)
