"""An experiment that runs policies on logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.errors import InvalidInput
from swell.model.job import Phase
from swell.sim.conditions import SETTINGS, set_up
from swell.sim.metrics import metrics_of
from swell.sim.outcome import SimOutcome, Usage
from swell.sim.profiles.load import load
from swell.sim.simulate import Scenario, simulate
from swell.sim.traces.entry import Trace
from swell.sim.traces.fill import fill
from swell.sim.traces.read import read
from swell.sim.traces.rules import FillRules
from swell_papers.experiment import Context
from swell_papers.findings import Findings
from swell_papers.log_cases import (
    CHANGED,
    EVERYONE,
    Case,
    CasePolicy,
    CaseResult,
    LogComparison,
    Simulated,
    conditions,
)
from swell_papers.log_findings import findings_of
from swell_papers.measures import HOUR_S, Measure
from swell_papers.published import Run, read_run
from swell_papers.variants import variant_core


@dataclass(frozen=True, kw_only=True)
class LogExperiment(LogComparison):
    """Implements `experiment.Experiment`."""

    def run(self, context: Context) -> Findings:
        results = [result for case in self.cases for result in _results(self, case, context)]
        return findings_of(self, results, context)


def _results(experiment: LogComparison, case: Case, context: Context) -> Iterator[CaseResult]:
    log = _first(read(context.data / case.trace), case.num_jobs)
    profiles = load(str(context.data / case.profiles))
    workload = fill(log, profiles, FillRules(seed=context.seed))
    workload = msgspec.structs.replace(workload, source=case.trace)  # a name that is the same everywhere
    costs = {
        line.policy: (CHANGED, EVERYONE)[: 1 + line.is_compared]
        for line in case.lines
        if context.is_run(line.policy)
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
        yield CaseResult(
            case=case,
            line=line,
            workload=workload,
            runs={cost: found[line.policy, cost] for cost in costs.get(line.policy, ())},
            published=_published(context.data, line),
        )


def _run(
    experiment: LogComparison, label: str, policy: str, scenario: Scenario, context: Context
) -> Simulated:
    with context.watch(f"{experiment.name} {label}", len(scenario.jobs)) as advance:
        outcome = simulate(variant_core(policy, SETTINGS), scenario, advance, with_offers=False)
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
        devices_per_hour=_means_per_hour(outcome.usage, outcome.usage.used_devices, metrics.makespan_s),
        submitted_by_hour=_num_by_hour([job.submit_s for job in outcome.jobs], metrics.makespan_s),
        admitted_by_hour=_num_by_hour(
            [job.submit_s for job in outcome.jobs if job.phase is not Phase.REJECTED], metrics.makespan_s
        ),
        event_interval_s=_event_interval_s(outcome),
    )


def _event_interval_s(outcome: SimOutcome) -> float:
    """Mean time between arrivals and ends, each moment counted once; 0 if there are fewer than two."""
    ends_s = [job.end_s for job in outcome.jobs if job.end_s is not None and job.phase is not Phase.REJECTED]
    at_s = np.unique([*(job.submit_s for job in outcome.jobs), *ends_s])
    return float(np.diff(at_s).mean()) if len(at_s) > 1 else 0.0


def _first(log: Trace, num_jobs: int | None) -> Trace:
    """The log's first jobs by submission."""
    if num_jobs is None:
        return log
    return msgspec.structs.replace(log, jobs=log.jobs[:num_jobs])


def efficiency_per_hour(outcome: SimOutcome, makespan_s: float) -> FloatArray:
    """(H,) mean cluster efficiency (Equation 8) of each hour; the last one as far as it was needed."""
    return _means_per_hour(outcome.usage, outcome.usage.efficiency, makespan_s) / outcome.num_devices


def _edges_s(makespan_s: float) -> FloatArray:
    """(H + 1,) ends of hours; the last one is as short as the makespan has it."""
    return np.append(np.arange(0.0, makespan_s, HOUR_S), makespan_s)


def _means_per_hour(usage: Usage, values: FloatArray, makespan_s: float) -> FloatArray:
    """(H,) mean over each hour of what is piecewise constant."""
    if makespan_s <= 0.0:
        return np.zeros(0)
    edges_s = _edges_s(makespan_s)
    done = np.append(0.0, np.cumsum(values[:-1] * np.diff(usage.at_s)))
    at = np.maximum(np.searchsorted(usage.at_s, edges_s, side="right") - 1, 0)
    so_far = done[at] + values[at] * (edges_s - usage.at_s[at])
    means: FloatArray = np.diff(so_far) / np.diff(edges_s)
    return means


def _num_by_hour(at_s: Sequence[float], makespan_s: float) -> IntArray:
    """(H,) how many of these moments there were by the end of each hour."""
    if makespan_s <= 0.0:
        return np.zeros(0, dtype=np.int64)
    return np.sort(np.asarray(at_s)).searchsorted(_edges_s(makespan_s)[1:], side="right")


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


def _published(data: Path, line: CasePolicy) -> Run | None:
    if line.run is None or not (data / line.run).exists():
        return None
    try:
        return read_run(data / line.run)
    except InvalidInput as error:
        raise InvalidInput(f"{error}; mend it, or move it away to do without") from error
