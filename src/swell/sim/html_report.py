"""A simulated log as one HTML file that can be sent around: `swell simulate --html`."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from swell.model.lengths import span
from swell.model.quota_words import told_quotas
from swell.sim.metrics import Metrics
from swell.sim.report import PolicyResult, Truth
from swell.sim.report_data import SimulatedLog, report_data
from swell.sim.result_tables import INVENTED, ResultTable, bound_in_words, conditions, machines, result_tables
from swell.web.self_contained import self_contained, uplot_version

Figure = Callable[[Metrics], float | None]

#: By heading of the table: a figure of which more (+1) or less (-1) is better. Of the others neither is: who
#: admits more may keep less, and a resize is a means.
BETTER: Mapping[str, tuple[int, Figure]] = {
    "MET": (+1, lambda metrics: metrics.deadline_satisfaction),
    "MET H": (+1, lambda metrics: metrics.met_device_h),
    "LATE": (-1, lambda metrics: metrics.admitted_late),
    "DONE": (+1, lambda metrics: metrics.completed),
    "AVG JCT": (-1, lambda metrics: metrics.avg_jct_s),
    "P99 JCT": (-1, lambda metrics: metrics.p99_jct_s),
    "MAKESPAN": (-1, lambda metrics: metrics.makespan_s if metrics.completed else None),
    "QUEUE": (-1, lambda metrics: metrics.avg_queue_s),
    "EFF": (+1, lambda metrics: metrics.cluster_efficiency),
}


def best_policies(results: Sequence[PolicyResult]) -> dict[str, frozenset[str]]:
    """Return the policies with the best figure of each heading.

    The set is empty where all are equal, or there is only one policy.
    """
    return {heading: frozenset(_best(results, sign, figure)) for heading, (sign, figure) in BETTER.items()}


def _best(results: Sequence[PolicyResult], sign: int, figure: Figure) -> Iterator[str]:
    values = {result.policy: figure(result.metrics) for result in results}
    known = [sign * value for value in values.values() if value is not None]
    if len(set(known)) < 2:
        return
    yield from (
        policy for policy, value in values.items() if value is not None and sign * value == max(known)
    )


#: By the heading of a column in the terminal: its words in the report, and what they mean.
COLUMNS = {
    "POLICY": ("policy", "what decided how many devices each job had"),
    "LATE": (
        "late though admitted",
        "admitted jobs that missed their deadline: broken promises, if the policy makes promises",
    ),
    "MET": (
        "deadlines met",
        "share of jobs with a deadline that ended at or before it; a refused job that ends counts as missed",
    ),
    "MET H": ("device-hours in time", "hours that the jobs that met their deadlines take on one device each"),
    "ADM": ("admitted", "jobs with a deadline that were admitted"),
    "REJ": ("refused", "jobs that ended because they were refused"),
    "DONE": ("completed", "jobs that met their end condition"),
    "AVG JCT": ("mean time to the end", "from submission, of completed jobs"),
    "P99 JCT": ("99 of 100 end within", "the same, 99th percentile"),
    "MAKESPAN": ("all ended after", "from the first submission to the last end"),
    "QUEUE": ("mean wait", "from submission to the first step"),
    "EFF": ("efficiency", "mean over time and devices of a job's speed / its speed on one device"),
    "USED": ("devices in use", "share of all device time that jobs had"),
    "RESIZES": ("resizes", "of running jobs"),
    "UNPROMISED": ("tried without a promise", "jobs whose promise was refused, and that ran all the same"),
    "MET UNPROMISED": ("of these in time", "how many of them met their deadlines"),
    "FAIRNESS": ("fairness", "Jain's index of the tenants' shares of deadlines met; 1: all are equal"),
    "WORST-SERVED TENANT": ("worst-served tenant", "the one with the smallest share of deadlines met"),
    "NODE-HOURS LENT": ("node-hours lent", "what the pool lent until the last job ended"),
    "EQUIVALENT NODES": ("equivalent nodes", "nodes that give as much if they never leave"),
    "KEPT": ("kept too long", "device time that jobs had on nodes after their owner wanted them back"),
}
#: The column that comes first: whether the policy is to be believed.
FIRST = "LATE"


def write_report(file: Path, log: SimulatedLog, command: str) -> None:
    """Raises OSError."""
    file.write_text(report_text(log, command), encoding="utf-8")


def report_text(log: SimulatedLog, command: str) -> str:
    """Args: command: that made it, as a shell takes it."""
    data = report_data(log)
    results = log.results
    told = conditions(results)
    invented = [line for line in told if line.startswith(INVENTED)]
    best = best_policies(results)
    return self_contained(
        "simulation.html",
        "static/simulation.js",
        ("static/base.css", "static/curves.css", "static/report.css"),
        data,
        title=f"{Path(results[0].truth.trace).name} on {machines(results[0])}",
        conditions=[line for line in told if line not in invented],
        invented=invented,
        tables=[_broken_first(table) for table in result_tables(results)],
        is_best=lambda heading, policy: policy in best.get(heading, ()),
        bound=bound_in_words(results[0].truth),
        columns=COLUMNS,
        sizes=data["sizes"],
        policies=list(log.runs),
        num_jobs=len(log.workload.jobs),
        num_listed=log.num_listed,
        command=command,
        inputs=list(_inputs(results[0].truth)),
    )


def _broken_first(table: ResultTable) -> ResultTable:
    """Return the table with its broken promises before all other figures."""
    if FIRST not in table.headings:
        return table
    own = table.headings.index(FIRST)
    places = [0, own, *(place for place in range(1, len(table.headings)) if place != own)]
    rows = [tuple(row[place] for place in places) for row in table.rows]
    return ResultTable(tuple(table.headings[place] for place in places), rows)


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
    if truth.node_mtbf_s is not None:
        yield "mean time between failures of a node", span(truth.node_mtbf_s)
    settings = ", ".join(
        f"{name}={value if isinstance(value, str) else format(value, 'g')}"
        for name, value in sorted(truth.settings.items())
    )
    yield "settings", settings or "as they are"
    yield "versions", f"swell {truth.version}, Python {platform.python_version()}, uPlot {uplot_version()}"
