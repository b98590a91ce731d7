"""Logs on which policies are compared by the deadlines that they meet: published ones, and made-up ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from swell.sim.profiles.load import load
from swell.sim.profiles.profile_set import ProfileSet
from swell.sim.traces.arrivals import Arrivals, Poisson
from swell.sim.traces.entry import Trace, TraceJob, since
from swell.sim.traces.fill import fill
from swell.sim.traces.generate import Demand, generate
from swell.sim.traces.read import read
from swell.sim.traces.rules import FillRules
from swell.sim.traces.workload import Workload
from swell_papers.elasticflow import A100, LOG_CASES

DAY_S = 86_400.0
#: Figures of jobs and clusters that another figure has too, and a case of jobs whose batch is open.
PARTS_OF_OTHERS, ANY_BATCH = ("6a", "7"), "16x4, any batch"
#: Clusters of Figure 8(b) with 3,600 jobs and more, which take hours under all policies; the figure has them.
LARGE = ("8b-2", "8b-4", "8b-5", "8b-7", "8b-8")
PHILLY = "philly/philly.csv.gz"
#: Days of Philly's log on which a stretch begins, its jobs, and nodes of 8 devices.
PHILLY_DAYS, PHILLY_JOBS, PHILLY_NODES = (75, 90, 105), 1_000, (32, 8)
#: Made-up logs: medians of durations, and loads, which are demanded device-seconds over those there are.
MEDIANS_S, LOADS = {"30 s": 30.0, "2 min": 120.0, "20 min": 1_200.0, "3 h": 10_800.0}, (0.3, 0.8, 2.0)
NUM_GENERATED, GENERATED_NODES = 600, 8


@dataclass(frozen=True, kw_only=True)
class PromiseInput:
    """A log on a cluster.

    Args:
        files: below the data folder, without which it cannot be run.
        profiles: one of `files`.
        trace: of a data folder and a seed; without what the log lacks.
    """

    name: str
    title: str
    files: tuple[str, ...]
    profiles: str
    cluster: tuple[int, int]
    trace: Callable[[Path, int], Trace]

    def workload(self, data: Path, profiles: ProfileSet, seed: int) -> Workload:
        """Jobs whose model has no profile get another one. Raises TraceError."""
        trace = self.trace(data, seed)
        return fill(trace, profiles, FillRules(seed=seed, unknown="draw"))


def of_log(
    name: str,
    title: str,
    file: str,
    cluster: tuple[int, int],
    profiles: str = A100,
    stretch: tuple[float, int] | None = None,
) -> PromiseInput:
    """A log that was published.

    Args:
        stretch: the time from which its first so many jobs are taken, as for `first_from`; None: all.
    """

    def trace(data: Path, seed: int) -> Trace:
        log = read(data / file)
        return log if stretch is None else first_from(log, *stretch)

    return PromiseInput(
        name=name, title=title, files=(file, profiles), profiles=profiles, cluster=cluster, trace=trace
    )


def made_up(
    name: str,
    title: str,
    num_jobs: int,
    median_s: float,
    load: float,
    nodes: int,
    arrivals: Callable[[float], Arrivals] = Poisson,
    number: int | None = None,
) -> PromiseInput:
    """A log that is drawn, on so many nodes of 8 devices.

    Args:
        arrivals: of a mean number of jobs a second.
        number: one log is another draw than that with another number.
    """

    def trace(data: Path, seed: int) -> Trace:
        demand = Demand(median_s=median_s)
        drawn = seed if number is None else 100 * seed + number
        return generate(arrivals(rate_per_s(demand, load, 8 * nodes)), num_jobs, demand, drawn)

    return PromiseInput(name=name, title=title, files=(A100,), profiles=A100, cluster=(nodes, 8), trace=trace)


def first_from(trace: Trace, from_s: float, num_jobs: int) -> Trace:
    """The first so many jobs that were submitted at `from_s` or later, on the log's own clock."""
    start_s = from_s - trace.epoch_s
    jobs: list[TraceJob] = [job for job in trace.jobs if job.submit_s >= start_s][:num_jobs]
    first_s = jobs[0].submit_s if jobs else 0.0
    return msgspec.structs.replace(
        trace, jobs=tuple(since(job, first_s) for job in jobs), epoch_s=trace.epoch_s + first_s
    )


def rate_per_s(demand: Demand, load: float, num_devices: int) -> float:
    """Arrival rate in jobs/s at which jobs demand `load` times the device-seconds there are, on average."""
    mean_s = demand.median_s * math.exp(demand.spread**2 / 2)
    weights = demand.device_weights
    mean_devices = sum(size * weight for size, weight in weights.items()) / sum(weights.values())
    return load * num_devices / (mean_devices * mean_s)


INPUTS: tuple[PromiseInput, ...] = (
    *(
        of_log(
            name,
            f"{Path(case.trace).name.partition('.csv')[0]} on {case.cluster[0]}x{case.cluster[1]}",
            case.trace,
            case.cluster,
            case.profiles,
        )
        for figure, cases in LOG_CASES.items()
        if figure not in PARTS_OF_OTHERS
        for case in cases
        if case.name != ANY_BATCH
        if (name := f"{figure}-{case.name}".replace(" %", "%")) not in LARGE
    ),
    *(
        of_log(
            f"philly-{day}-{nodes}x8",
            f"Philly's log, {PHILLY_JOBS:,} jobs from day {day} on, on {nodes}x8",
            PHILLY,
            (nodes, 8),
            stretch=(day * DAY_S, PHILLY_JOBS),
        )
        for day in PHILLY_DAYS
        for nodes in PHILLY_NODES
    ),
    *(
        made_up(
            f"made-{told.replace(' ', '')}-{load:g}",
            f"{NUM_GENERATED} made-up jobs, median {told}, load {load:g}, on {GENERATED_NODES}x8",
            NUM_GENERATED,
            median_s,
            load,
            GENERATED_NODES,
        )
        for told, median_s in MEDIANS_S.items()
        for load in LOADS
    ),
)


@cache
def inputs_of(on: PromiseInput, data: Path, seed: int) -> tuple[ProfileSet, Workload]:
    """Read once. Raises TraceError, OSError."""
    profiles = _profiles(str(data / on.profiles))
    return profiles, on.workload(data, profiles, seed)


@cache
def _profiles(folder: str) -> ProfileSet:
    return load(folder)
