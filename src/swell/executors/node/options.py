"""The options of a host: those of `swell node`, and what its process is started with."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swell.executors.local.agent.options import LOOPBACK
from swell.executors.local.devices import DeviceError, LocalNode, check_rack, parse_devices
from swell.executors.local.processes.listing import list_processes
from swell.executors.local.processes.strays import HOST_MODULE, is_agent
from swell.executors.node.machine_options import MACHINE_OPTIONS, MachineOptions, absolute_path
from swell.executors.remote.host_address import HostAddress, check_address, parse_address
from swell.model.errors import InvalidOption
from swell.model.names import KIND_RULE, is_kind, why_no_host_name
from swell.model.node import SLICES
from swell.model.option import told_options
from swell.model.quantities import parse_duration

HOST_OPTIONS = MACHINE_OPTIONS | told_options(
    """
join: HEAD[:PORT]
    Address of the platform, as `swell up --listen` printed it.
token_file: FILE
    File with a join token of the platform, mode 0600.
name: NAME
    Name of this node; no two nodes have the same. Default: host name.
kind: KIND
    What the devices are called that jobs ask for with --kind. Devices of one kind must be alike: a job may be
    on any of them. Default: what they are, such as cpu or cuda:NVIDIA H200.
storage: FOLDER
    Where the storage of the platform is on this machine. Default: where the head has it.
is_borrowed (--borrowed):
    This machine may be reclaimed at any second.
grace_s (--grace): TIME
    Time from SIGTERM until this machine is gone, such as 30s: workers move away meanwhile. A second SIGTERM,
    and Ctrl-C, end it at once. Default: 0s, they are killed at once.
""",
    storage=absolute_path,
    grace_s=parse_duration,
)


class NodeOptions(MachineOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a host process is started with. A field with a meaning is an option of `swell node`."""

    join: str = ""
    token_file: str = ""
    name: str = ""
    kind: str = ""
    storage: str = ""
    is_borrowed: bool = False
    grace_s: float = 0.0
    sigterm_means: str = ""  #: why SIGTERM is sent to it, for people; empty: it was told to end

    @property
    def head(self) -> HostAddress:
        """Raises InvalidOption."""
        return parse_address(self.join)

    def command(self, state_dir: Path) -> list[str]:
        """Return the command line of a host process with this state folder; `read_options` reads it."""
        text = msgspec.json.encode(self).decode()
        return [sys.executable, "-P", "-m", HOST_MODULE, str(state_dir.resolve()), text]

    def completed(self) -> NodeOptions:
        """Return the same options with a name and an address.

        Raises:
            InvalidOption: one cannot be.
        """
        if self.kind and not is_kind(self.kind):
            raise DeviceError(
                f"devices cannot be of kind {self.kind!r}: a kind has {KIND_RULE}; choose one with --kind"
            )
        if self.rack:
            check_rack(self.rack)
        name = self.name or socket.gethostname().partition(".")[0]
        if why := why_no_host_name(name):
            raise InvalidOption(why)
        advertise = check_address(self.advertise or address_towards(self.head))
        return msgspec.structs.replace(self, name=name, advertise=advertise)

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
        if not found[0].node.can_sum and SLICES not in kind:
            raise DeviceError(
                f"--kind {kind!r}: these devices are MIG instances; keep {SLICES.strip()!r} in it, as a word"
            )
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


def read_options(words: Sequence[str]) -> tuple[Path, NodeOptions]:
    """Return state folder and options that stand behind the module in the command line of a host process.

    Raises:
        InvalidOption: they are of no host of this version, or see `NodeOptions.completed`.
    """
    try:
        state_dir, text = words
        options = msgspec.json.decode(text, type=NodeOptions)
    except ValueError as error:
        raise InvalidOption(f"{error}; a host process is started by `swell node`") from error
    return Path(state_dir).resolve(), options.completed()


def find_host(state_dir: Path) -> int | None:
    """Pid of the host process of a state folder, as another process of the user sees it; None: none runs."""
    state_dir = state_dir.resolve()
    return next((found.pid for found in list_processes() if is_agent(found.pid, state_dir)), None)


def options_of(pid: int) -> NodeOptions:
    """What a host process was started with.

    Raises:
        OSError: it is gone, or another user's.
        ValueError: this version knows no such options.
    """
    words = list(map(os.fsdecode, Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]))
    if HOST_MODULE not in words:
        raise InvalidOption("`swell node` has not started it")
    return read_options(words[words.index(HOST_MODULE) + 1 :])[1]


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
