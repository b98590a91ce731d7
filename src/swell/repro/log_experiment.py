"""An experiment that runs policies on logs: what it declares, and its runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from swell.assemble import new_core
from swell.model.errors import InvalidInput
from swell.model.job import Phase
from swell.model.snapshot import FloatArray
from swell.repro.experiment import Context
from swell.repro.findings import Findings
from swell.repro.measures import HOUR_S, Measure, with_deadline
from swell.repro.published import Run, read_run
from swell.settings import Settings, make_settings
from swell.sim.metrics import Metrics, metrics_of
from swell.sim.outcome import Outcome
from swell.sim.profiles.load import load
from swell.sim.simulate import Scenario, simulate
from swell.sim.stage import SETTINGS, Conditions, set_up
from swell.sim.traces.fill import fill
from swell.sim.traces.read import read
from swell.sim.traces.rules import Rules
from swell.sim.traces.workload import Workload

#: Resize costs: the honest one, and how the published simulator charges the same amounts.
CHANGED, EVERYONE = "changed", "everyone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A policy in a case, and what was published of it.

    Args:
        policy: ours of this name is run, if there is one.
        paper: measure -> figure that the paper prints.
        run: per-job outcomes of the published simulator, below the data folder.
        slot_s: leeway of its own count.
        counts: (own, strict) number of jobs in time of a published run whose outcomes are not at hand.
    """

    policy: str
    paper: Mapping[str, float] = field(default_factory=dict)
    run: str | None = None
    slot_s: float = 0.0
    counts: tuple[int, int] | None = None
    is_ours: bool = True

    @property
    def is_compared(self) -> bool:
        return self.run is not None or self.counts is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One log on one cluster; files are named below the data folder."""

    name: str
    trace: str
    profiles: str
    cluster: tuple[int, int]  #: nodes, devices of each
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The mean of the first measure over these cases is to be at least this, and no promise is to break."""

    policy: str
    cases: tuple[str, ...]
    at_least: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What is kept of a run of ours. A dict's keys are measures' names."""

    metrics: Metrics
    values: Mapping[str, float | None]
    in_time: frozenset[str]
    late: tuple[tuple[float, int], ...]  #: of each job that ended late: by how many seconds, its resizes
    efficiency_per_hour: FloatArray  #: (H,) mean of each hour since the first submission


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line of one case."""

    case: Case
    line: Line
    workload: Workload
    runs: Mapping[str, Simulated]  #: by resize cost
    published: Run | None  #: None also where its file is missing

    def ours(self, cost: str, measure: Measure) -> float | None:
        run = self.runs.get(cost)
        return None if run is None else run.values[measure.name]

    def count(self, cost: str, name: str) -> int | None:
        """A field of the metrics."""
        run = self.runs.get(cost)
        value: int | None = None if run is None else getattr(run.metrics, name)
        return value

    def theirs(self, measure: Measure, is_strict: bool) -> float | None:
        """The published simulator's, by its own count or strictly."""
        if self.published is not None:
            leeway_s = 0.0 if is_strict else self.line.slot_s
            return measure.of_run(self.published, self.workload, leeway_s)
        if self.line.counts is None or not measure.is_share:
            return None
        return self.line.counts[is_strict] / len(with_deadline(self.workload))

    def points(self, measure: Measure) -> float | None:
        """By how much we are above it under its own resize costs, both counted strictly."""
        ours, theirs = self.ours(EVERYONE, measure), self.theirs(measure, is_strict=True)
        return None if ours is None or theirs is None else 100.0 * (ours - theirs)


