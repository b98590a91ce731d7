"""One run: a workload, a cluster, a head and a truth; what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from swell.core import loop
from swell.core.core import Core
from swell.model.cluster import Node
from swell.sim.change_cost import ChangeCost
from swell.sim.gangs import Habits
from swell.sim.job import SimJob
from swell.sim.occurrence import Occurrence
from swell.sim.outcome import Outcome, outcome_of, too_large
from swell.sim.recorder import Recorder
from swell.sim.world import SimulatedWorld
from swell.solvers.compiled import compile_always

#: So many jobs make so many plans that machine code for the loops of a policy is worth its import.
NUM_JOBS_WORTH_COMPILING = 100
#: Each is a thing that the head knows by name: ten times what decisions are measured on is as far as it goes.
MAX_DEVICES = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything outside the head."""

    nodes: Sequence[Node]
    jobs: Sequence[SimJob]
    cost: ChangeCost
    habits: Habits = field(default_factory=Habits)
    others: Sequence[tuple[float, Occurrence]] = ()


def simulate(
    core: Core,
    scenario: Scenario,
    progress: Callable[[int], None] = lambda num_ended: None,
    listen: Callable[[Core], None] = lambda core: None,
) -> Outcome:
    """Run to the end. The same head and scenario lead to the same outcome, its timings apart.

    A job that could not even have its smallest gang if the cluster were its own is refused at the door,
    as the platform refuses it at submission.

    Args:
        core: a fresh one, which is used up.
        progress: called now and then with the number of jobs that have ended.
        listen: called after each turn of the head.
    """
    if len(scenario.jobs) >= NUM_JOBS_WORTH_COMPILING:
        compile_always()
    recorder = Recorder(core)
    num_devices = sum(len(node.devices) for node in scenario.nodes)
    fitting = [job for job in scenario.jobs if job.smallest_devices <= num_devices]
    num_told = 0

    def end_turn(now_s: float) -> None:
        nonlocal num_told
        recorder.end_turn(now_s, world.tally, world.version)
        listen(core)
        if len(recorder.ended) != num_told:
            num_told = len(recorder.ended)
            progress(num_told)

    world = SimulatedWorld(scenario.nodes, fitting, scenario.cost, scenario.habits, scenario.others, end_turn)
    begun_s = time.process_time()
    loop.run(world, recorder, core)
    cpu_s = time.process_time() - begun_s
    views = recorder.ended | {view.id: view for view in core.views()}
    return Outcome(
        jobs=tuple(
            outcome_of(job, views[job.id], world.now_s) if job.id in views else too_large(job, num_devices)
            for job in scenario.jobs
        ),
        usage=recorder.usage(),
        num_devices=num_devices,
        end_s=world.now_s,
        num_events=len(recorder.decision_s),
        decision_s=np.array(recorder.decision_s),
        cpu_s=cpu_s,
    )


def cluster(num_nodes: int, devices_per_node: int, kind: str) -> tuple[Node, ...]:
    """Equal nodes of one rack, devices named `n0.0`, `n0.1`, ..."""
    return tuple(
        Node(
            name=f"n{node}",
            devices=tuple(f"n{node}.{device}" for device in range(devices_per_node)),
            kind=kind,
        )
        for node in range(num_nodes)
    )
