"""A world that is a heap of future events."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from swell.core.kinds import named_kinds
from swell.model import event as events
from swell.model.booking import Booking, BookingRefusal
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang, WakeAt
from swell.model.node import Node
from swell.model.target import ShareKind
from swell.sim.change_cost import ChangeCost
from swell.sim.event_queue import EventQueue
from swell.sim.faults import MESSAGE, NOTHING_FAILS, FaultSource
from swell.sim.gangs import GangTimes, SimGangs
from swell.sim.job import SimJob
from swell.sim.outcome import SegmentLog
from swell.sim.pool import Pool

#: A head that does nothing but ask to be woken, with nothing else to come, is woken no more often.
MAX_IDLE_WAKES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything outside the head."""

    nodes: Sequence[Node]  #: owned ones, that are there from the start
    jobs: Sequence[SimJob]
    cost: ChangeCost
    timings: GangTimes = field(default_factory=GangTimes)
    others: Sequence[events.AnyEvent] = ()
    faults: FaultSource = NOTHING_FAILS
    pool: Pool | None = None  #: nodes that are borrowed while they are idle
    cpu_shares: ShareKind = ShareKind.WEIGHT  #: of the cores of nodes that say how many they have

    def most_devices(self, kinds: tuple[str, ...]) -> int:
        """Devices of the kind that has most, as if all nodes that are ever lent were there at the same time.

        Args:
            kinds: at least one; an empty one is that of the first node, and `any` stands for all.
        """
        there = tuple({node.kind for node in self.nodes})
        return max(map(self._devices_of, named_kinds(kinds, there) or kinds), default=0)

    def _devices_of(self, kind: str) -> int:
        pool = self.pool
        wanted = kind or (self.nodes[0].kind if self.nodes else "" if pool is None else pool.kind)
        owned = sum(len(node.devices) for node in self.nodes if node.kind == wanted)
        return owned + (pool.num_devices if pool is not None and pool.kind == wanted else 0)


