"""What a simulated run prints: one object and one row of tables a policy, and a row a job."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from swell.model.job import AfterRefusal
from swell.model.quantities import span
from swell.model.quota import Quota, told_quotas, told_tenant, told_weights
from swell.model.target import ShareKind
from swell.sim.faults import NO_FAULTS, FaultRates
from swell.sim.kind_nodes import KindNodes
from swell.sim.metrics import GroupMetrics, Metrics, TenantMetrics
from swell.sim.outcome import JobOutcome, holdings, pauses, starts
from swell.sim.traces.entry import plural

#: Fields of an outcome that are no column as they are.
NOT_LISTED = ("sizes", "segments")
#: Columns of `--jobs`, one field of the outcome each, and those that are worked out.
COLUMNS = (
    "policy",
    *(name for name in JobOutcome.__struct_fields__ if name not in NOT_LISTED),
    "jct_s",
    "sizes",
    "devices",
    "starts",
    "pauses",
)
#: Begins a line about deadlines that the log does not have.
INVENTED = "invented deadlines"
_DEADLINE = "deadline = "


class ClusterSize(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cluster of equal nodes, or of several kinds of them; 0x0: borrowed nodes only."""

    nodes: int
    devices_per_node: int
    devices: int
    racks: int = 1  #: of equally many nodes
    islands: str = ""  #: of a node's devices, such as `4/2`; empty: all are alike
    kinds: tuple[KindNodes, ...] = ()  #: where there are several; nodes are numbered in this order

    def __str__(self) -> str:
        if self.kinds:
            return ",".join(map(str, self.kinds))
        racks = f"{self.racks}x" if self.racks > 1 else ""
        islands = f"/{self.islands}" if self.islands else ""
        return f"{racks}{self.nodes // self.racks}x{self.devices_per_node}{islands}"


class Assumptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the truth differs from what profiles say, and what users do."""

    seed: int = 0
    resize_cost: str = "changed"
    noise: float = 0.0
    profile_error: float = 0.0
    node_mtbf_s: float | None = None
    fault_rates: FaultRates = NO_FAULTS
    refused: AfterRefusal = AfterRefusal.SOFT  #: what becomes of strict jobs that are refused
    cores: float | None = None  #: of each owned node, which jobs share; None: each device has its own
    quotas: dict[str, Quota] = {}  #: of devices, by tenant
    weights: dict[str, float] = {}  #: by tenant, of those that have another than 1


class Truth(Assumptions, frozen=True, kw_only=True):
    """Against what truth a figure was simulated: with these and the same version it comes out again."""

    trace: str
    jobs: int
    left_out: int  #: of the trace's, because something that a simulation needs could not be filled
    filled: tuple[str, ...]
    profiles: str
    node_mttr_s: float | None
    settings: dict[str, float | str]  #: of the head
    version: str
    pool: str | None = None  #: log of the nodes that were borrowed
    cpu_shares: ShareKind | None = None  #: how jobs share cores


class PolicyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy did with a log."""

    policy: str
    cluster: ClusterSize
    truth: Truth
    metrics: Metrics


def write_jobs(file: Path, runs: Iterable[tuple[str, Iterable[JobOutcome]]]) -> None:
    """A CSV with a row for each policy and job. Raises OSError."""
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        for policy, jobs in runs:
            writer.writerows(_row(policy, job) for job in jobs)


def _row(policy: str, job: JobOutcome) -> list[object]:
    values = msgspec.structs.asdict(job)
    values |= {"policy": policy, "jct_s": job.jct_s}
    values["sizes"] = " ".join(f"{at_s:.3f}:{size}" for at_s, size in job.sizes)
    values["devices"] = " ".join(f"{at_s:.3f}:{'+'.join(held)}" for at_s, held in holdings(job.segments))
    values["starts"] = " ".join(f"{at_s:.3f}:{first_s:.3f}" for at_s, first_s in starts(job.segments))
    values["pauses"] = " ".join(f"{at_s:.3f}:{pause_s:.3f}" for at_s, pause_s in pauses(job.segments))
    return ["" if values[name] is None else values[name] for name in COLUMNS]


class Figure(NamedTuple):
    """A column of tables of figures."""

    field: str  #: of the metrics that a row is about
    told: Callable[[Any], str]
    heading: str  #: in a terminal
    name: str  #: in the HTML report
    meaning: str


