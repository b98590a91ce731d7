"""What the daemon's end remembers, so that nothing is lost when the line breaks or the agent dies."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from swell.executors.controller.protocol import EventTold, ExecutorCommand, Inventory, Perform
from swell.model.cluster import Node
from swell.model.command import GangCommand, LaunchGang, ProfileJob, StopGang
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

AGENT_KILLED = "the agent was killed, and its workers with it"
#: What answers a command, if it has the command's generation.
ANSWERS = (GangStarted, GangResized, ResizeFailed, SuspendFailed, WorkersLost, GangEnded, GangSuspended)


@dataclass(slots=True)
class KnownGang:
    """Latest ordered generation and reported steps of a gang, as the daemon knows them."""

    generation: int
    steps: int = 0
    launched: int = 0  #: its generation when it was launched, or found
    unanswered: GangCommand | None = None  #: the latest command, until it is answered


class DeliveryLedger:
    """Commands not yet taken, events not yet journaled, gangs and trial runs under way. No I/O."""

    def __init__(self) -> None:
        self.gangs: dict[str, KnownGang] = {}
        self._boot_id = ""
        self._num_ordered = 0
        self._untaken: deque[Perform] = deque()
        self._trials: dict[str, ProfileJob] = {}
        self._nodes: dict[str, Node] = {}  #: that have joined, as the head knows it or is about to
        self._newest_heard = 0
        self._num_delivered = 0
        self._num_before_last_call = 0
        self._num_acknowledged = 0

    # ------------------------------------------------------------ commands
    def order(self, command: ExecutorCommand) -> Perform:
        """Number a command, and keep it until the agent has performed it."""
        message = self._number(command)
        self._untaken.append(message)
        if isinstance(command, ProfileJob):
            self._trials[command.job_id] = command
        else:
            if isinstance(command, StopGang):
                self._trials.pop(command.job_id, None)
            self._note_ordered(command)
        return message

    def _note_ordered(self, command: GangCommand) -> None:
        known = self.gangs.get(command.job_id)
        if known is None and isinstance(command, LaunchGang):
            known = KnownGang(command.generation, launched=command.generation)
            self.gangs[command.job_id] = known
        if known is not None and command.generation >= known.generation:
            known.generation, known.unanswered = command.generation, command

    def note_performed(self, number: int) -> None:
        """Drop commands up to this number, which the agent has performed."""
        while self._untaken and self._untaken[0].number <= number:
            self._untaken.popleft()

    # ------------------------------------------------------------ events
    def is_news(self, told: EventTold) -> bool:
        """False for an event that came before, on an earlier line to the same agent."""
        if told.number <= self._newest_heard:
            return False
        self._newest_heard = told.number
        self._note(told.event)
        return True

    def note_delivered(self, number: int) -> None:
        """Note that the scheduler was given the events up to this number."""
        self._num_delivered = max(self._num_delivered, number)

    def handled(self) -> int | None:
        """Up to which event to acknowledge, now that the head has ended a turn; None: nothing new."""
        number, self._num_before_last_call = self._num_before_last_call, self._num_delivered
        if number <= self._num_acknowledged:
            return None
        self._num_acknowledged = number
        return number

    def _note(self, event: AnyEvent) -> None:
        if isinstance(event, ANSWERS) and (known := self.gangs.get(event.job_id)) is not None:
            asked = known.unanswered
            known.unanswered = None if asked and asked.generation == event.generation else asked
        if isinstance(event, NodeJoined):
            self._nodes[event.node.name] = event.node
        elif isinstance(event, NodeLost):
            self._nodes.pop(event.name, None)
        elif isinstance(event, GangEnded | GangSuspended):
            known = self.gangs.get(event.job_id)
            if known is not None and event.generation >= known.generation:
                del self.gangs[event.job_id]
        elif isinstance(event, JobProfiled | ProfilingFailed):
            self._trials.pop(event.job_id, None)
        elif isinstance(event, StepsReported) and (known := self.gangs.get(event.job_id)) is not None:
            known.steps = event.steps

    # ------------------------------------------------------------ a new line
    def reconcile(self, inventory: Inventory) -> tuple[list[AnyEvent], list[Perform]]:
        """What was lost with an earlier agent, nodes first, and the commands to say again, in order."""
        lost: list[AnyEvent] = []
        if inventory.boot_id != self._boot_id:
            lost = self._begin_boot(inventory)
        self.note_performed(inventory.num_performed)
        for gang in inventory.gangs:
            found = KnownGang(gang.generation, gang.steps, launched=gang.generation)
            self.gangs.setdefault(gang.job_id, found)
        return lost, list(self._untaken)

    def _begin_boot(self, inventory: Inventory) -> list[AnyEvent]:
        """Another agent: it has taken no command yet, and knows the gangs of which hosts have told it."""
        is_first = not self._boot_id
        gone_nodes = [name for name in self._nodes if name not in {node.name for node in inventory.nodes}]
        self._nodes = {node.name: node for node in inventory.nodes}
        self._boot_id = inventory.boot_id
        self._newest_heard = self._num_delivered = self._num_before_last_call = self._num_acknowledged = 0
        if is_first:
            return []
        launches = {m.command.job_id for m in self._untaken if isinstance(m.command, LaunchGang)}
        live = {gang.job_id for gang in inventory.gangs}
        told = {
            job
            for job, end in inventory.untold.items()
            if job in self.gangs and end >= self.gangs[job].launched
        }
        gone = [job_id for job_id in self.gangs if job_id not in launches | live | told]
        untaken = [m.command for m in self._untaken if m.command.job_id not in gone]
        ordered = {command.job_id for command in untaken}
        # What was taken and is not answered: the agent that took it may have died before it did anything.
        asked = (gang.unanswered for job_id, gang in self.gangs.items() if job_id in live - ordered)
        trials = (command for job_id, command in self._trials.items() if job_id not in ordered)
        again = [*(command for command in asked if command is not None), *untaken, *trials]
        self._untaken = deque(map(self._number, again))
        lost_nodes = [NodeLost(at_s=0.0, name=name, cause=AGENT_KILLED) for name in gone_nodes]
        return [*lost_nodes, *(self._lost(job_id, self.gangs.pop(job_id)) for job_id in gone)]

    def _number(self, command: ExecutorCommand) -> Perform:
        self._num_ordered += 1
        return Perform(number=self._num_ordered, command=command)

    def _lost(self, job_id: str, known: KnownGang) -> AnyEvent:
        return GangEnded(
            at_s=0.0,
            job_id=job_id,
            generation=known.generation,
            outcome=Outcome.LOST,
            steps=known.steps,
            message=AGENT_KILLED,
        )
