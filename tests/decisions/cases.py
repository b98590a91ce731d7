"""Runs that together use every feature of a decision, under every policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec
from tests.decisions.jobs import Mix, crowd

from swell.core.platform_core import PlatformCore
from swell.model.event import (
    AnyEvent,
    ClockStepped,
    DeadlineChangeAsked,
    DrainRequested,
    NodeCleared,
    NodeJoined,
    NodeLost,
    NodeWarned,
    Opened,
    QuotasSet,
)
from swell.model.node import Node
from swell.model.quota import Quota
from swell.model.target import ShareKind
from swell.policies.registry import POLICIES, keeps_quotas
from swell.scheduler import new_core
from swell.settings import Settings
from swell.sim.change_cost import change_cost
from swell.sim.faults import FaultRates, FaultSource
from swell.sim.gangs import GangTimes
from swell.sim.pool import NodeInterval, Pool
from swell.sim.simulate import cluster
from swell.sim.world import Scenario, SimulatedWorld

QUOTAS = {"ana": Quota(devices=6), "ben": Quota(share=0.25)}
FAULTS = FaultRates(trial=0.08, launch=0.05, resize=0.12, suspend=0.15, loss=0.06, warning=0.05)
TIMINGS = GangTimes(profiling_s=4.0, save_s=1.5, exit_s=0.5, report_s=45.0, checkpoint_interval_s=120.0)

Others = list[AnyEvent]

#: Gangs save every 120 s (`TIMINGS`), however the platform would choose.
SETTINGS = Settings(given={"min_hold_s": 10.0, "report_plan_s": 10.0, "checkpoint_interval_s": 30.0})


@dataclass(frozen=True, slots=True)
class Case:
    """A run of one policy."""

    name: str
    policy: str
    scenario: Callable[[], Scenario]
    max_turns: int  #: the run ends there
    parameters: Mapping[str, float] = field(default_factory=dict)  #: of the policy

    def core(self) -> PlatformCore:
        parameters = {f"{self.policy}.{name}": value for name, value in self.parameters.items()}
        return new_core(self.policy, msgspec.structs.replace(SETTINGS, parameters=parameters))

    def world(self) -> SimulatedWorld:
        made = self.scenario()
        others = sorted(
            [*made.others, *(made.pool.changes() if made.pool else ())], key=lambda event: event.at_s
        )
        return SimulatedWorld(replace(made, others=others, pool=None))


def quotas(policy: str, at_s: float = 0.0) -> Others:
    """None where the policy keeps none."""
    return [QuotasSet(at_s=at_s, quotas=QUOTAS)] if keeps_quotas(POLICIES[policy]) else []


def borrowed(kind: str) -> Pool:
    """Two nodes that are there now and then, and whose owner says so half a minute before he takes them."""
    intervals = (
        NodeInterval("b0", 40.0, 190.0, 4),
        NodeInterval("b1", 60.0, 150.0, 8),
        NodeInterval("b1", 200.0, 330.0, 8),
    )
    return Pool(intervals, "drawn", kind=kind, warning_s=30.0)


def mixed(policy: str, seed: int) -> Scenario:
    """Two owned nodes and borrowed ones; every fault, changes of deadlines, a node that is drained, another
    that fails, quotas that come late.
    """
    nodes = cluster(2, 8, "gpu")
    told: Others = [
        DeadlineChangeAsked(at_s=90.0, job_id="job002", deadline_s=900.0, accept_until_s=2000.0),
        DeadlineChangeAsked(at_s=120.0, job_id="job005", deadline_s=260.0),
        NodeWarned(at_s=130.0, name="n1", why="repair"),
        NodeCleared(at_s=180.0, name="n1"),
    ]
    fails: Others = [NodeLost(at_s=210.0, name="n0"), NodeJoined(at_s=250.0, node=nodes[0])]
    return Scenario(
        nodes=nodes,
        jobs=crowd(Mix(num_jobs=15, span_s=280.0), seed),
        cost=change_cost("profile", 16),
        timings=replace(TIMINGS, notice_s=5.0),
        others=[*told, *fails, *quotas(policy, 50.0)],
        faults=FaultSource(FAULTS, seed),
        pool=borrowed("gpu"),
    )


def kinds(policy: str, seed: int) -> Scenario:
    """Three kinds of devices; the platform is drained and opened again, and the clock is set."""
    there = (
        ("c0", "cpu", 4),
        ("a0", "a100", 8),
        ("a1", "a100", 8),
        ("h0", "h100", 8),
    )
    nodes = tuple(
        Node(name=name, devices=tuple(f"{name}.{one}" for one in range(num)), kind=kind)
        for name, kind, num in there
    )
    told: Others = [
        ClockStepped(at_s=100.0, calendar_offset_s=7.0),
        DrainRequested(at_s=160.0),
        Opened(at_s=190.0),
    ]
    mix = Mix(num_jobs=14, span_s=300.0, kinds=("cpu", "a100", "h100"), median_s=200.0)
    return Scenario(
        nodes=nodes,
        jobs=crowd(mix, seed),
        cost=change_cost("changed", 28),
        timings=TIMINGS,
        others=[*told, *quotas(policy)],
        pool=borrowed("h100"),
    )


def cores(policy: str, seed: int) -> Scenario:
    """Jobs share the cores of their node and tell their losses."""
    mix = Mix(num_jobs=10, span_s=150.0, median_s=150.0, loss_share=1.0, open_batch_share=0.0)
    mode = ShareKind.QUOTA if seed % 2 else ShareKind.WEIGHT
    return Scenario(
        nodes=cluster(2, 8, "cpu", 6.0),
        jobs=crowd(mix, seed),
        cost=change_cost("2", 16),
        timings=replace(TIMINGS, report_s=25.0),
        cpu_shares=mode,
    )


def crowded(policy: str, seed: int) -> Scenario:
    """More than 64 open jobs at a time."""
    mix = Mix(num_jobs=76, span_s=50.0, median_s=900.0, tightness=(0.3, 12.0), arrival_s=10.0)
    return Scenario(
        nodes=cluster(4, 8, "gpu"),
        jobs=crowd(mix, seed),
        cost=change_cost("changed", 32),
        timings=replace(TIMINGS, report_s=60.0),
        others=quotas(policy, 40.0),
    )


def loaded(policy: str, load: float, seed: int) -> Scenario:
    """So much work, of what three nodes can do in the time in which it comes."""
    num_jobs, median_s, num_devices = 32, 240.0, 24
    span_s = num_jobs * 1.4 * median_s / (load * num_devices)
    mix = Mix(
        num_jobs=num_jobs,
        span_s=span_s,
        median_s=median_s,
        tightness=(0.3, 1.6 + load),
        noise=0.05 + 0.05 * (seed % 4),  # of which promises are late now and then
        misread=0.05 * (seed % 3),
        soft_share=0.3,
    )
    return Scenario(
        nodes=cluster(3, 8, "gpu"),
        jobs=crowd(mix, seed),
        cost=change_cost(("changed", "profile", "delay:5")[seed % 3], 24),
        timings=replace(TIMINGS, report_s=60.0),
        others=quotas(policy) if seed % 2 else [],
        faults=FaultSource(FAULTS if seed % 5 == 0 else FaultRates(), seed),
    )


#: Name of a scene -> what it is, and after how many turns it ends.
SCENES: dict[str, tuple[Callable[[str, int], Scenario], int]] = {
    "mixed": (mixed, 180),
    "kinds": (kinds, 130),
    "cores": (cores, 90),
    "crowded": (crowded, 60),
}
#: In the order in which their scenes were drawn, and the places in it of lines that went.
GONE = (9, 15, 17, 22)
RECORDED: tuple[tuple[str, Mapping[str, float]], ...] = (
    ("elasticflow", {}),
    ("elasticflow_paper", {}),
    ("equal_share", {}),
    ("fifo", {}),
    ("edf", {}),
    ("edf", {"largest": 1}),
    ("edf_admission", {}),
    ("edf_admission", {"largest": 1}),
    ("edf", {"elastic": 1}),
    ("srtf", {}),
    ("tiresias", {}),
    ("gandiva", {}),
    ("themis", {}),
    ("chronus", {}),
    ("pollux", {}),
    ("hu", {}),
    ("hu", {"horizon_end": 1}),
    ("hu_greedy", {}),
    ("bftrainer", {}),
    ("bftrainer", {"corrected": 1}),
    ("bftrainer_equal_share", {}),
    ("saxena", {}),
    ("saxena", {"fixed_batch": 1}),
    ("saxena", {"fixed_batch": 2}),
    ("saxena", {"fixed_batch": 3}),
    ("flowcon", {}),
    ("flowcon_fit", {}),
    ("unified", {}),
)
LOADS = (0.1, 0.3, 0.6, 0.9, 1.2, 1.6, 2.5)
#: Of the policy that decides by default.
SEEDS = 17


def small() -> Iterator[Case]:
    """Those of `make test`."""
    for place, (policy, parameters) in enumerate(RECORDED):
        line = " ".join((policy, *(f"{name}={value}" for name, value in parameters.items())))
        for name, (scene, max_turns) in SCENES.items():
            yield Case(
                f"{line}/{name}",
                policy,
                partial(scene, policy, place + sum(place >= one for one in GONE)),
                max_turns,
                parameters,
            )
    for seed in range(SEEDS):
        load = LOADS[seed % len(LOADS)]
        name = f"elasticflow/load {load:g}, seed {seed}"
        yield Case(name, "elasticflow", partial(loaded, "elasticflow", load, 100 + seed), 220)


def cases() -> dict[str, Case]:
    """By name."""
    return {case.name: case for case in small()}