#: How figures are told.
FORMS: dict[str, Callable[[Any], str]] = {
    "count": "{:,}".format,
    "hours": lambda hours: "-" if hours is None else f"{hours:,.1f}",
    "part": lambda value: "-" if value is None else f"{value:.3f}",
    "percent": "{:.1%}".format,
    "tenant": told_tenant,
    "time": lambda seconds: "-" if seconds is None else span(seconds),
    "word": str,
}
_FIGURES = """
deadline_satisfaction part | DEADLINES MET | deadlines met
    share of jobs with a deadline that ended at or before it; a refused job that ends counts as missed
hours_in_time hours | HOURS IN TIME | device-hours in time
    what the jobs that met their deadlines take on one device each
admitted count | ADMITTED | admitted | jobs with a deadline that were admitted
rejected count | REFUSED | refused | jobs that ended because they were refused
admitted_late count | LATE | late though admitted
    admitted jobs that missed their deadline: broken promises, if the policy makes promises
completed count | DONE | completed | jobs that met their end condition
avg_jct_s time | MEAN TIME | mean time to the end | from submission, of completed jobs
p99_jct_s time | 99% WITHIN | 99 of 100 end within | the same, 99th percentile
makespan_s time | ALL WITHIN | all ended after | from the first submission to the last end
avg_queue_s time | MEAN WAIT | mean wait | from submission to the first step
cluster_efficiency part | EFFICIENCY | efficiency
    mean over time and devices of a job's speed / its speed on one device
device_utilization part | IN USE | devices in use | share of all device time that jobs had
resizes count | RESIZES | resizes | of running jobs
unpromised count | UNPROMISED | tried without a promise
    jobs whose promise was refused, and that ran all the same
met_unpromised count | UNPROMISED MET | of these in time | how many of them met their deadlines
name word | KIND | kind of job | elastic, fixed (a command that keeps its size) or session
jobs count | JOBS | jobs | of this kind
timed_out count | TIMED OUT | timed out | ended at their limit of time
jain_index part | FAIRNESS | fairness
    Jain's index of the tenants' shares of deadlines met; 1: all are equal
worst_tenant tenant | WORST-SERVED TENANT | worst-served tenant
    the one with the smallest share of deadlines met
worst_satisfaction part | DEADLINES MET | deadlines met | its share of deadlines met
share_deviation percent | SHARE DEVIATION | share deviation
    the most by which an account was off its fair share over a week
resource_integral_node_h hours | NODE-HOURS LENT | node-hours lent
    what the pool lent until the last job ended
equivalent_nodes hours | EQUIVALENT NODES | equivalent nodes
    nodes that give as much if they never leave
kept_device_s time | KEPT | kept too long
    device time that jobs had on nodes after their owner wanted them back
"""


def _read_figures() -> Iterator[Figure]:
    for line in re.split(r"\n(?=\S)", _FIGURES.strip()):
        of, *texts = re.split(r" \| |\n +", line)
        field, form = of.split()
        yield Figure(field, FORMS[form], *texts)


FIGURES = {figure.field: figure for figure in _read_figures()}
#: Figures of the tables, in order.
OVERALL = (
    *("deadline_satisfaction", "hours_in_time", "admitted", "rejected", "admitted_late", "completed"),
    *("avg_jct_s", "p99_jct_s", "makespan_s", "avg_queue_s", "cluster_efficiency", "device_utilization"),
    "resizes",
)
UNPROMISED = ("unpromised", "met_unpromised")
BY_KIND = ("name", "jobs", "admitted", "admitted_late", "completed", "timed_out", "avg_queue_s")
BETWEEN_TENANTS = ("jain_index", "worst_tenant", "worst_satisfaction")
SHARES = ("share_deviation",)
POOL = ("resource_integral_node_h", "equivalent_nodes", "kept_device_s")


class ResultTable(NamedTuple):
    """A row of figures for each policy, or for each part of its jobs."""

    figures: Sequence[Figure]
    found: Sequence[tuple[str, Metrics | GroupMetrics | TenantMetrics]]  #: by policy

    @property
    def headings(self) -> list[str]:
        return ["POLICY", *(figure.heading for figure in self.figures)]

    @property
    def rows(self) -> list[list[str]]:
        """As many cells in each as there are headings."""
        return [
            [policy, *(one.told(getattr(metrics, one.field)) for one in self.figures)]
            for policy, metrics in self.found
        ]


def conditions(results: Sequence[PolicyResult]) -> list[str]:
    """The truth in words: a line, and one for each thing that was filled."""
    truth = results[0].truth
    return [
        f"{truth.trace}: {plural(truth.jobs, 'job')} on {machines(results[0])} ({truth.profiles}), "
        f"resize cost {truth.resize_cost}, noise {truth.noise:g}{_faults(truth)}, seed {truth.seed}",
        *([f"quotas: {told_quotas(truth.quotas)}"] if truth.quotas else []),
        *([f"weights: {told_weights(truth.weights)}"] if truth.weights else []),
        *(f"{INVENTED if _DEADLINE in line else 'filled'}: {line}" for line in truth.filled),
    ]


def result_tables(results: Sequence[PolicyResult]) -> list[ResultTable]:
    """The figures of all policies first; then those that not every run has."""
    every = [(result.policy, result.metrics) for result in results]
    tables: dict[tuple[str, ...], Sequence[tuple[str, Metrics | GroupMetrics | TenantMetrics]]] = {
        OVERALL: every,
        UNPROMISED: every if any(found.unpromised for _, found in every) else (),
        BY_KIND: [(policy, one) for policy, found in every for one in found.by_kind],
        BETWEEN_TENANTS: [(policy, found.fairness) for policy, found in every if found.fairness],
        SHARES: [(policy, found) for policy, found in every if found.share_deviation is not None],
        POOL: every if results[0].truth.pool is not None else (),
    }
    return [ResultTable([FIGURES[one] for one in names], found) for names, found in tables.items() if found]


def machines(result: PolicyResult) -> str:
    """What the jobs ran on, in words."""
    owned, pool = result.cluster, result.truth.pool
    if pool is None:
        return f"{owned} devices"
    return f"{f'{owned} devices and ' if owned.devices else ''}borrowed nodes of {pool}"


def _faults(truth: Truth) -> str:
    """What a run has only if somebody asked for it."""
    text = f", profile error {truth.profile_error:g}" if truth.profile_error else ""
    text += ", refused jobs end" if truth.refused == "end" else ""
    if truth.cpu_shares is not None:
        text += f", {truth.cores:g} cores a node by {truth.cpu_shares}"
    if truth.node_mtbf_s is not None and truth.node_mttr_s is not None:
        text += f", a node fails every {span(truth.node_mtbf_s)} for {span(truth.node_mttr_s)}"
    rates = ((name, getattr(truth.fault_rates, name)) for name in truth.fault_rates.__struct_fields__)
    text += "".join(f", {name} faults {rate:g}" for name, rate in rates if rate)
    return text
