"""What a daemon and its agent say to each other: JSON, one message a line, over loopback TCP.

The daemon begins with `Attach` and `BindDevices`; the agent answers with `Inventory`, if need be after
`Gathering`, and then tells every event that is not yet acknowledged. Both sides number what must not get
lost, and say it again on a new line.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from swell.executors.gang.host_messages import DevicesRead as DevicesRead
from swell.executors.gang.host_messages import TestDevices as TestDevices
from swell.executors.gang.job_context import DeviceBinding
from swell.executors.retransmission import RetransmissionQueue
from swell.model.command import LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang
from swell.model.event import AnyEvent, GangEnded, GangSuspended, JobEvent, RunningWork, StepsReported
from swell.model.report_folding import can_fold, fold
from swell.wire.messages import Hello

#: Raised when a daemon and an agent of two versions would not understand each other.
PROTOCOL = 10

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


ToAgent = Attach | BindDevices | Perform | Acknowledge | RemoveHost | TestDevices | DevicesWanted
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


FromAgent = Gathering | Inventory | EventTold | Performed | DevicesRead


class DaemonLine(Protocol):
    """The connection to a daemon."""

    @property
    def is_open(self) -> bool:
        """Whether what is sent may arrive."""

    @property
    def is_full(self) -> bool:
        """Whether the daemon reads too slowly."""

    def send(self, message: msgspec.Struct) -> None:
        """Lost if the connection is."""


class Outbox:
    """Queue of events. Progress that was never sent is folded into one report."""

    def __init__(self) -> None:
        self._link: DaemonLine | None = None
        self._events: RetransmissionQueue[AnyEvent] = RetransmissionQueue()
        self._num_told = 0  #: events that some daemon may have seen

    def add(self, event: AnyEvent) -> None:
        """Queue an event, and send it if a daemon is attached and reads."""
        if not self._fold(event):
            self._events.add(event)
        self.send()

    def send(self) -> None:
        """All that waits, if there is a daemon that reads."""
        while self._link is not None and not self._link.is_full and self._link.is_open:
            if (following := self._events.take_next()) is None:
                return
            number, event = following
            self._num_told = max(self._num_told, number)
            self._link.send(EventTold(number=number, event=event))

    def send_once(self, message: DevicesRead) -> None:
        """Send what need not arrive, if a daemon reads: the next one says more."""
        if self._link is not None and self._link.is_open and not self._link.is_full:
            self._link.send(message)

    def attach(self, link: DaemonLine) -> None:
        """A daemon has come: it hears first what no daemon has acknowledged."""
        self._link = link
        self._events.begin_line()
        self.send()

    def detach(self, link: DaemonLine) -> None:
        """Stop sending to this connection. No effect if another daemon has attached since."""
        if self._link is link:
            self._link = None

    def acknowledge(self, number: int) -> None:
        """Drop events up to this number, which are in the journal."""
        self._events.acknowledge(min(number, self._num_told))
        self.send()

    def ended_gangs(self) -> dict[str, int]:
        """Job -> generation of a gang whose end is not acknowledged."""
        ends = [event for event in self._events.messages if isinstance(event, GangEnded | GangSuspended)]
        return {event.job_id: event.generation for event in ends}

    def _fold(self, event: AnyEvent) -> bool:
        """Into the job's latest report, if it was never sent and nothing else of the job came after it."""
        if not isinstance(event, StepsReported):
            return False
        events = self._events.messages
        for index in range(len(events) - 1, self._num_told - self._events.num_acknowledged - 1, -1):
            older = events[index]
            if isinstance(older, JobEvent) and older.job_id == event.job_id:
                if isinstance(older, StepsReported) and can_fold(older, event):
                    events[index] = fold(older, event)
                    return True
                return False
        return False
