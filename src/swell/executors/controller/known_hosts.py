"""The hosts of a platform: the line to each, and which devices are whose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping

from swell.executors.controller.trial_devices import Machine
from swell.executors.gang.job_context import DeviceBinding
from swell.executors.hosts.messages import DevicesOffered, NodeHost, ToHost


class KnownHosts:
    """Hosts that have joined and were not lost since."""

    def __init__(self) -> None:
        self._hosts: dict[str, NodeHost] = {}
        self._bindings: dict[str, DeviceBinding] = {}
        self._host_of: dict[str, str] = {}
        self._num_cores: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._hosts

    @property
    def names(self) -> list[str]:
        """In alphabetical order."""
        return sorted(self._hosts)

    @property
    def bindings(self) -> Mapping[str, DeviceBinding]:
        """What each device id stands for, or last stood for; kept up to date."""
        return self._bindings

    @property
    def host_of(self) -> Mapping[str, str]:
        """The host of each device that is offered; kept up to date."""
        return self._host_of

    # ------------------------------------------------------------ come and go
    def join(self, name: str, host: NodeHost) -> None:
        """From now on it is told what to do."""
        self._hosts[name] = host

    def offer(self, name: str, offered: DevicesOffered) -> None:
        """What this host has, all of it."""
        self._forget_devices(name, but=offered.devices)
        self._bindings.update(offered.devices)
        self._host_of.update(dict.fromkeys(offered.devices, name))
        self._num_cores[name] = offered.num_cores

    def lose(self, name: str) -> bool:
        """Whether there was such a host."""
        if self._hosts.pop(name, None) is None:
            return False
        self._num_cores.pop(name, None)
        self._forget_devices(name)
        return True

    def _forget_devices(self, name: str, but: Container[str] = ()) -> None:
        """They are no longer offered; workers that are on them stay."""
        for device in [device for device, of in self._host_of.items() if of == name and device not in but]:
            del self._host_of[device]

    # ------------------------------------------------------------ what they are asked
    def tell(self, name: str, message: ToHost) -> None:
        """Nothing is lost with a host that is gone: its end was told, or will be."""
        if (host := self._hosts.get(name)) is not None:
            host.tell(message)

    def of(self, devices: Iterable[str]) -> set[str]:
        """The hosts of these devices, each of which is offered."""
        return {self._host_of[device] for device in devices}

    def machine(self, name: str, busy: Iterable[str]) -> Machine:
        """Its devices. `busy`: a device of any host for each process that is on it."""
        bindings = {device: self._bindings[device] for device, of in self._host_of.items() if of == name}
        in_use = Counter(device for device in busy if device in bindings)
        return Machine(bindings, in_use, self._num_cores.get(name, 1))

    def with_most(self, kind: str) -> str:
        """The host with the most devices of a kind; empty if there is none."""
        nums = Counter(host for device, host in self._host_of.items() if self._bindings[device].kind == kind)
        return min(nums, key=lambda name: (-nums[name], name), default="")