class SimulatedWorld:
    """Implements `core.loop.World`. It ends when nothing more will happen and no gang trains.

    A batch is all that is due at one instant, as in the live world; what commands bring about at once
    is the next batch, at the same instant.

    Args:
        end_turn: called after each turn, with its time.
        log: is told what gangs hold and do.
    """

    def __init__(
        self,
        scenario: Scenario,
        end_turn: Callable[[float], None] = lambda now_s: None,
        log: SegmentLog | None = None,
    ) -> None:
        nodes = scenario.nodes
        self._scenario, self._timings, self._faults = scenario, scenario.timings, scenario.faults
        self.now_s = 0.0
        self._end_turn = end_turn
        self.weigh: Callable[[Booking], BookingRefusal | None] = lambda booking: (
            None
        )  #: the head's word on it
        self.refused_bookings: dict[str, BookingRefusal] = {}  #: by id
        self._queue = EventQueue()
        self._told: list[events.AnyEvent] = []
        self.all_gangs = SimGangs(
            scenario.cost, self._timings, self._queue, self._told.append, self._faults, log
        )
        self._jobs = {job.id: job for job in scenario.jobs}
        self._trials: dict[str, ProfileJob] = {}  #: by job
        self._devices: frozenset[str] = frozenset(device for node in nodes for device in node.devices)
        self._nodes = {node.name: node for node in nodes}
        self._failed_s: dict[str, float] = {}  #: node -> since when it is gone, of which no event has told
        for node in nodes:
            self.all_gangs.join(node, scenario.cpu_shares)
        self.num_node_changes = 0  #: nodes that the head has heard to leave or to join
        self._wake_s = math.inf
        self._num_idle_wakes = 0
        self._open(nodes)
        for event in (*scenario.others, *(scenario.pool.changes() if scenario.pool else ())):
            self.expect(event)

    @property
    def num_devices(self) -> int:
        """That are there, as far as the head has heard."""
        return len(self._devices)

    @property
    def num_kept(self) -> int:
        """Devices on which a gang still is though their node, a borrowed one, has left."""
        if self._scenario.pool is None:
            return 0
        gangs = self.all_gangs.training.values()
        return sum(len(gang.occupied.difference(self._devices)) for gang in gangs)

    def _open(self, nodes: Sequence[Node]) -> None:
        """The head hears of nodes and jobs."""
        told: list[events.AnyEvent] = [
            events.Opened(at_s=0.0),
            *(events.NodeJoined(at_s=0.0, node=node) for node in nodes),
        ]
        for job in self._jobs.values():
            told.append(events.JobSubmitted(at_s=job.submit_s, job_id=job.id, spec=job.spec))
            if job.cancel_s is not None:
                told.append(events.CancelRequested(at_s=job.cancel_s, job_id=job.id))
        for event in told:
            self._queue.put(event.at_s, partial(self._tell, event))

    def expect(self, event: events.AnyEvent) -> None:
        """Have this happen at its time, after all that is put in already for the same moment.

        A node that is lost fails then; the head hears of it `GangTimes.notice_s` later.
        """
        match event:
            case events.NodeLost():
                happening = partial(self._fail_node, event.name)
            case events.NodeJoined():
                happening = partial(self._return_node, event.node)
            case events.BookingMade():
                happening = partial(self._book, event)
            case _:
                happening = partial(self._tell, event)
        self._queue.put(event.at_s, happening)

    def forget(self, job_id: str) -> None:
        """The job has ended; nothing will ask for it."""
        self._jobs.pop(job_id, None)
        self._trials.pop(job_id, None)
        self.all_gangs.forget(job_id)

    # ------------------------------------------------------------ the port
    def next_events(self) -> Sequence[events.AnyEvent]:
        """All that is due at the next instant at which the head hears anything; empty at the end."""
        self.all_gangs.settle(self.now_s)
        self._end_turn(self.now_s)
        while not self._told:
            self.all_gangs.settle(self.now_s)
            due_s = min(self._queue.next_s, self._wake_s)
            if math.isinf(due_s) or self._is_over():
                return ()
            self.now_s = max(self.now_s, due_s)
            for happening in self._queue.pop_due(self.now_s):
                happening(self.now_s)
            if self._wake_s <= self.now_s:
                self._wake_s = math.inf
                self._told.append(events.Woke(at_s=self.now_s))
        batch = self._told.copy()
        self._told.clear()
        return batch

    def _is_over(self) -> bool:
        """Nothing is to come but that the head wakes, and it has had its chances to do something then."""
        if self._queue or self.all_gangs.training:
            self._num_idle_wakes = 0
        else:
            self._num_idle_wakes += 1
        return self._num_idle_wakes > MAX_IDLE_WAKES

    # ------------------------------------------------------------ commands
    def perform(self, command: AnyCommand) -> None:
        now_s = self.now_s
        match command:
            case WakeAt():
                self._wake_s = command.at_s  # only the latest request counts
            case ProfileJob():
                self._trials[command.job_id] = command
                self._queue.put(now_s + self._timings.profiling_s, partial(self._end_trial, command.job_id))
            case LaunchGang():
                job, devices = self._jobs[command.job_id], command.target.devices
                if job.truths:  # of the kind of its devices, unless their nodes have gone
                    kinds = (node.kind for node in self._nodes.values() if {*devices} & {*node.devices})
                    job = job.on(next(kinds, ""))
                self.all_gangs.launch(job, command, self._missing(devices), now_s)
            case Reconfigure():
                self.all_gangs.reconfigure(command, self._missing(command.target.devices), now_s)
            case SuspendGang():
                self.all_gangs.suspend(command, now_s)
            case StopGang():
                self._trials.pop(command.job_id, None)
                self.all_gangs.stop(command, now_s)
            case _:
                raise TypeError(f"a simulated world knows no command {type(command).__name__}")

    def _missing(self, devices: tuple[str, ...]) -> frozenset[str]:
        """Those that have gone since the head chose them."""
        return frozenset(devices).difference(self._devices)

    # ------------------------------------------------------------ what happens
    def _tell(self, event: events.AnyEvent, now_s: float) -> None:
        self._told.append(event)

    def _book(self, event: events.BookingMade, now_s: float) -> None:
        """The head is asked first, once it has heard of all else that is due."""
        if self._told:
            self._queue.put(now_s, partial(self._book, event))
        elif (refusal := self.weigh(event.booking)) is None:
            self._told.append(event)
        else:
            self.refused_bookings[event.booking.id] = refusal

    def _end_trial(self, job_id: str, now_s: float) -> None:
        trial = self._trials.pop(job_id, None)
        if trial is not None:  # else it was called off
            job = self._jobs[job_id].on(trial.device_kind)
            self._told.append(self._outcome_of_trial(job, trial.attempt))

    def _outcome_of_trial(self, job: SimJob, attempt: int) -> events.JobProfiled | events.ProfilingFailed:
        if self._faults.is_struck("trial", job.id, attempt):
            message, outcome = MESSAGE, events.Outcome.LOST
        elif job.dies_at_step == 0:
            message, outcome = "its script fails at step 0", events.Outcome.FAILED
        else:
            return events.JobProfiled(at_s=self.now_s, job_id=job.id, profile=job.profile, attempt=attempt)
        return events.ProfilingFailed(
            at_s=self.now_s, job_id=job.id, message=message, outcome=outcome, attempt=attempt
        )

    def _fail_node(self, name: str, now_s: float) -> None:
        node, notice_s = self._nodes.get(name), self._timings.notice_s
        if node is None or name in self._failed_s:
            return
        if notice_s <= 0.0:
            self._miss(node)
        else:
            self._failed_s[name] = now_s
            self.all_gangs.silence(frozenset(node.devices), now_s)
            self._queue.put(now_s + notice_s, partial(self._miss_node, name, now_s))

    def _miss_node(self, name: str, failed_s: float, now_s: float) -> None:
        """The head hears that a node failed at `failed_s`, unless it has heard of it or the node is back."""
        if self._failed_s.get(name) == failed_s:
            self._miss(self._nodes[name])

    def _miss(self, node: Node) -> None:
        """The head hears that the node is gone."""
        gone = frozenset(node.devices)
        del self._nodes[node.name]
        self._failed_s.pop(node.name, None)
        self._devices -= gone
        self.num_node_changes += 1
        self._told.append(events.NodeLost(at_s=self.now_s, name=node.name))
        self.all_gangs.lose(gone, self.now_s)

    def _return_node(self, node: Node, now_s: float) -> None:
        if node.name in self._failed_s:  # that it is there again tells that it was gone
            self._miss(self._nodes[node.name])
        if node.name not in self._nodes:
            self._nodes[node.name] = node
            self._devices |= frozenset(node.devices)
            self.num_node_changes += 1
            self.all_gangs.join(node, self._scenario.cpu_shares)
            self._told.append(events.NodeJoined(at_s=now_s, node=node))
