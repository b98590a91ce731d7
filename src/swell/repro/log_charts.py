"""Charts of an experiment on logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from swell.repro.findings import Chart, Panel, Series
from swell.repro.log_cases import CHANGED, EVERYONE, Case, CaseResult, LogComparison, Simulated
from swell.repro.measures import Measure


def charts_of(experiment: LogComparison, results: Sequence[CaseResult]) -> Iterable[Chart]:
    """The charts that the experiment's `picture` names."""
    if experiment.picture == "time":
        yield _over_time(experiment, results)
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

    def panel(case: Case) -> Panel:
        of_case = {result.line.policy: result for result in results if result.case is case}
        return Panel(
            case.name,
            tuple(
                Series(label, tuple(tell(of_case[name]) if name in of_case else None for name in policies))
                for label, tell in sources.items()
            ),
        )

    return Chart(
        name=name,
        title=experiment.title,
        kind="bars",
        x=policies,
        x_label="policy",
        y_label=measure.label,
        panels=tuple(map(panel, told or experiment.cases)),
    )


def _by_case(experiment: LogComparison, name: str, measure: Measure, results: Sequence[CaseResult]) -> Chart:
    cases = tuple(case.name for case in experiment.cases)
    policies = dict.fromkeys(result.line.policy for result in results)
    sources: dict[str, Callable[[CaseResult], float | None]] = {
        "paper": lambda result: result.line.paper.get(measure.name),
        "Swell, changed": lambda result: result.ours(CHANGED, measure),
    }

    def series(policy: str, tell: Callable[[CaseResult], float | None]) -> Series:
        values = {result.case.name: tell(result) for result in results if result.line.policy == policy}
        return Series(policy, tuple(values.get(case) for case in cases))

    return Chart(
        name=name,
        title=experiment.title,
        kind="lines" if experiment.picture == "lines" else "bars",
        x=cases,
        x_label=experiment.case_label,
        y_label=measure.label,
        panels=tuple(
            Panel(label, tuple(series(policy, tell) for policy in policies))
            for label, tell in sources.items()
        ),
    )


def _over_time(experiment: LogComparison, results: Sequence[CaseResult]) -> Chart:
    runs: dict[str, Simulated] = {
        result.line.policy: result.runs[CHANGED] for result in results if CHANGED in result.runs
    }
    num_hours = max(len(run.efficiency_per_hour) for run in runs.values())

    def values(run: Simulated) -> tuple[float | None, ...]:
        means = run.efficiency_per_hour.tolist()
        return (*means, *[None] * (num_hours - len(means)))

    return Chart(
        name=experiment.name,
        title=experiment.title,
        kind="steps",
        x=tuple(float(hour) for hour in range(num_hours)),
        x_label="hours since the first submission",
        y_label="cluster efficiency",
        panels=(Panel("Swell, changed", tuple(Series(name, values(run)) for name, run in runs.items())),),
    )
