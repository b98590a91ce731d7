"""What the daemon's end remembers, so that nothing is lost when the line breaks or the agent dies."""

from __future__ import annotations

from dataclasses import dataclass

from swell.executors.controller.protocol import EventTold, ExecutorCommand, Inventory, Perform
from swell.executors.retransmission import ReceivedNumbers, RetransmissionQueue
from swell.model.command import GangCommand, LaunchGang, ProfileJob, Reconfigure, StopGang
from swell.model.event import (
    AnyEvent,
    GangEnded,
    GangResized,
    GangStarted,
    GangSuspended,
    JobProfiled,
    NodeJoined,
    NodeLost,
    Outcome,
    ProfilingFailed,
    ResizeFailed,
    StepsReported,
    SuspendFailed,
    WorkersLost,
)
from swell.model.node import Node
from swell.model.running import regained_nodes

AGENT_KILLED = "the agent was killed, and its workers with it"
#: What answers a command, if it has the command's generation.
ANSWERS = (GangStarted, GangResized, ResizeFailed, SuspendFailed, WorkersLost, GangEnded, GangSuspended)


@dataclass(slots=True)
class KnownGang:
    """The daemon's side of a gang: the generation it ordered last and the steps it was told of."""

    generation: int
    devices: tuple[str, ...] = ()  #: that it has, or is about to have
    steps: int = 0
    launched: int = 0  #: its generation when it was launched, or found
    unanswered: GangCommand | None = None  #: the latest command, until it is answered


