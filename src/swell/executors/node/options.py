"""What a host process is started with."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import msgspec

from swell.executors.local.agent.options import LOOPBACK
from swell.executors.local.devices import DeviceError, LocalNode, check_rack, parse_devices
from swell.executors.local.limits.limiter import CoreSharing
from swell.executors.remote.host_address import HostAddress, check_address, parse_address
from swell.executors.remote.join_tokens import NAME
from swell.model.kind import RULE, is_kind
from swell.model.share_mode import ShareMode

TOLD_TO_END = "it was told to end (SIGTERM)"


class InvalidHostName(ValueError):
    """No host can be called so; the text names the rule."""


class InvalidHostOptions(ValueError):
    """This is no command line of a host of this version; the text says why."""


class _RaisingParser(argparse.ArgumentParser):
    """The command line may be that of another process, which is no reason to end this one."""

    def error(self, message: str) -> NoReturn:
        raise InvalidHostOptions(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    state_dir: Path
    head: HostAddress
    token_file: Path
    name: str
    devices: str = "auto"
    kind: str = ""  #: of the devices; empty: what they are
    sharing: CoreSharing = field(default_factory=CoreSharing)
    advertise: str  #: address at which workers of other hosts reach those of this one
    rack: str = ""  #: in which the machine stands; empty: that of a machine that names none
    is_borrowed: bool = False
    grace_s: float = 0.0  #: from SIGTERM until it has to be gone
    sigterm_means: str = TOLD_TO_END  #: why SIGTERM is sent to it, for people
    storage: Path | None = None  #: where the platform's storage is here; None: where the head has it

    def node(self) -> LocalNode:
        """This machine, by its name among the nodes; its devices are NAME/0, NAME/1, ...

        Raises:
            DeviceError: the devices are not to be had, or are of several nodes.
        """
        found = parse_devices(self.devices, self.sharing.cores, self.rack)
        if len(found) != 1:
            raise DeviceError(
                f"devices {self.devices!r} are {len(found)} nodes; a host that joins is one: "
                "name one node, or start several hosts"
            )
        kind = self.kind or found[0].node.kind
        bindings = {
            f"{self.name}/{index}": msgspec.structs.replace(binding, kind=kind)
            for index, binding in enumerate(found[0].bindings.values())
        }
        node = msgspec.structs.replace(
            found[0].node,
            name=self.name,
            devices=tuple(bindings),
            kind=kind,
            is_borrowed=self.is_borrowed,
            address=self.advertise,
        )
        return LocalNode(node, bindings)


def check_kind(name: str) -> str:
    """The same name. Raises DeviceError."""
    if not is_kind(name):
        raise DeviceError(f"devices cannot be of kind {name!r}: a kind has {RULE}; choose one with --kind")
    return name


def address_towards(head: HostAddress) -> str:
    """Return this machine's address as the head sees it; loopback if there is no route now. Sends nothing."""
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
    """Return the default name of this host: the first part of the machine's host name.

    Raises:
        InvalidHostName: that part cannot be a name.
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


def read_options(words: Sequence[str]) -> NodeOptions:
    """Parse the command line. Raises InvalidHostOptions, InvalidAddress, InvalidHostName, DeviceError."""
    parser = _RaisingParser(prog="swell.executors.node.process", description="A host.", add_help=False)
    parser.add_argument("--state", type=Path, required=True, help="state folder of this host")
    parser.add_argument("--join", required=True, help="HEAD:PORT of the platform")
    parser.add_argument("--token-file", type=Path, required=True, help="file with a join token")
    parser.add_argument("--name", default="", help="of the node")
    parser.add_argument("--devices", default="auto", help="as in `swell up`")
    parser.add_argument("--kind", default="", help="of the devices")
    parser.add_argument("--rack", default="", help="in which the machine stands")
    parser.add_argument("--cores", type=float, default=0.0, help="that workers share; 0: all")
    parser.add_argument("--cpu-shares", default=ShareMode.WEIGHT.value, help="what a CPU share means")
    parser.add_argument("--advertise", default="", help="address for workers of other hosts")
    parser.add_argument(
        "--grace", type=float, default=0.0, help="seconds from SIGTERM until it has to be gone"
    )
    parser.add_argument("--sigterm-means", default=TOLD_TO_END, help="why SIGTERM comes, for people")
    parser.add_argument("--storage", type=Path, default=None, help="where the platform's storage is here")
    parser.add_argument("--borrowed", action="store_true", help="it may be reclaimed at any second")
    arguments = parser.parse_args(words)
    head = parse_address(arguments.join)
    try:
        mode = ShareMode(arguments.cpu_shares)
    except ValueError as error:
        raise InvalidHostOptions(
            f"--cpu-shares {arguments.cpu_shares}: choose from {', '.join(ShareMode)}"
        ) from error
    return NodeOptions(
        state_dir=arguments.state.resolve(),
        head=head,
        token_file=arguments.token_file,
        name=check_name(arguments.name) if arguments.name else default_name(),
        devices=arguments.devices,
        kind=check_kind(arguments.kind) if arguments.kind else "",
        rack=check_rack(arguments.rack) if arguments.rack else "",
        sharing=CoreSharing(arguments.cores or None, mode),
        advertise=check_address(arguments.advertise or address_towards(head)),
        is_borrowed=arguments.borrowed,
        grace_s=arguments.grace,
        sigterm_means=arguments.sigterm_means,
        storage=None if arguments.storage is None else arguments.storage.resolve(),
    )
