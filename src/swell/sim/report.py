"""What a simulated run prints: one object and one row of tables a policy, and a row a job."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from swell.model.job import AfterRefusal
from swell.model.quantities import span
from swell.model.quota import Quota, told_quotas
from swell.model.target import ShareKind
from swell.sim.faults import FaultRates
from swell.sim.kind_nodes import KindNodes
from swell.sim.metrics import Metrics, TenantMetrics
from swell.sim.outcome import JobOutcome, holdings, pauses, starts
from swell.sim.traces.record import plural

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
#: `html_report.COLUMNS` says what each means.
HEADINGS = (
    *("POLICY", "DEADLINES MET", "HOURS IN TIME", "ADMITTED", "REFUSED", "LATE", "DONE", "MEAN TIME"),
    *("99% WITHIN", "ALL WITHIN", "MEAN WAIT", "EFFICIENCY", "IN USE", "RESIZES"),
)
#: Jobs that were refused a promise and tried all the same, and how many of them met their deadlines: all
#: deadlines met count these too.
UNPROMISED_HEADINGS = ("POLICY", "UNPROMISED", "UNPROMISED MET")
#: What was lent until the last job ended, how many nodes give as much if they never leave, and device-seconds
#: that jobs held on nodes that had been reclaimed.
POOL_HEADINGS = ("POLICY", "NODE-HOURS LENT", "EQUIVALENT NODES", "KEPT")
#: How equal the shares of deadlines met are between tenants, and who has the smallest.
TENANT_HEADINGS = ("POLICY", "FAIRNESS", "WORST-SERVED TENANT", "DEADLINES MET")
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


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """Against what truth a figure was simulated: with these and the same version it comes out again."""

    trace: str
    jobs: int
    left_out: int  #: of the trace's, because something that a simulation needs could not be filled
    filled: tuple[str, ...]
    profiles: str
    resize_cost: str
    noise: float
    profile_error: float
    node_mtbf_s: float | None
    node_mttr_s: float | None
    fault_rates: FaultRates
    seed: int
    #: Share of deadlines that no schedule could beat, had it known all jobs, if asked for: `sim.bound`.
    offline_bound: float | None
    settings: dict[str, float | str]  #: of the head
    version: str
    pool: str | None = None  #: log of the nodes that were borrowed
    refused: AfterRefusal = AfterRefusal.END  #: what became of strict jobs that were refused
    cores: float | None = None  #: of each owned node, which jobs share; None: each device had its own
    cpu_shares: ShareKind | None = None  #: how they did
    quotas: dict[str, Quota] = {}  #: of devices, by tenant


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


class ResultTable(NamedTuple):
    """A heading for each column, and as many cells in each row."""

    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]


def conditions(results: Sequence[PolicyResult]) -> list[str]:
    """The truth in words: a line, and one for each thing that was filled."""
    truth = results[0].truth
    return [
        f"{truth.trace}: {plural(truth.jobs, 'job')} on {machines(results[0])} ({truth.profiles}), "
        f"resize cost {truth.resize_cost}, noise {truth.noise:g}{_faults(truth)}, seed {truth.seed}",
        *([f"quotas: {told_quotas(truth.quotas)}"] if truth.quotas else []),
        *(f"{INVENTED if _DEADLINE in line else 'filled'}: {line}" for line in truth.filled),
    ]


def result_tables(results: Sequence[PolicyResult]) -> Iterator[ResultTable]:
    """The figures of all policies first; then those that not every run has."""
    truth = results[0].truth
    yield ResultTable(HEADINGS, [_policy_row(result) for result in results])
    if any(result.metrics.unpromised for result in results):
        yield ResultTable(UNPROMISED_HEADINGS, [_unpromised_row(result) for result in results])
    if rows := [
        _tenant_row(result.policy, found) for result in results if (found := result.metrics.fairness)
    ]:
        yield ResultTable(TENANT_HEADINGS, rows)
    if truth.pool is not None:
        yield ResultTable(POOL_HEADINGS, [_pool_row(result) for result in results])


def bound_in_words(truth: Truth) -> str | None:
    """None where no bound was asked for."""
    if truth.offline_bound is None:
        return None
    most = f"more than {truth.offline_bound:.3f} of the deadlines"
    return f"Upper bound: no schedule meets {most}, even if it knows all jobs in advance."


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


def _policy_row(result: PolicyResult) -> tuple[str, ...]:
    metrics = result.metrics
    return (
        result.policy,
        _share(metrics.deadline_satisfaction),
        "-" if metrics.deadline_satisfaction is None else f"{metrics.met_device_h:,.1f}",
        f"{metrics.admitted:,}",
        f"{metrics.rejected:,}",
        f"{metrics.admitted_late:,}",
        f"{metrics.completed:,}",
        _time(metrics.avg_jct_s),
        _time(metrics.p99_jct_s),
        _time(metrics.makespan_s),
        _time(metrics.avg_queue_s),
        _share(metrics.cluster_efficiency),
        _share(metrics.device_utilization),
        f"{metrics.resizes:,}",
    )


def _unpromised_row(result: PolicyResult) -> tuple[str, ...]:
    return (result.policy, f"{result.metrics.unpromised:,}", f"{result.metrics.met_unpromised:,}")


def _pool_row(result: PolicyResult) -> tuple[str, ...]:
    metrics = result.metrics
    lent_node_h, num_nodes = metrics.resource_integral_node_h or 0.0, metrics.equivalent_nodes or 0.0
    return (result.policy, f"{lent_node_h:,.1f}", f"{num_nodes:,.1f}", _time(metrics.kept_device_s or 0.0))


def _tenant_row(policy: str, found: TenantMetrics) -> tuple[str, ...]:
    worst = found.worst_tenant or "(none)"
    return (policy, _share(found.jain_index), worst, _share(found.worst_satisfaction))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else span(seconds)
