"""A simulated log as one HTML file that can be sent around: `swell simulate --html`."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from swell.model.lengths import span
from swell.model.quota_words import told_quotas
from swell.sim.comparison import best_policies, differences
from swell.sim.report import Truth
from swell.sim.report_data import SimulatedLog, report_data
from swell.sim.result_tables import bound_in_words, conditions, machines, result_tables
from swell.web.assets import uplot_version
from swell.web.self_contained import self_contained

#: Of the columns of all tables, in words.
MEANINGS = (
    ("MET", "share of jobs with a deadline that ended at or before it; refused jobs count as missed"),
    ("MET H", "hours that the jobs take on one device each that met their deadlines"),
    ("ADM, REJ", "jobs with a deadline that were admitted; jobs that ended because they were refused"),
    ("LATE", "admitted jobs that missed their deadline: broken promises, if the policy makes promises"),
    ("DONE", "jobs that met their end condition"),
    ("AVG JCT, P99 JCT", "seconds from submission to end, of completed jobs: mean and 99th percentile"),
    ("MAKESPAN", "seconds from the first submission to the last end"),
    ("QUEUE", "mean seconds from submission to the first step"),
    ("EFF", "mean over time and devices of a job's speed / its speed on one device"),
    ("USED", "share of all device-seconds that jobs held"),
    ("RESIZES", "resizes of running jobs"),
    ("UNPROMISED, MET UNPROMISED", "jobs tried without a promise; how many of them met their deadlines"),
    ("FAIRNESS", "Jain's index of the tenants' shares of deadlines met; 1: all are equal"),
    ("TIME TO 95 % S, JOBS", "mean seconds until 95 % of the change of a job's loss; jobs that got there"),
    ("NODE-HOURS LENT, EQUIVALENT NODES", "what the pool lent; nodes that give as much if they never leave"),
    ("KEPT S", "device-seconds that jobs held on nodes that had been reclaimed"),
)


def write_report(file: Path, log: SimulatedLog, command: str) -> None:
    """Raises OSError."""
    file.write_text(report_text(log, command), encoding="utf-8")


def report_text(log: SimulatedLog, command: str) -> str:
    """Args: command: that made it, as a shell takes it."""
    data = report_data(log)
    results = log.results
    best = best_policies(results)
    return self_contained(
        "simulation.html",
        "static/simulation.js",
        ("static/base.css", "static/curves.css", "static/report.css"),
        data,
        title=f"{Path(results[0].truth.trace).name} on {machines(results[0])}",
        conditions=conditions(results),
        tables=list(result_tables(results)),
        is_best=lambda heading, policy: policy in best.get(heading, ()),
        bound=bound_in_words(results[0].truth),
        differences=differences(results),
        meanings=MEANINGS,
        groups=[group | {"place": place} for place, group in enumerate(data["groups"]) if group["names"]],
        policies=list(log.runs),
        timeline_notes=list(_timeline_notes(data["runs"])),
        num_jobs=len(log.workload.jobs),
        num_listed=log.num_listed,
        command=command,
        inputs=list(_inputs(results[0].truth)),
    )


def _timeline_notes(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for run in runs:
        if run["grid_s"]:
            grid = f"sizes over time are drawn on a grid of {run['grid_s']:.3g} s"
            yield f"{run['policy']}: {grid}; the tables are exact."


def _inputs(truth: Truth) -> Iterator[tuple[str, object]]:
    yield "trace", truth.trace
    yield "jobs simulated, left out", f"{truth.jobs:,}, {truth.left_out:,}"
    for line in truth.filled:
        yield "filled", line
    yield "profiles", truth.profiles
    yield "seed", truth.seed
    told = msgspec.to_builtins(truth)
    for name in ("resize_cost", "noise", "profile_error", "refused", "pool", "cores"):
        if told[name] is not None:
            yield name.replace("_", " "), told[name]
    if truth.quotas:
        yield "quotas", told_quotas(truth.quotas)
    if truth.save_s:
        yield "time that training stood still for a checkpoint", f"{span(truth.save_s)}"
    if truth.node_mtbf_s is not None:
        yield "mean time between failures of a node", span(truth.node_mtbf_s)
    settings = ", ".join(
        f"{name}={value if isinstance(value, str) else format(value, 'g')}"
        for name, value in sorted(truth.settings.items())
    )
    yield "settings", settings or "as they are"
    yield "versions", f"swell {truth.version}, Python {platform.python_version()}, uPlot {uplot_version()}"