@dataclass(frozen=True, kw_only=True)
class LogExperiment:
    """Implements `experiment.Experiment`.

    Where something was published to compare with run by run, a policy runs with both resize costs, else
    with the honest one alone.

    Args:
        measures: the first is what `bars` are about.
        why: policy -> why it differs from the published simulator by more than rounding.
        picture: a panel a case with its policies; the paper's and our policies over the cases; or cluster
            efficiency over time.
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    measures: tuple[Measure, ...]
    remarks: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    picture: Literal["policies", "cases", "lines", "time"] = "policies"

    @cached_property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for case in self.cases for name in (case.trace, case.profiles)))

    def run(self, context: Context) -> Findings:
        from swell.repro.log_findings import findings_of

        results = [result for case in self.cases for result in _results(self, case, context)]
        return findings_of(self, results, context)


def head_settings() -> Settings:
    return make_settings(SETTINGS)


def conditions(case: Case, resize_cost: str, seed: int) -> Conditions:
    nodes, devices = case.cluster
    return Conditions(nodes=nodes, devices_per_node=devices, resize_cost=resize_cost, seed=seed)


def _results(experiment: LogExperiment, case: Case, context: Context) -> Iterator[Result]:
    log = read(context.data / case.trace)
    profiles = load(str(context.data / case.profiles))
    workload = fill(log, profiles, Rules(seed=context.seed))
    workload = msgspec.structs.replace(workload, source=case.trace)  # a name that is the same everywhere
    costs = {
        line.policy: (CHANGED, EVERYONE)[: 1 + line.is_compared]
        for line in case.lines
        if line.is_ours and (context.policies is None or line.policy in context.policies)
    }
    scenarios = {
        cost: set_up(workload, profiles, conditions(case, cost, context.seed))
        for cost in (CHANGED, EVERYONE)
        if any(cost in wanted for wanted in costs.values())
    }
    found = {
        (policy, cost): _run(experiment, f"{case.name} {policy} {cost}", policy, scenarios[cost], context)
        for policy, wanted in costs.items()
        for cost in wanted
    }
    for measure in experiment.measures:
        found = _in_units(found, measure)
    for line in case.lines:
        yield Result(
            case=case,
            line=line,
            workload=workload,
            runs={cost: found[line.policy, cost] for cost in costs.get(line.policy, ())},
            published=_published(context.data, line),
        )


def _run(
    experiment: LogExperiment, label: str, policy: str, scenario: Scenario, context: Context
) -> Simulated:
    with context.watch(f"{experiment.name} {label}", len(scenario.jobs)) as advance:
        outcome = simulate(new_core(policy, head_settings()), scenario, advance, with_offers=False)
    metrics = metrics_of(outcome)
    return Simulated(
        metrics=metrics,
        values={measure.name: measure.of(outcome, metrics) for measure in experiment.measures},
        in_time=frozenset(job.id for job in outcome.jobs if job.is_kept),
        late=tuple(
            (job.end_s - job.deadline_s, job.num_resizes)
            for job in outcome.jobs
            if job.is_kept is False
            and job.phase is Phase.SUCCEEDED
            and job.end_s is not None
            and job.deadline_s is not None
        ),
        efficiency_per_hour=efficiency_per_hour(outcome, metrics.makespan_s),
    )


def efficiency_per_hour(outcome: Outcome, makespan_s: float) -> FloatArray:
    """(H,) mean cluster efficiency (Equation 8) of each hour; the last one as far as it was needed."""
    usage = outcome.usage
    if makespan_s <= 0.0:
        return np.zeros(0)
    edges_s = np.append(np.arange(0.0, makespan_s, HOUR_S), makespan_s)
    done = np.append(0.0, np.cumsum(usage.efficiency[:-1] * np.diff(usage.at_s)))
    at = np.maximum(np.searchsorted(usage.at_s, edges_s, side="right") - 1, 0)
    so_far = done[at] + usage.efficiency[at] * (edges_s - usage.at_s[at])
    means: FloatArray = np.diff(so_far) / np.diff(edges_s) / outcome.num_devices
    return means


def _in_units(
    found: Mapping[tuple[str, str], Simulated], measure: Measure
) -> dict[tuple[str, str], Simulated]:
    """Values of a relative measure: its policy's under the same cost, divided by each."""

    def value(policy: str, cost: str) -> float | None:
        own = found[policy, cost].values[measure.name]
        if measure.unit_of is None:
            return own
        unit = found.get((measure.unit_of, cost))
        theirs = None if unit is None else unit.values[measure.name]
        return theirs / own if theirs is not None and own else None

    return {
        (policy, cost): replace(run, values={**run.values, measure.name: value(policy, cost)})
        for (policy, cost), run in found.items()
    }


def _published(data: Path, line: Line) -> Run | None:
    if line.run is None or not (data / line.run).exists():
        return None
    try:
        return read_run(data / line.run)
    except InvalidInput as error:
        raise InvalidInput(f"{error}; mend it, or move it away to do without") from error
