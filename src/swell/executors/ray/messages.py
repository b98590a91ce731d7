"""What an agent and its bridge to Ray say to each other: JSON, one message a line, on its input and output.

The bridge begins with `Connected`, or ends after `Unconnected`. From then on `NodesRead` comes at least every
second, as long as Ray answers.
"""

from __future__ import annotations

import msgspec


class RayMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    pass


# ---------------------------------------------------------------- agent -> bridge
class StartHosts(RayMessage, frozen=True, kw_only=True):
    """Keep a host on each node from now on. Sent again when a host is removed."""

    join: str  #: HEAD:PORT
    token: str  #: text of a join token
    removed: tuple[str, ...] = ()  #: ids of nodes that get none, because theirs was told to leave


class AcquireDevice(RayMessage, frozen=True, kw_only=True):
    """Lease a unit on this node. Answered by `DeviceAcquired` or `DeviceTaken`."""

    node: str
    device: str


class ReturnDevice(RayMessage, frozen=True, kw_only=True):
    """Give it back to Ray, also if it is still being acquired. Answered by `DeviceReturned`."""

    node: str
    device: str


class ReturnAll(RayMessage, frozen=True, kw_only=True):
    """End all hosts, give all devices back, and end. The end of the output says that all is done."""


ToBridge = StartHosts | AcquireDevice | ReturnDevice | ReturnAll


# ---------------------------------------------------------------- bridge -> agent
class Unconnected(RayMessage, frozen=True, kw_only=True):
    """There is no Ray to talk to; the text names the remedy."""

    why: str


class Connected(RayMessage, frozen=True, kw_only=True):
    """First message. It may come from a bridge that was started again."""

    address: str  #: of this machine, as Ray knows it
    held: dict[str, tuple[str, ...]]  #: devices that are leased, with the GPUs of each


class RayNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is alive in Ray and has a device at least."""

    name: str
    id: str  #: another node of this name has another one
    num_devices: int
    num_free: int | None  #: that no one has leased; None: not settled, because a lease has just changed
    rack: str = ""
    leaves_s: float | None = None  #: it is being drained, and is gone in so many seconds
    is_leaving: bool = False


class NodesRead(RayMessage, frozen=True, kw_only=True):
    """All nodes there are."""

    nodes: tuple[RayNode, ...]


class DeviceAcquired(RayMessage, frozen=True, kw_only=True):
    """It is leased until it is given back."""

    node: str
    device: str
    gpus: tuple[str, ...] = ()  #: which ones it is, as CUDA_VISIBLE_DEVICES names them; none: it is no GPU


class DeviceTaken(RayMessage, frozen=True, kw_only=True):
    """Another user of Ray has it."""

    node: str
    device: str


class DeviceReturned(RayMessage, frozen=True, kw_only=True):
    """Others may have it."""

    node: str
    device: str


class HostEnded(RayMessage, frozen=True, kw_only=True):
    """The host of a node ended; unless it was told to, it is started again."""

    node: str
    why: str


FromBridge = Unconnected | Connected | NodesRead | DeviceAcquired | DeviceTaken | DeviceReturned | HostEnded