class DeliveryLedger:
    """Commands not yet taken, events not yet journaled, gangs and trial runs under way. No I/O."""

    def __init__(self) -> None:
        self.gangs: dict[str, KnownGang] = {}
        self._untaken: RetransmissionQueue[ExecutorCommand] = RetransmissionQueue()
        self._heard = ReceivedNumbers()  #: of the agent, which is named by its `boot_id`
        self._trials: dict[str, ProfileJob] = {}
        self._nodes: dict[str, Node] = {}  #: that have joined, as the head knows it or is about to
        self._away: set[str] = set()  #: names of nodes that are not there while their hosts are
        self._num_delivered = self._num_before_last_call = 0

    # ------------------------------------------------------------ commands
    def order(self, command: ExecutorCommand) -> None:
        """Queue a command for the agent."""
        self._untaken.add(command)
        if isinstance(command, ProfileJob):
            self._trials[command.job_id] = command
        else:
            if isinstance(command, StopGang):
                self._trials.pop(command.job_id, None)
            self._note_ordered(command)

    def next_command(self) -> Perform | None:
        """Return the next one to send on the present line; None: all were sent."""
        following = self._untaken.take_next()
        return None if following is None else Perform(number=following[0], command=following[1])

    def _note_ordered(self, command: GangCommand) -> None:
        known = self.gangs.get(command.job_id)
        if known is None and isinstance(command, LaunchGang):
            known = KnownGang(command.generation, launched=command.generation)
            self.gangs[command.job_id] = known
        if known is not None and command.generation >= known.generation:
            known.generation, known.unanswered = command.generation, command
            if isinstance(command, LaunchGang | Reconfigure):
                known.devices = command.target.devices

    def note_performed(self, number: int) -> None:
        """Drop commands up to this number, which the agent has performed."""
        self._untaken.acknowledge(number)

    # ------------------------------------------------------------ events
    def is_news(self, told: EventTold) -> bool:
        """False for an event that came before, on an earlier line to the same agent."""
        if not self._heard.take(told.number):
            return False
        self._note(told.event)
        return True

    def note_delivered(self, number: int) -> None:
        """Note that the scheduler was given the events up to this number."""
        self._num_delivered = max(self._num_delivered, number)

    def handled(self) -> int | None:
        """Up to which event to acknowledge, now that the head has ended a turn; None: nothing new."""
        number, self._num_before_last_call = self._num_before_last_call, self._num_delivered
        return number if self._heard.acknowledge(number) else None

    @property
    def num_acknowledged(self) -> int:
        """The number of the last event that the present agent was told not to keep any longer."""
        return self._heard.num_acknowledged

    def _note(self, event: AnyEvent) -> None:
        if isinstance(event, ANSWERS) and (known := self.gangs.get(event.job_id)) is not None:
            asked = known.unanswered
            known.unanswered = None if asked and asked.generation == event.generation else asked
        if isinstance(event, NodeJoined):
            self._nodes[event.node.name] = event.node
            self._away.discard(event.node.name)
        elif isinstance(event, NodeLost):
            self._nodes.pop(event.name, None)
            (self._away.add if event.is_host_kept else self._away.discard)(event.name)
        elif isinstance(event, GangEnded | GangSuspended):
            known = self.gangs.get(event.job_id)
            if known is not None and event.generation >= known.generation:
                del self.gangs[event.job_id]
        elif isinstance(event, JobProfiled | ProfilingFailed):
            self._trials.pop(event.job_id, None)
        elif isinstance(event, StepsReported) and (known := self.gangs.get(event.job_id)) is not None:
            known.steps = event.steps

    # ------------------------------------------------------------ a new line
    def reconcile(self, inventory: Inventory) -> list[AnyEvent]:
        """What was lost with an earlier agent. Commands that may be are sent again.

        Nodes are lost before gangs; those that are here again join after them.
        """
        is_first = not self._heard.sender
        lost = self._begin_boot(inventory, is_first) if self._heard.begin(inventory.boot_id) else []
        self.note_performed(inventory.num_performed)
        for gang in inventory.gangs:
            found = KnownGang(gang.generation, gang.devices, gang.steps, launched=gang.generation)
            self.gangs.setdefault(gang.job_id, found)
        self._untaken.begin_line()
        return lost

    def _begin_boot(self, inventory: Inventory, is_first: bool) -> list[AnyEvent]:
        """Another agent: it has taken no command yet, and knows the gangs of which hosts have told it."""
        away, self._away = self._away, set()
        before, self._nodes = self._nodes, {node.name: node for node in inventory.nodes}
        self._num_delivered = self._num_before_last_call = 0
        if is_first:
            return []
        launches = {command.job_id for command in self._untaken.messages if isinstance(command, LaunchGang)}
        live = {gang.job_id for gang in inventory.gangs}
        told = {
            job
            for job, end in inventory.untold.items()
            if job in self.gangs and end >= self.gangs[job].launched
        }
        gone = [job_id for job_id in self.gangs if job_id not in launches | live | told]
        held, kept = (
            {device for job_id in jobs for device in self.gangs[job_id].devices}
            for jobs in (gone, self.gangs.keys() - set(gone))
        )
        left = regained_nodes(self._nodes.values(), held, kept)
        untaken = [command for command in self._untaken.messages if command.job_id not in gone]
        ordered = {command.job_id for command in untaken}
        # What was taken and is not answered: the agent that took it may have died before it did anything.
        asked = (gang.unanswered for job_id, gang in self.gangs.items() if job_id in live - ordered)
        trials = (command for job_id, command in self._trials.items() if job_id not in ordered)
        again = [*(command for command in asked if command is not None), *untaken, *trials]
        self.note_performed(self._untaken.num_added)  # each gets another number
        for command in again:
            self._untaken.add(command)
        names = [*sorted({*before, *away} - self._nodes.keys()), *(node.name for node in left)]
        lost_nodes = [NodeLost(at_s=0.0, name=name, cause=AGENT_KILLED) for name in names]
        lost_gangs = [
            GangEnded(
                at_s=0.0,
                job_id=job_id,
                generation=known.generation,
                outcome=Outcome.LOST,
                steps=known.steps,
                message=AGENT_KILLED,
            )
            for job_id, known in ((job_id, self.gangs.pop(job_id)) for job_id in gone)
        ]
        # The agent has told that they joined, but before they were lost here.
        return [*lost_nodes, *lost_gangs, *(NodeJoined(at_s=0.0, node=node) for node in left)]
