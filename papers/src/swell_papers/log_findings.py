"""Findings of an experiment on logs: what is shown of its runs."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from swell.arrays import IntArray
from swell.sim.conditions import SETTINGS, truth_of
from swell_papers.experiment import Claim, Context, told_claims
from swell_papers.findings import Cell, Findings, Part, Table, findings, table
from swell_papers.log_cases import (
    CHANGED,
    EVERYONE,
    Bar,
    CaseResult,
    LogComparison,
    conditions,
)
from swell_papers.log_charts import charts_of, runs_of
from swell_papers.log_ratios import OURS, ratios
from swell_papers.measures import Measure
from swell_papers.program_version import program_version
from swell_papers.variants import variant_policy

#: Differences to the published simulator that want an explanation, in points.
POINTS = 3.0
#: Of the table of what is drawn by the hour.
HOURS_A_ROW = 6


def findings_of(experiment: LogComparison, results: Sequence[CaseResult], context: Context) -> Findings:
    """Tables, charts, remarks and missed targets of an experiment's results."""
    by_key = {(result.case.name, result.line.policy): result for result in results if result.runs}
    differences = _differences(experiment, results)
    parts: list[Part | None] = [
        *(_table(experiment, measure, results) for measure in experiment.measures),
        *told_claims(experiment.name, _claims(experiment), by_key),
        _not_public(experiment) if experiment.not_public else None,
        *ratios(experiment, results),
        _allocation_table(experiment, results) if experiment.picture == "allocation" else None,
        *charts_of(experiment, results),
        *experiment.remarks,
        *_intervals(experiment, results),
        *_missing(results),
        *_broken(results),
        *(_told(experiment, policy, cases) for policy, cases in differences.items()),
    ]
    return findings(
        experiment.name,
        experiment.title,
        _truth(experiment, results, context),
        (part for part in parts if part is not None),
        ((policy, experiment.why[policy]) for policy in differences if policy in experiment.why),
    )


# Figures


def _table(experiment: LogComparison, measure: Measure, results: Sequence[CaseResult]) -> Table:
    """Ours beside the published ones; columns in which there is nothing are left out."""
    is_first = measure is experiment.measures[0]
    own, strict = "own" if measure.is_share else "published", "strict"
    told: list[tuple[str, Callable[[CaseResult], Cell]]] = [
        ("case", lambda result: result.case.name),
        ("policy", lambda result: result.line.policy),
        ("paper", lambda result: result.line.paper.get(measure.name)),
        (own, lambda result: result.theirs(measure, is_strict=False)),
        (strict, lambda result: result.theirs(measure, is_strict=True) if measure.is_share else None),
        ("everyone", lambda result: result.ours(EVERYONE, measure)),
        ("points", lambda result: result.points(measure) if measure.is_share else None),
        ("changed", lambda result: result.ours(CHANGED, measure)),
    ]
    if is_first:
        told += [
            ("adm", lambda result: result.count(CHANGED, "admitted")),
            ("rej", lambda result: result.count(CHANGED, "rejected")),
            ("late", lambda result: result.count(CHANGED, "admitted_late")),
        ]
    digits = {"points": 1, **dict.fromkeys(("paper", own, strict, "everyone", "changed"), measure.digits)}
    rows = [[tell(result) for _, tell in told] for result in results]
    kept = [at for at in range(len(told)) if any(row[at] is not None for row in rows)]
    return table(
        experiment.name if is_first else f"{experiment.name}-{measure.name}",
        measure.label,
        ((name, digits.get(name, 3)) for name in (told[at][0] for at in kept)),
        ([row[at] for at in kept] for row in rows),
    )


def _not_public(experiment: LogComparison) -> Table:
    policies = dict.fromkeys(policy for of_case in experiment.not_public.values() for policy in of_case)
    return table(
        f"{experiment.name}-not-public",
        f"{experiment.measures[0].label} in the paper, on logs that were not published",
        ("case", *policies, "here"),
        (
            (case, *(printed.get(policy) for policy in policies), "not run: the log is not public")
            for case, printed in experiment.not_public.items()
        ),
    )


def _allocation_table(experiment: LogComparison, results: Sequence[CaseResult]) -> Table:
    """The curves of `log_charts`, in longer steps."""
    runs = runs_of(results)
    num_hours = max((len(run.devices_per_hour) for run in runs.values()), default=0)
    refusing = [name for name, run in runs.items() if run.metrics.rejected]

    def row(first: int) -> Iterator[Cell]:
        yield first
        for run in runs.values():
            some = run.devices_per_hour[first : first + HOURS_A_ROW]
            yield float(some.mean()) if len(some) else 0.0
        last = first + HOURS_A_ROW - 1
        if refusing:
            yield max(_at(run.submitted_by_hour, last) for run in runs.values())
        for name in refusing:
            yield _at(runs[name].admitted_by_hour, last)

    counts = ("submitted", *(f"adm {name}" for name in refusing)) if refusing else ()
    return table(
        f"{experiment.name}-hours",
        f"devices that jobs hold, means of {HOURS_A_ROW} hours; jobs submitted and admitted by their end",
        ("from hour", *((name, 1) for name in runs), *counts),
        (row(first) for first in range(0, num_hours, HOURS_A_ROW)),
    )


