"""One run: a workload, a cluster, a head and a truth; what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from swell.core import loop
from swell.core.kinds import named_kinds
from swell.core.platform_core import PlatformCore
from swell.model.event import AnyEvent
from swell.model.islands import Islands
from swell.model.node import Node
from swell.model.share_mode import ShareMode
from swell.model.view import JobView
from swell.sim.change_cost import ChangeCost
from swell.sim.faults import NOTHING_FAILS, InjectedFaults
from swell.sim.gangs import GangTimings
from swell.sim.job import SimJob
from swell.sim.outcome import JobOutcome, SimOutcome, outcome_of, too_large
from swell.sim.pool import KeptDevices, Pool
from swell.sim.recorder import TurnRecorder
from swell.sim.segments import SegmentLog
from swell.sim.world import SimulatedWorld


class JobLedger:
    """Hands jobs to a world one by one, and keeps of each that has ended its outcome.

    Args:
        jobs: by submission, unless all are in memory anyway.
        most_devices: of that one of several kinds which has most; a job that needs more never enters.
        log: of what gangs did, which is kept with the outcomes.
    """

    def __init__(
        self,
        jobs: Collection[SimJob],
        most_devices: Callable[[tuple[str, ...]], int],
        log: SegmentLog | None = None,
    ) -> None:
        self._log = log
        self._outcomes: dict[int, JobOutcome] = {}  #: by place in the workload
        self.num_ended = 0
        self._jobs = jobs
        self._most_devices = cache(most_devices)
        self._open: dict[str, tuple[int, SimJob]] = {}  #: id -> place in the workload, job

    def arrivals(self) -> Iterator[SimJob]:
        """Each job in its turn. Raises ValueError if two that are known at one time have one id."""
        for place, job in _in_turn(self._jobs):
            kinds = job.spec.kinds if job.spec.kinds and not job.spec.kind else (job.spec.kind,)
            most_devices = self._most_devices(kinds)
            if job.smallest_devices > most_devices:
                self._outcomes[place] = too_large(job, most_devices)
                continue
            if job.id in self._open:
                raise ValueError(f"job {job.id!r} is in the workload twice; ids are unique")
            self._open[job.id] = place, job
            yield job

    def end(self, view: JobView, now_s: float) -> None:
        """The job has ended, and is forgotten but for its outcome."""
        self._note(view, now_s)
        self.num_ended += 1

    def close(self, views: Iterable[JobView], now_s: float) -> list[JobOutcome]:
        """The run is over, and left these jobs open. Returns all outcomes, in the order of the workload."""
        for view in views:
            self._note(view, now_s)
        return [outcome for _, outcome in sorted(self._outcomes.items())]

    def _note(self, view: JobView, now_s: float) -> None:
        place, job = self._open.pop(view.id)
        segments = () if self._log is None else self._log.take(job.id, now_s)
        self._outcomes[place] = outcome_of(job, view, now_s, segments)


def _in_turn(jobs: Collection[SimJob]) -> Iterable[tuple[int, SimJob]]:
    """(place, job) by submission; of those at one moment the first in the workload first."""
    if isinstance(jobs, list | tuple):
        return sorted(enumerate(jobs), key=lambda entry: entry[1].submit_s)
    return enumerate(jobs)


#: Each is a thing that the head knows by name: ten times what decisions are measured on is as far as it goes.
MAX_DEVICES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything outside the head."""

    nodes: Sequence[Node]  #: owned ones, that are there from the start
    jobs: Collection[SimJob]  #: by submission, unless all are in memory anyway
    cost: ChangeCost
    timings: GangTimings = field(default_factory=GangTimings)
    others: Sequence[AnyEvent] = ()
    faults: InjectedFaults = NOTHING_FAILS
    pool: Pool | None = None  #: nodes that are borrowed while they are idle
    cpu_shares: ShareMode = ShareMode.WEIGHT  #: of the cores of nodes that say how many they have

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


def simulate(
    core: PlatformCore,
    scenario: Scenario,
    progress: Callable[[int], None] = lambda num_ended: None,
    listen: Callable[[PlatformCore], None] = lambda core: None,
    with_offers: bool = True,
    log: SegmentLog | None = None,
) -> SimOutcome:
    """Run to the end. The same head and scenario lead to the same outcome, its timings apart.

    Jobs enter as time comes to them; of one that has ended, its outcome is kept.

    A job that could not even have its smallest gang if all devices of its kind were its own, with every node
    that is ever lent, is refused at the door, as the platform refuses it at submission.

    Args:
        core: a fresh one, which is used up.
        progress: called now and then with the number of jobs that have ended.
        listen: called after each turn of the head.
        with_offers: also work out which deadlines those who were refused could have been promised.
        log: a fresh one, to keep with each outcome what the job's gangs did (`JobOutcome.segments`).
    """
    pool = scenario.pool
    ledger = JobLedger(scenario.jobs, scenario.most_devices, log)
    num_told = 0
    kept = KeptDevices()

    def note_end(view: JobView) -> None:
        ledger.end(view, world.now_s)
        world.forget(view.id)

    def end_turn(now_s: float) -> None:
        nonlocal num_told
        recorder.end_turn(now_s, world.all_gangs.tally, world.all_gangs.version)
        if pool is not None:
            kept.note(now_s, world.num_kept)
        listen(core)
        if ledger.num_ended != num_told:
            num_told = ledger.num_ended
            progress(num_told)

    recorder = TurnRecorder(core, note_end, with_offers)
    world = SimulatedWorld(
        scenario.nodes,
        ledger.arrivals(),
        scenario.cost,
        scenario.timings,
        [*scenario.others, *(pool.changes() if pool else ())],
        end_turn,
        scenario.faults,
        log,
        scenario.cpu_shares,
    )
    begun_s = time.process_time()
    loop.run(world, recorder, core)
    cpu_s = time.process_time() - begun_s
    return SimOutcome(
        jobs=ledger.close(core.views(), world.now_s),
        usage=recorder.usage(),
        num_devices=sum(len(node.devices) for node in scenario.nodes),
        end_s=world.now_s,
        num_events=len(recorder.decision_s),
        decision_s=np.array(recorder.decision_s),
        cpu_s=cpu_s,
        pool=pool,
        kept_device_s=kept.device_s,
        waste=world.all_gangs.waste,
    )


def cluster(
    num_nodes: int,
    devices_per_node: int,
    kind: str,
    cores: float | None = None,
    num_racks: int = 1,
    islands: Islands = (),
    first: int = 0,
) -> tuple[Node, ...]:
    """Equal nodes in equal racks, devices named `n0.0`, `n0.1`, ... Cores and islands: of each node.

    Args:
        first: number of the first node.
    """
    per_rack = num_nodes // num_racks
    return tuple(
        Node(
            name=f"n{first + node}",
            devices=tuple(f"n{first + node}.{device}" for device in range(devices_per_node)),
            kind=kind,
            rack=f"rack{node // per_rack}",
            cores=cores,
            islands=islands,
        )
        for node in range(num_nodes)
    )
