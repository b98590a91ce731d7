"""Charts of an experiment on logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from swell.arrays import FloatArray, IntArray
from swell_papers.findings import Chart, Panel, Values, chart, panel
from swell_papers.log_cases import CHANGED, EVERYONE, Case, CaseResult, LogComparison, Simulated
from swell_papers.measures import Measure


def charts_of(experiment: LogComparison, results: Sequence[CaseResult]) -> Iterable[Chart]:
    """The charts that the experiment's `picture` names."""
    if experiment.picture == "time":
        yield _over_time(experiment, results)
        return
    if experiment.picture == "allocation":
        yield from _allocation(experiment, results)
        return
    for measure in experiment.measures:
        is_first = measure is experiment.measures[0]
        name = experiment.name if is_first else f"{experiment.name}-{measure.name}"
        tell = _by_policy if experiment.picture == "policies" else _by_case
        yield tell(experiment, name, measure, results)


def _by_policy(
    experiment: LogComparison, name: str, measure: Measure, results: Sequence[CaseResult]
) -> Chart:
    policies = tuple(dict.fromkeys(result.line.policy for result in results))
    sources: dict[str, Callable[[CaseResult], float | None]] = {
        "paper": lambda result: result.line.paper.get(measure.name),
        "published simulator, strict": lambda result: result.theirs(measure, is_strict=True),
        "Swell, everyone": lambda result: result.ours(EVERYONE, measure),
        "Swell, changed": lambda result: result.ours(CHANGED, measure),
    }

    told = [case for case in experiment.cases if any(line.paper or line.is_compared for line in case.lines)]

    def of_case(case: Case) -> Panel:
        found = {result.line.policy: result for result in results if result.case is case}
        return panel(
            case.name,
            {
                label: [tell(found[name]) if name in found else None for name in policies]
                for label, tell in sources.items()
            },
        )

    panels = map(of_case, told or experiment.cases)
    return chart(name, experiment.title, "bars", ("policy", policies), measure.label, panels)


def _by_case(experiment: LogComparison, name: str, measure: Measure, results: Sequence[CaseResult]) -> Chart:
    cases = tuple(case.name for case in experiment.cases)
    policies = dict.fromkeys(result.line.policy for result in results)
    sources: dict[str, Callable[[CaseResult], float | None]] = {
        "paper": lambda result: result.line.paper.get(measure.name),
        "Swell, changed": lambda result: result.ours(CHANGED, measure),
    }

    def values(policy: str, tell: Callable[[CaseResult], float | None]) -> Values:
        found = {result.case.name: tell(result) for result in results if result.line.policy == policy}
        return [found.get(case) for case in cases]

    kind: Literal["lines", "bars"] = "lines" if experiment.picture == "lines" else "bars"
    panels = (
        panel(label, {policy: values(policy, tell) for policy in policies}) for label, tell in sources.items()
    )
    return chart(name, experiment.title, kind, (experiment.case_label, cases), measure.label, panels)


def _over_time(experiment: LogComparison, results: Sequence[CaseResult]) -> Chart:
    means = {name: run.efficiency_per_hour for name, run in runs_of(results).items()}
    return _by_hour(experiment.name, experiment.title, "cluster efficiency", means)


def _allocation(experiment: LogComparison, results: Sequence[CaseResult]) -> Iterable[Chart]:
    """Devices that jobs hold, and jobs that were submitted and admitted; see `LogComparison.picture`."""
    runs = runs_of(results)
    devices = {name: run.devices_per_hour for name, run in runs.items()}
    yield _by_hour(experiment.name, experiment.title, "devices that jobs hold", devices)
    refusing = {name: run for name, run in runs.items() if run.metrics.rejected}
    if not refusing:
        return
    counts = {"submitted": max((run.submitted_by_hour for run in refusing.values()), key=len)}
    counts |= {f"admitted by {name}": run.admitted_by_hour for name, run in refusing.items()}
    yield _by_hour(f"{experiment.name}-jobs", experiment.title, "jobs so far", counts)


def runs_of(results: Sequence[CaseResult]) -> dict[str, Simulated]:
    """Runs with the honest resize cost, by policy."""
    return {result.line.policy: result.runs[CHANGED] for result in results if CHANGED in result.runs}


def _by_hour(name: str, title: str, y_label: str, shown: Mapping[str, FloatArray | IntArray]) -> Chart:
    """A step for each hour."""
    num_hours = max(map(len, shown.values()))

    def values(column: FloatArray | IntArray) -> Values:
        return [*map(float, column.tolist()), *[None] * (num_hours - len(column))]

    x = ("hours since the first submission", (float(hour) for hour in range(num_hours)))
    panels = [panel("Swell, changed", {label: values(column) for label, column in shown.items()})]
    return chart(name, title, "steps", x, y_label, panels)
