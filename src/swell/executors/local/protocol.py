"""What the daemon and its agent say to each other: JSON, one message a line, over loopback TCP.

The daemon begins with `Attach` and `BindDevices`; the agent answers with `Inventory`, if need be after
`Gathering`, and then tells every event that is not yet acknowledged. Both sides number what must not get
lost, and say it again on a new line.
"""

from __future__ import annotations

import msgspec

from swell.executors.controller.protocol import (
    Acknowledge,
    AgentMessage,
    EventTold,
    Gathering,
    Inventory,
    Perform,
    Performed,
)
from swell.executors.gang.job_context import DeviceBinding
from swell.wire.messages import Hello

#: Raised when a daemon and an agent of two versions would not understand each other.
PROTOCOL = 8


# ---------------------------------------------------------------- daemon -> agent
class Attach(AgentMessage, frozen=True, kw_only=True):
    """First message of a daemon on a new connection."""

    token: str
    session: str  #: of the daemon's executor; its numbers of commands begin with 1


class BindDevices(AgentMessage, frozen=True, kw_only=True):
    """What device ids stand for. A line of its own: the first one has to be short."""

    bindings: dict[str, DeviceBinding]


class RemoveHost(AgentMessage, frozen=True, kw_only=True):
    """Have this host, which has joined, end its workers and leave. No effect if it is not there."""

    name: str


class DevicesWanted(AgentMessage, frozen=True, kw_only=True):
    """Open jobs could use so many devices together. Said when that changes, and on each new line."""

    num: int


ToAgent = Attach | BindDevices | Perform | Acknowledge | RemoveHost | DevicesWanted
FirstLine = Attach | Hello


# ---------------------------------------------------------------- agent -> daemon
FromAgent = Gathering | Inventory | EventTold | Performed


class AgentAddress(msgspec.Struct, frozen=True, kw_only=True):
    """`agent.json`: where the agent listens, and what opens it. Only its owner can read it."""

    port: int
    pid: int
    token: str
    boot_id: str
    hosts: str = ""  #: address at which hosts join; empty: none can
    fixed: tuple[str, ...] = ()  #: see `AgentOptions.fixed`
