"""Which policy meets how many deadlines, on published logs and on made-up ones."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from swell.core.platform_core import PlatformCore
from swell.model.job import AfterRefusal
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.metrics import metrics_of
from swell.sim.profiles.built_in import load
from swell.sim.profiles.curve import ProfileSet
from swell.sim.simulate import simulate
from swell.sim.traces.entry import Trace, TraceJob, Workload, since
from swell.sim.traces.fill import FillRules, fill
from swell.sim.traces.generate import Arrivals, Demand, generate, poisson
from swell.sim.traces.read import read
from swell_papers.elasticflow import A100, LOG_CASES
from swell_papers.experiment import Claim, Context, Key, Measure, Paper, Picture, Results, Study
from swell_papers.findings import Heading, Part, table
from swell_papers.variants import variant_core

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
    arrivals: Callable[[float], Arrivals] = poisson,
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
    """Read once; jobs whose model has no profile get another one. Raises TraceError, OSError."""
    profiles = _profiles(str(data / on.profiles))
    return profiles, fill(on.trace(data, seed), profiles, FillRules(seed=seed, unknown="draw"))


@cache
def _profiles(folder: str) -> ProfileSet:
    return load(folder)


# What is run

OURS = "elasticflow"
#: Policies that promise deadlines by a simpler rule.
GATES = ("edf_admission", "edf_admission_largest", "chronus")
#: Policies that refuse jobs; those that they refuse are also tried without a promise.
REFUSING = (OURS, *GATES)
#: Every rule that promises nothing, once: not the variants that its paper compares it with.
RIVALS = (
    *("fifo", "equal_share", "edf", "edf_elastic", "srtf", "tiresias", "gandiva", "themis"),
    *("pollux", "hu", "bftrainer", "saxena"),
)
#: Policies that promise by the rule of `OURS`, or by that which its paper prints, and are no rivals of it.
KIN = ("unified", "elasticflow_paper")
#: Those that are compared where none are named.
COMPARED = (OURS, *KIN, *GATES, *RIVALS)
#: Behind the name of a policy: jobs that it refuses are tried without a promise.
SOFT = f" --refused {AfterRefusal.SOFT.value}"
#: A run that takes so many times the CPU time of ours, and so many seconds at least, is cut off.
MOST_TIMES, LEAST_LIMIT_S = 3.0, 20.0
#: A difference in deadline satisfaction that is no difference.
FORGIVEN = 0.005


class PromiseOutcome(NamedTuple):
    """What came of one policy on one log; `met` is None for a run that took too long and was cut off."""

    met: float | None  #: deadline satisfaction
    cpu_s: float
    met_device_h: float = 0.0  #: device-hours that the jobs take on one device each that met their deadlines
    admitted: int = 0
    admitted_late: int = 0
    met_unpromised: int = 0


class _TooSlow(Exception):
    """The run has taken as long as it may."""


def lines_of(policies: Iterable[str]) -> Iterator[str]:
    """Ours is always among them, for others are compared with it."""
    for policy in dict.fromkeys((OURS, *policies)):
        yield policy
        if policy in REFUSING:
            yield policy + SOFT


def cases(context: Context) -> dict[Key, Callable[[], PromiseOutcome]]:
    """Each chosen policy on each chosen input. Raises InvalidInput."""
    inputs = context.chosen({on.name: on for on in INPUTS}, "input")
    PAPER.check_files((name for on in inputs for name in on.files), context.data)
    policies = COMPARED if context.policies is None else sorted(context.policies)
    return {
        (line, on.name): partial(outcome, on, line, context.data, context.seed)
        for on in inputs
        for line in lines_of(policies)
    }


@cache
def outcome(on: PromiseInput, line: str, data: Path, seed: int) -> PromiseOutcome:
    """Simulate; others than ours are cut off where they take too long beside it."""
    limit_s = float("inf")
    if line != OURS:
        limit_s = max(LEAST_LIMIT_S, MOST_TIMES * outcome(on, OURS, data, seed).cpu_s)
    profiles, workload = inputs_of(on, data, seed)
    refused = AfterRefusal.SOFT if line.endswith(SOFT) else AfterRefusal.END
    nodes, devices = on.cluster
    conditions = Conditions(nodes=nodes, devices_per_node=devices, seed=seed, refused=refused)
    scenario, begun_s = set_up(workload, profiles, conditions), time.process_time()

    def watch(core: PlatformCore) -> None:
        if time.process_time() - begun_s > limit_s:
            raise _TooSlow

    core = variant_core(line.removesuffix(SOFT), SETTINGS)
    try:
        metrics = metrics_of(simulate(core, scenario, listen=watch, with_offers=False))
    except _TooSlow:
        return PromiseOutcome(met=None, cpu_s=limit_s)
    return PromiseOutcome(
        met=metrics.deadline_satisfaction,
        cpu_s=time.process_time() - begun_s,
        met_device_h=metrics.met_device_h,
        admitted=metrics.admitted,
        admitted_late=metrics.admitted_late,
        met_unpromised=metrics.met_unpromised,
    )


def best_of(some: Callable[[str], bool], on: str, found: Results[PromiseOutcome]) -> float:
    """The most deadlines that one of these lines meets on an input. Raises KeyError: none was run."""
    met = [
        one.met
        for (line, name), one in found.items()
        if name == on and one.met is not None and some(str(line))
    ]
    if not met:
        raise KeyError(on)
    return max(met)


def is_rival(line: str) -> bool:
    return line.removesuffix(SOFT) not in (OURS, *KIN)


def claims_of(on: str) -> Iterator[Claim[PromiseOutcome]]:
    """Ours keeps its promises, and meets as many deadlines as the best of the others."""
    beside = (
        (OURS, "the best gate", GATES.__contains__),
        (OURS + SOFT, "the best other policy", is_rival),
    )
    yield Claim(
        text=f"{on}: broken promises",
        figure=0.0,
        of=lambda found: found[OURS, on].admitted_late,
        way="<=",
        is_target=True,
    )
    for line, whom, some in beside:
        yield Claim(
            text=f"{on}: {line}, beside {whom} less {FORGIVEN}",
            figure=lambda found, some=some: best_of(some, on, found) - FORGIVEN,  # type: ignore[misc]
            of=lambda found, line=line: found[line, on].met or 0.0,  # type: ignore[misc]
            way=">=",
            is_target=True,
        )


def _truth(context: Context, found: Results[PromiseOutcome]) -> Iterator[str]:
    settings = ", ".join(f"{name}={value:g}" for name, value in SETTINGS.items())
    told = f"seed {context.seed}; settings {settings}"
    yield f"resize cost changed; noise 0, no node fails, profiles are the truth; {told}"
    known = {name for _, name in found}
    yield from (f"{on.name}: {on.title}" for on in INPUTS if on.name in known)


def _by_input(context: Context, found: Results[PromiseOutcome]) -> Iterator[Part]:
    heading: Heading = ("input", "policy", *((measure.name, measure.digits) for measure in MEASURES))
    rows = ((on, line, *(measure.of(one) for measure in MEASURES)) for (line, on), one in found.items())
    caption = f"without a figure: cut off after {MOST_TIMES:g} times the CPU time of `{OURS}`"
    yield table("promises-inputs", caption, heading, rows)


Column = Measure[PromiseOutcome]
MEASURES = (
    Column("met", lambda one: one.met),
    Column("met, device-hours", lambda one: one.met_device_h, 1),
    Column("admitted", lambda one: one.admitted, 1),
    Column("late", lambda one: one.admitted_late, 1),
    Column("met without a promise", lambda one: one.met_unpromised, 1),
    Column("CPU, s", lambda one: one.cpu_s, 1),
)
PAPER = Paper.with_page(
    "promises",
    "Deadlines met, by policy",
    "they are traces and throughput tables of ElasticFlow's public artifact, as "
    "elasticflow/traces/*.csv[.gz] and elasticflow/throughputs_{A100,T4}/MODEL.csv, and Philly's log, as "
    "philly/philly.csv.gz",
    Study(
        name="promises",
        title="Deadlines met on every input",
        cases=cases,
        keys=("policy",),
        measures=MEASURES,
        caption="means over the inputs",
        pictures=(Picture(measures=("met",), x="policy", y_label="deadline satisfaction"),),
        tell=_by_input,
        claims=[claim for on in INPUTS for claim in claims_of(on.name)],
        truth=_truth,
    ),
)
