"""What a host process is started with."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from swell.executors.local.agent.options import LOOPBACK
from swell.executors.local.agent.process import DEFAULT_CALL
from swell.executors.local.devices import DeviceError, LocalNode, parse_devices
from swell.executors.local.limits.limiter import CoreSharing
from swell.executors.remote.host_address import HostAddress
from swell.executors.remote.join_token import NAME


class InvalidHostName(ValueError):
    """No host can be called so; the text names the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    state_dir: Path
    head: HostAddress
    token_file: Path
    name: str
    devices: str = "auto"
    sharing: CoreSharing = field(default_factory=CoreSharing)
    advertise: str  #: address at which workers of other hosts reach those of this one
    is_borrowed: bool = False
    grace_s: float = 0.0  #: from SIGTERM until it has to be gone
    preload: tuple[str, ...] = ()  #: in place of the platform's; none: as the platform has it
    call: str = DEFAULT_CALL

    def node(self) -> LocalNode:
        """This machine, by its name among the nodes; its devices are NAME/0, NAME/1, ...

        Raises:
            DeviceError: the devices are not to be had, or are of several nodes.
        """
        found = parse_devices(self.devices, self.sharing.cores)
        if len(found) != 1:
            raise DeviceError(
                f"devices {self.devices!r} are {len(found)} nodes; a host that joins is one: "
                "name one node, or start several hosts"
            )
        bindings = {
            f"{self.name}/{index}": binding for index, binding in enumerate(found[0].bindings.values())
        }
        node = msgspec.structs.replace(
            found[0].node,
            name=self.name,
            devices=tuple(bindings),
            is_borrowed=self.is_borrowed,
            address=self.advertise,
        )
        return LocalNode(node, bindings)


def address_towards(head: HostAddress) -> str:
    """Of this machine, as the head sees it: nothing is sent. Loopback if there is no way to the head now."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(head.host, head.port, type=socket.SOCK_DGRAM)[
            0
        ]
        with socket.socket(family, kind, protocol) as line:
            line.connect(address)
            own: str = line.getsockname()[0]
    except OSError:
        return LOOPBACK
    return own


def default_name() -> str:
    """Of this machine: the first part of its host name.

    Raises:
        InvalidHostName: it cannot be one.
    """
    return check_name(socket.gethostname().partition(".")[0])


def check_name(name: str) -> str:
    """The same name. Raises InvalidHostName."""
    if not NAME.fullmatch(name):
        raise InvalidHostName(
            f"a host cannot be called {name!r}; a name has 1 to 40 letters, digits, `-` and `_`: "
            "choose one with --name"
        )
    return name
