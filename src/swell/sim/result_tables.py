"""What `swell simulate` shows of its runs: the truth in words, and tables with a row for each policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from swell.model.lengths import span
from swell.model.quota_words import told_quotas
from swell.sim.groups import Fairness
from swell.sim.report import PolicyResult, Truth
from swell.sim.traces.record import plural

#: MET: share of deadlines that were met. MET H: hours that these jobs take on one device each.
#: LATE: admitted, and not met. QUEUE: mean time to the first step.
#: EFF: cluster efficiency. USED: share of device-seconds that jobs held.
HEADINGS = (
    "POLICY",
    "MET",
    "MET H",
    "ADM",
    "REJ",
    "LATE",
    "DONE",
    "AVG JCT",
    "P99 JCT",
    "MAKESPAN",
    "QUEUE",
    "EFF",
    "USED",
    "RESIZES",
)
#: Jobs that were refused a promise and tried all the same, and how many of them met their deadlines: MET
#: counts these too.
UNPROMISED_HEADINGS = ("POLICY", "UNPROMISED", "MET UNPROMISED")
#: What was lent until the last job ended, how many nodes give as much if they never leave, and device-seconds
#: that jobs held on nodes that had been reclaimed.
POOL_HEADINGS = ("POLICY", "NODE-HOURS LENT", "EQUIVALENT NODES", "KEPT")
#: How equal the shares of deadlines met are between tenants, and who has the smallest.
TENANT_HEADINGS = ("POLICY", "FAIRNESS", "WORST-SERVED TENANT", "MET")
#: Begins a line about deadlines that the log does not have.
INVENTED = "invented deadlines"
_DEADLINE = "deadline = "


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
    yield ResultTable(HEADINGS, [_row(result) for result in results])
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


def _row(result: PolicyResult) -> tuple[str, ...]:
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


def _tenant_row(policy: str, found: Fairness) -> tuple[str, ...]:
    worst = found.worst_tenant or "(none)"
    return (policy, _share(found.jain_index), worst, _share(found.worst_satisfaction))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else span(seconds)