def _at(column: IntArray, hour: int) -> int:
    return int(column[min(hour, len(column) - 1)]) if len(column) else 0


# What was to be reached

#: By case and policy.
Results = Mapping[tuple[str, str], CaseResult]


def _claims(experiment: LogComparison) -> Iterator[Claim[tuple[str, str], CaseResult]]:
    """The mean over the cases of each bar, and that no promise is broken in them."""
    measure = experiment.measures[0]

    def mean(bar: Bar, found: Results) -> float:
        return fmean(found[case, bar.policy].runs[CHANGED].values[measure.name] or 0.0 for case in bar.cases)

    def late(bar: Bar, found: Results) -> float:
        return sum(found[case, bar.policy].runs[CHANGED].metrics.admitted_late for case in bar.cases)

    for bar in experiment.bars:
        of = f"{bar.policy} on {', '.join(bar.cases)}"
        text = f"{of}: {measure.label}, resize cost {CHANGED}"
        yield Claim(text=text, figure=bar.at_least, of=partial(mean, bar), way=">=", is_target=True)
        text = f"{of}: broken promises"
        yield Claim(text=text, figure=0.0, of=partial(late, bar), way="<=", is_target=True)


# Sentences


def _truth(experiment: LogComparison, results: Sequence[CaseResult], context: Context) -> Iterable[str]:
    by_case = {result.case.name: result for result in results}
    first = results[0]
    truth = truth_of(first.workload, conditions(first.case, CHANGED, context.seed), SETTINGS)
    told = ", ".join(f"{name}={value:g}" for name, value in SETTINGS.items())
    is_compared = any(EVERYONE in result.runs for result in results)
    yield (
        f"resize cost {CHANGED}"
        + (f", and {EVERYONE} where the published simulator is compared with" if is_compared else "")
        + f"; noise {truth.noise:g}, no node fails, profiles are the truth; seed {truth.seed}; "
        f"settings {told}; {program_version()}"
        + (f"; run were only {', '.join(sorted(context.policies))}" if context.policies else "")
    )
    for result in by_case.values():
        case, workload = result.case, result.workload
        nodes, devices = case.cluster
        of_file = hashlib.sha256((context.data / case.trace).read_bytes()).hexdigest()[:12]
        filled = "".join(f"; {line}" for line in workload.filled)
        yield (
            f"{case.name}: {case.trace} (sha256 {of_file}), {len(workload.jobs):,} jobs, "
            f"{len(workload.dropped)} left out, on {nodes}x{devices} devices of "
            f"{Path(case.profiles).name}{filled}"
        )


def _intervals(experiment: LogComparison, results: Iterable[CaseResult]) -> Iterable[str]:
    """How often the scheduler has something to decide, beside what is printed."""
    minutes = {
        result.case.name: result.runs[CHANGED].event_interval_s / 60.0
        for result in results
        if result.line.policy == OURS and CHANGED in result.runs
    }
    if experiment.interval_min is not None and minutes:
        told = ", ".join(f"{value:.1f} ({case})" for case, value in minutes.items())
        yield (
            f"Paper: {experiment.interval_min:g} minutes on average between scheduling events. Here, between "
            f"arrivals and ends of jobs under {OURS}: {told}."
        )


def _missing(results: Iterable[CaseResult]) -> Iterable[str]:
    lacking = [
        result.line.run
        for result in results
        if result.line.run is not None and result.published is None and result.line.counts is None
    ]
    if lacking:
        yield (
            f"Not compared with the published simulator, for these files were missing: {', '.join(lacking)}."
        )


def _broken(results: Iterable[CaseResult]) -> Iterable[str]:
    """A sentence for each run whose policy promises, with the promises that it broke."""
    for result in results:
        policy = result.line.policy
        for cost, run in result.runs.items():
            if run.late and variant_policy(policy).makes_promises:
                late_s, resizes = zip(*run.late, strict=True)
                yield (
                    f"{policy} broke promises on {result.case.name}, resize cost {cost}: {len(late_s)}, late "
                    f"by {min(late_s):.1f} to {max(late_s):.1f} s, of jobs that were resized {min(resizes)} "
                    f"to {max(resizes)} times."
                )


def _differences(experiment: LogComparison, results: Iterable[CaseResult]) -> dict[str, list[str]]:
    """Cases of each policy that is further from the published simulator than rounding explains."""
    measure = experiment.measures[0]
    found: defaultdict[str, list[str]] = defaultdict(list)
    for result in results:
        points = result.points(measure)
        if points is not None and abs(points) > POINTS:
            found[result.line.policy].append(f"{result.case.name} {points:+.1f}")
    return found


def _told(experiment: LogComparison, policy: str, cases: Sequence[str]) -> str:
    told = f"{policy} differs from the published simulator's own run by ({', '.join(cases)}) points."
    return told if policy in experiment.why else f"{told} Not explained."
