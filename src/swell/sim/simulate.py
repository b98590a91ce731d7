"""One run: a workload, a cluster, a head and a truth; what is noted of it, and what came of it."""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from swell.core import loop
from swell.core.platform_core import PlatformCore
from swell.core.sizes import job_sizes
from swell.model.event import AnyEvent
from swell.model.node import Islands, Node
from swell.model.options import Sizes
from swell.model.view import JobView, Story
from swell.sim.job import SimJob
from swell.sim.outcome import JobOutcome, SegmentLog, SimOutcome, Usage, outcome_of, too_large
from swell.sim.world import Scenario, SimulatedWorld

#: Each is a thing that the head knows by name: ten times what decisions are measured on is as far as it goes.
MAX_DEVICES = 100_000


def simulate(
    core: PlatformCore,
    scenario: Scenario,
    progress: Callable[[int], None] = lambda num_ended: None,
    listen: Callable[[PlatformCore], None] = lambda core: None,
    with_offers: bool = True,
    log: SegmentLog | None = None,
) -> SimOutcome:
    """Run to the end. The same head and scenario lead to the same outcome, its timings apart.

    A job that could have no size that the policy gives if all devices of its kind were its own, with every
    node that is ever lent, is refused at the door, as the platform refuses it at submission.

    Args:
        core: a fresh one, which is used up.
        progress: called at each end of a job with the number of jobs that have ended.
        listen: called after each turn of the head.
        with_offers: also work out which deadlines those who were refused could have been promised.
        log: a fresh one, to keep with each outcome what the job's gangs did (`JobOutcome.segments`).

    Raises:
        ValueError: two jobs have one id.
    """
    num_ended = 0
    jobs = _by_id(scenario.jobs)
    outcomes = _refused(scenario, core.domain.sizes)
    coming = sorted((job for job in scenario.jobs if job.id not in outcomes), key=lambda job: job.submit_s)

    def note(view: JobView) -> None:
        segments = () if log is None else log.take(view.id, world.now_s)
        outcomes[view.id] = outcome_of(jobs[view.id], view, world.now_s, segments)

    def note_end(view: JobView) -> None:
        nonlocal num_ended
        num_ended += 1
        note(view)
        world.forget(view.id)
        progress(num_ended)

    def end_turn(now_s: float) -> None:
        recorder.end_turn(now_s, world)
        listen(core)

    recorder = TurnLog(core, note_end, with_offers)
    world = SimulatedWorld(replace(scenario, jobs=coming), end_turn, log)
    world.weigh = core.weigh_booking
    begun_s = time.process_time()
    loop.run(world, recorder, core)
    cpu_s = time.process_time() - begun_s
    for view in core.views():
        note(view)
    return SimOutcome(
        jobs=[outcomes[job_id] for job_id in jobs],
        usage=recorder.usage(),
        num_devices=sum(len(node.devices) for node in scenario.nodes),
        end_s=world.now_s,
        num_events=len(recorder.decision_s),
        decision_s=np.array(recorder.decision_s),
        cpu_s=cpu_s,
        pool=scenario.pool,
        unnoticed_device_s=world.all_gangs.unnoticed_device_s,
        refused_bookings=world.refused_bookings,
    )


def _by_id(jobs: Sequence[SimJob]) -> dict[str, SimJob]:
    by_id = {job.id: job for job in jobs}
    if len(by_id) < len(jobs):
        ((job_id, _),) = Counter(job.id for job in jobs).most_common(1)
        raise ValueError(f"job {job_id!r} is in the workload twice; ids are unique")
    return by_id


def _refused(scenario: Scenario, sizes: Sizes) -> dict[str, JobOutcome]:
    """Jobs by id that the cluster is too small for, however few devices they get."""
    most_devices = cache(scenario.most_devices)
    needs = [(job, most_devices(job.kinds)) for job in scenario.jobs]
    return {
        job.id: too_large(job, most, sizes)
        for job, most in needs
        if not job_sizes(job.spec, most, Sizes.EVERY if job.spec.fixed else sizes).size
    }


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


class TurnLog:
    """Stands where the journal stands in a live platform; and sees each turn's end.

    Args:
        note_end: is told of each job that has ended; without it they are in `ended`.

    The time that the head takes is measured between the two: it is what is shown of a run that differs
    from one run to the next, and nothing depends on it.
    """

    def __init__(
        self, core: PlatformCore, note_end: Callable[[JobView], None] | None = None, with_offers: bool = True
    ) -> None:
        self._core, self._with_offers = core, with_offers
        self.ended: dict[str, JobView] = {}
        self.decision_s = array("d")
        self._keep = note_end or self._remember
        self._begun_s: float | None = None
        self._usage = array("d")  #: five numbers an entry
        self._version = (-1, -1)

    # ------------------------------------------------------------ as a journal
    def append(self, batch: Sequence[AnyEvent]) -> None:
        self._begun_s = time.process_time()

    # ------------------------------------------------------------ as an observer
    def end_turn(self, now_s: float, world: SimulatedWorld) -> None:
        if self._begun_s is not None:
            self.decision_s.append(time.process_time() - self._begun_s)
            self._begun_s = None
        for view in self._core.ended_views(self._with_offers):
            self._keep(view)
        version = world.all_gangs.version, world.num_node_changes
        if version != self._version:
            self._version = version
            self._usage.extend((now_s, *world.all_gangs.usage(), world.num_devices, world.num_kept))

    def _remember(self, view: JobView) -> None:
        self.ended.setdefault(view.id, view)

    def usage(self) -> Usage:
        columns = np.array(self._usage).reshape(-1, 5).T
        return Usage(*columns)


class EventLog:
    """Keeps every line of every job's story, and each job as it was at its end.

    Lines are written out where they are kept: a run without this log does not pay for them.
    """

    def __init__(self) -> None:
        self.stories: list[tuple[str, Story]] = []  #: (job id, line), in order of time
        self._ended: dict[str, JobView] = {}

    def listen(self, core: PlatformCore) -> None:
        """Collect the head's new story lines and the jobs that have ended. To be called after each turn."""
        self.stories += core.stories()
        self._ended |= {view.id: view for view in core.ended_views()}

    def jobs(self, core: PlatformCore) -> list[JobView]:
        """All that the head has known, those last that are open at the end of the run."""
        return [*self._ended.values(), *core.views()]
