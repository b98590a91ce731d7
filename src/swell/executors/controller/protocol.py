"""What a daemon and its agent say to each other: JSON, one message a line, over loopback TCP.

The daemon begins with `Attach` and `BindDevices`; the agent answers with `Inventory`, if need be after
`Gathering`, and then tells every event that is not yet acknowledged. Both sides number what must not get
lost, and say it again on a new line.
"""

from __future__ import annotations

import msgspec

from swell.executors.gang.job_context import DeviceBinding
from swell.model.command import LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.event import AnyEvent
from swell.model.running import RunningWork
from swell.wire.messages import Hello

#: Raised when a daemon and an agent of two versions would not understand each other.
PROTOCOL = 9

ExecutorCommand = ProfileJob | LaunchGang | Reconfigure | SuspendGang | StopGang


class AgentMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message between daemon and agent, one line of JSON."""


# ---------------------------------------------------------------- daemon -> agent
class Attach(AgentMessage, frozen=True, kw_only=True):
    """First message of a daemon on a new connection."""

    token: str
    session: str  #: of the daemon's executor; its numbers of commands begin with 1


class BindDevices(AgentMessage, frozen=True, kw_only=True):
    """What device ids stand for. A line of its own: the first one has to be short."""

    bindings: dict[str, DeviceBinding]


class Perform(AgentMessage, frozen=True, kw_only=True):
    """A command; the commands of a session are numbered from 1."""

    number: int
    command: ExecutorCommand


class Acknowledge(AgentMessage, frozen=True, kw_only=True):
    """Events up to this number are safe."""

    number: int


class RemoveHost(AgentMessage, frozen=True, kw_only=True):
    """Have this host, which has joined, end its workers and leave. No effect if it is not there."""

    name: str


class DevicesWanted(AgentMessage, frozen=True, kw_only=True):
    """Open jobs could use so many devices together. Said when that changes, and on each new line."""

    num: int


ToAgent = Attach | BindDevices | Perform | Acknowledge | RemoveHost | DevicesWanted
FirstLine = Attach | Hello


# ---------------------------------------------------------------- agent -> daemon
class Inventory(AgentMessage, frozen=True, kw_only=True):
    """The agent's answer to `Attach`."""

    protocol: int = 1  #: `PROTOCOL` of the agent; the first versions did not say it
    boot_id: str  #: another one: another agent, which knows nothing of an earlier one's gangs
    num_performed: int  #: commands of this session that have been taken
    work: RunningWork = RunningWork()


class Gathering(AgentMessage, frozen=True, kw_only=True):
    """Said before the inventory, again and again, while the agent does not know what these hosts run."""

    hosts: tuple[str, ...]


class EventTold(AgentMessage, frozen=True, kw_only=True):
    """An event; sent to each new daemon again until it is acknowledged."""

    number: int
    event: AnyEvent


class Performed(AgentMessage, frozen=True, kw_only=True):
    """Commands up to this number have been taken."""

    number: int


FromAgent = Gathering | Inventory | EventTold | Performed
