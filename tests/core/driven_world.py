"""A simulated world to which a test does what users and machines do, at moments of its choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
import numpy as np
from tests.core.fakes import STEPS_PER_S, profile

from swell.model.command import AnyCommand
from swell.model.event import AnyEvent, GangFound, JobSubmitted, NodeCleared, NodeJoined, NodeLost, NodeWarned
from swell.model.gang_state import GangState
from swell.model.job import JobSpec
from swell.model.node import Node
from swell.script_facts import ScriptFinding
from swell.sim.change_cost import MeasuredCost
from swell.sim.faults import NO_FAULTS, FaultRates, FaultSource
from swell.sim.gang import SimGang
from swell.sim.gangs import GangTimes
from swell.sim.job import SimJob
from swell.sim.loss_curves import JobLoss
from swell.sim.true_speed import TrueRates
from swell.sim.world import Scenario, SimulatedWorld
from swell.throughput.curve import SCALING_EXPONENT

#: No worker trains for so long at a resize, and the gang says so.
PAUSE_S = 0.1
COST = MeasuredCost(pause_s=PAUSE_S, state_bytes_per_s=math.inf, restart_s=0.5)
TIMINGS = GangTimes(profiling_s=0.6, save_s=0.5, report_s=0.5)
ALL_FAULTS = FaultRates(trial=0.2, launch=0.2, resize=0.2, suspend=0.2, loss=0.2, warning=0.1)
#: The entry of a script that fails in its trial run.
DIES_AT_ONCE = "/dies_at_once.py"
#: Of a job whose spec names none.
PLAIN_STEPS = 100

SIZES = np.arange(1, 9)
#: The truth: 10 % less than believed at first.
SPEED = TrueRates(SIZES, 0.9 * STEPS_PER_S * SIZES.astype(float) ** SCALING_EXPONENT)


@dataclass(frozen=True, slots=True)
class EndingFaults(FaultSource):
    """Faults at these rates until a test has had enough of them."""

    is_over: Callable[[], bool] = lambda: False
    struck: set[str] = field(default_factory=set)  #: kinds of those that there were

    def is_struck(self, kind: str, job_id: str, number: int) -> bool:
        is_struck = not self.is_over() and FaultSource.is_struck(self, kind, job_id, number)
        if is_struck:
            self.struck.add(kind)
        return is_struck


class DrivenWorld(SimulatedWorld):
    """Begins without nodes and jobs.

    Args:
        seed: of the faults, and for all else that has to draw.
    """

    def __init__(self, seed: int = 0, rates: FaultRates = NO_FAULTS) -> None:
        self.seed = seed
        self.performed: list[tuple[float, AnyCommand]] = []
        self.findings: dict[str, tuple[ScriptFinding, ...] | None] = {}  #: of trial runs, by job
        self.losses: dict[str, JobLoss] = {}  #: by job, of those that tell one
        self.speed = SPEED  #: of jobs that are submitted from now on
        self._is_calm = False
        self._told_s: dict[str, float] = {}  #: when the head hears that a node is gone
        faults = EndingFaults(rates, seed, lambda: self._is_calm)
        self._struck = faults.struck
        super().__init__(Scenario(nodes=(), jobs=(), cost=COST, timings=TIMINGS, faults=faults))

    def perform(self, command: AnyCommand) -> None:
        self.performed.append((self.now_s, command))
        super().perform(command)

    # ------------------------------------------------------------ what is done to it
    def say(self, event: AnyEvent, delay_s: float = 0.0) -> None:
        """The head hears of this: a user says so, or a machine once more."""
        self.say_at(self.now_s + delay_s, event)

    def say_at(self, at_s: float, event: AnyEvent) -> None:
        self._queue.put(at_s, partial(self._tell, event))

    def submit(self, job_id: str, spec: JobSpec) -> None:
        self._add_job(job_id, spec)
        self.say(JobSubmitted(at_s=self.now_s, job_id=job_id, spec=spec))

    def join(self, node: Node) -> None:
        self.expect(NodeJoined(at_s=max(self.now_s, self._told_s.get(node.name, 0.0)), node=node))

    def lose_node(self, name: str) -> None:
        """The machine is gone, and with it all that ran there."""
        self.expect(NodeLost(at_s=self.now_s, name=name))

    def lose_node_late(self, name: str, delay_s: float) -> None:
        """As `lose_node`, but the head hears of the node only later than of its workers."""
        if (node := self._nodes.pop(name, None)) is not None:
            gone = frozenset(node.devices)
            self._devices -= gone
            self.all_gangs.lose(gone, self.now_s)
            self._told_s[name] = told_s = self.now_s + delay_s
            self.say_at(told_s, NodeLost(at_s=told_s, name=name, cause="its machine is gone"))
            # If it was on its way back, which the head heard first.
            self.expect(NodeLost(at_s=told_s, name=name))

    def warn_node(self, name: str, in_s: float | None = None) -> None:
        """It is to be left, for it is gone in so many seconds; None: it stays, without work."""
        until_s = None if in_s is None else self.now_s + in_s
        self.say(NodeWarned(at_s=self.now_s, name=name, until_s=until_s, why="it is wanted back"))

    def clear_node(self, name: str) -> None:
        """It need not be left any more."""
        self.say(NodeCleared(at_s=self.now_s, name=name))

    def lose_workers(self, job_id: str, num: int = 1) -> None:
        """Some of the job's newest workers die at once, and joiners only if there are no others left."""
        gang = self.gangs[job_id]
        members = set(gang.devices)
        joiners = () if gang.change is None else gang.change.target.devices
        devices = (*(device for device in joiners if device not in members), *gang.devices)
        num_devices = num * gang.job.spec.devices_per_worker
        self.all_gangs.lose(frozenset(devices[-num_devices:]), self.now_s)

    def find_gang(self, job_id: str, generation: int, devices: tuple[str, ...], spec: JobSpec) -> None:
        """A gang of another journal trains here, and is found at once."""
        job = self._add_job(job_id, spec)
        gang = SimGang(job, generation, devices, as_of_s=self.now_s, formed_s=self.now_s)
        gang.rate_per_s = gang.true_rate_per_s
        self.all_gangs.adopt(gang, self.now_s)
        found = GangFound(at_s=self.now_s, job_id=job_id, generation=generation, devices=devices, steps=0)
        self._told.append(found)

    def calm_down(self) -> None:
        """No more faults."""
        self._is_calm = True

    def _add_job(self, job_id: str, spec: JobSpec) -> SimJob:
        job = SimJob(
            id=job_id,
            submit_s=self.now_s,
            spec=spec,
            profile=msgspec.structs.replace(
                profile(),
                findings=self.findings.get(job_id),
            ),
            speed=self.speed,
            num_steps=spec.end.steps or PLAIN_STEPS,
            dies_at_step=0 if spec.entry == DIES_AT_ONCE else None,
            loss=self.losses.get(job_id),
        )
        self._jobs[job_id] = job
        return job

    # ------------------------------------------------------------ what is seen of it
    def next_events(self) -> Sequence[AnyEvent]:
        told = super().next_events()
        for gang in self.gangs.values():
            validate(gang)
        return told

    @property
    def gangs(self) -> Mapping[str, SimGang]:
        return self.all_gangs.training

    @property
    def devices(self) -> frozenset[str]:
        return self._devices

    @property
    def struck(self) -> set[str]:
        """What faults have struck so far: trial runs, or gangs, of which not every policy changes many."""
        return {"trial" if kind == "trial" else "gang" for kind in self._struck if kind != "warning"}

    def is_quiet_until(self, at_s: float) -> bool:
        """Nothing happens before then."""
        return not self._told and min(self._queue.next_s, self._wake_s) > at_s


def validate(gang: SimGang) -> None:
    """What holds in each state of a simulated gang, after any event."""
    assert (gang.change is not None) == (gang.state is GangState.FORMING), gang
    assert gang.state is not GangState.ENDED, gang
    if gang.rate_per_s > 0.0:
        assert gang.formed_s is not None and gang.state is not GangState.STOPPING, gang
