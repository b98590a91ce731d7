"""Figures of a run and of parts of its jobs, under the names that code, JSON, CLI and docs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from swell.model.job import Phase
from swell.sim.outcome import JobOutcome, SimOutcome
from swell.sim.pool import HOUR_S

#: Tenants beyond so many, those with the fewest jobs, are not told.
MOST_TENANTS = 50
#: Who has fewer deadlines says nothing about fairness: one job more or less would change all.
LEAST_DEADLINES = 10
KeyT = TypeVar("KeyT", str, int)


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """None where there is nothing to take a mean of."""

    jobs: int
    deadline_satisfaction: float | None  #: ended at or before it / submitted with one (ElasticFlow 6.1)
    met_device_h: float  #: device-hours that the jobs take on one device each that met their deadlines
    admitted: int  #: jobs with a deadline that were not refused a promise
    rejected: int  #: refused, and ended by that
    #: Admitted, and not done by the deadline, also for want of nodes that were lost: for strict jobs a broken
    #: promise. Those with a bug of their own, or that their users gave up, are not counted.
    admitted_late: int
    completed: int
    failed: int
    cancelled: int
    unfinished: int
    drop_ratio: float  #: refused / submitted (Saxena IV-C)
    cluster_efficiency: float  #: ElasticFlow, Eq. 8, mean over the makespan
    #: Share of device-seconds that a job held, over the makespan, without devices that were gone unnoticed.
    device_utilization: float
    sjs_efficiency: float | None  #: single-device run times / device-seconds used (Saxena IV-C)
    avg_jct_s: float | None
    p99_jct_s: float | None
    makespan_s: float  #: from the first submission to the last end
    avg_queue_s: float | None  #: from submission to the first step
    resizes: int
    events: int  #: turns of the head
    fairness: TenantMetrics | None  #: between tenants
    by_tenant: tuple[GroupMetrics, ...]
    by_size: tuple[GroupMetrics, ...]  #: by the number of devices that users asked for
    resource_integral_node_h: float | None = None  #: node-hours that were lent (BFTrainer, Eq. 17)
    equivalent_nodes: float | None = None  #: nodes that give as much if they never leave (BFTrainer, Eq. 18)
    kept_device_s: float | None = None  #: device-seconds held on nodes that had been reclaimed
    unpromised: int = 0  #: refused a promise, and tried all the same
    met_unpromised: int = 0  #: of these, done by the deadline; `deadline_satisfaction` counts them too


def metrics_of(outcome: SimOutcome) -> Metrics:
    jobs, usage, pool = outcome.jobs, outcome.usage, outcome.pool
    phases = Counter(job.phase for job in jobs)
    facing = [job for job in jobs if job.deadline_s is not None]
    kept, unpromised = [job for job in facing if job.is_kept], [job for job in facing if job.is_unpromised]
    admitted = [job for job in facing if job.is_admitted]
    device_s, single_device_s = sum(job.device_s for job in jobs), sum(job.single_device_s for job in jobs)
    jcts_s = [job.jct_s for job in jobs if job.jct_s is not None]
    num_jobs, num_rejected = len(jobs), phases[Phase.REJECTED]
    first_s = min((job.submit_s for job in jobs), default=0.0)
    last_s = max((job.end_s for job in jobs if job.end_s is not None), default=first_s)
    makespan_s = max(last_s, first_s) - first_s
    num_unfinished = sum(number for phase, number in phases.items() if not phase.is_end)
    until_s = first_s + makespan_s
    if pool is not None and num_unfinished:
        until_s = max(until_s, min(outcome.end_s, pool.last_s))  # so long jobs used it that did not end
    num_devices = outcome.mean_devices(first_s, until_s)
    used_s = device_s - outcome.unnoticed_device_s
    return Metrics(
        jobs=num_jobs,
        deadline_satisfaction=_ratio(len(kept), len(facing)),
        met_device_h=sum(job.single_device_s for job in kept) / HOUR_S,
        admitted=len(admitted),
        rejected=num_rejected,
        admitted_late=sum(map(_is_late, admitted)),
        completed=phases[Phase.SUCCEEDED],
        failed=phases[Phase.FAILED],
        cancelled=phases[Phase.CANCELLED],
        unfinished=num_unfinished,
        drop_ratio=_ratio(num_rejected, num_jobs) or 0.0,
        cluster_efficiency=_ratio(usage.mean(usage.efficiency, until_s), num_devices) or 0.0,
        device_utilization=_ratio(used_s, num_devices * (until_s - first_s)) or 0.0,
        sjs_efficiency=_ratio(single_device_s, device_s),
        avg_jct_s=_mean(jcts_s),
        p99_jct_s=float(np.percentile(jcts_s, 99)) if jcts_s else None,
        makespan_s=makespan_s,
        avg_queue_s=_mean([job.start_s - job.submit_s for job in jobs if job.start_s is not None]),
        resizes=sum(job.num_resizes for job in jobs),
        events=outcome.num_events,
        fairness=fairness(jobs),
        by_tenant=by_tenant(jobs),
        by_size=by_size(jobs),
        resource_integral_node_h=pool.node_s(first_s, until_s) / HOUR_S if pool else None,
        equivalent_nodes=pool.equivalent_nodes(first_s, until_s) if pool else None,
        kept_device_s=outcome.kept_device_s if pool else None,
        unpromised=len(unpromised),
        met_unpromised=sum(bool(job.is_kept) for job in unpromised),
    )


def _is_late(job: JobOutcome) -> bool:
    return not job.is_kept and not job.is_buggy and job.phase is not Phase.CANCELLED


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


class GroupMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Names as in `Metrics`."""

    name: str
    jobs: int
    deadlines: int  #: jobs that were submitted with one
    admitted: int
    deadline_satisfaction: float | None
    promised_device_h: float  #: device-hours of jobs whose deadlines were promised
    used_device_h: float  #: device-hours of all its jobs


class TenantMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Between tenants with at least LEAST_DEADLINES deadlines."""

    tenants: int  #: that are compared
    #: Jain, Chiu and Hawe 1984: (sum x)^2 / (n sum x^2) of their deadline satisfactions. 1: all equal; 1/n:
    #: one gets all. None: no job gets anything.
    jain_index: float | None
    worst_tenant: str
    worst_satisfaction: float


def by_tenant(jobs: Iterable[JobOutcome]) -> tuple[GroupMetrics, ...]:
    """The tenant with the most jobs first; empty where there are not two."""
    groups = _grouped(jobs, lambda job: job.tenant)
    if len(groups) < 2:
        return ()
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(_metrics(name, own) for name, own in ranked[:MOST_TENANTS])


def by_size(jobs: Iterable[JobOutcome]) -> tuple[GroupMetrics, ...]:
    """Figures of the jobs by the number of devices that users asked for, in ranges of powers of two.

    Empty where that number is unknown.
    """
    asked = (job for job in jobs if job.requested_devices)
    # The least power of two, as an exponent, that is no smaller.
    groups = _grouped(asked, lambda job: ((job.requested_devices or 1) - 1).bit_length())
    return tuple(_metrics(_range(power), groups[power]) for power in sorted(groups))


def fairness(jobs: Iterable[JobOutcome]) -> TenantMetrics | None:
    """None where there are not two tenants to compare."""
    groups = _grouped(jobs, lambda job: job.tenant)
    told = [_metrics(name, groups[name]) for name in sorted(groups)]
    shares = {one.name: one.deadline_satisfaction or 0.0 for one in told if one.deadlines >= LEAST_DEADLINES}
    if len(shares) < 2:
        return None
    worst = min(shares, key=shares.__getitem__)
    return TenantMetrics(
        tenants=len(shares),
        jain_index=_jain_index(list(shares.values())),
        worst_tenant=worst,
        worst_satisfaction=shares[worst],
    )


def _grouped(jobs: Iterable[JobOutcome], key: Callable[[JobOutcome], KeyT]) -> dict[KeyT, list[JobOutcome]]:
    groups: dict[KeyT, list[JobOutcome]] = {}
    for job in jobs:
        groups.setdefault(key(job), []).append(job)
    return groups


def _metrics(name: str, jobs: Sequence[JobOutcome]) -> GroupMetrics:
    facing = [job for job in jobs if job.deadline_s is not None]
    return GroupMetrics(
        name=name,
        jobs=len(jobs),
        deadlines=len(facing),
        admitted=sum(job.is_admitted for job in facing),
        deadline_satisfaction=sum(bool(job.is_kept) for job in facing) / len(facing) if facing else None,
        promised_device_h=sum(job.device_s for job in jobs if job.is_promised) / 3600.0,
        used_device_h=sum(job.device_s for job in jobs) / 3600.0,
    )


def _jain_index(shares: Sequence[float]) -> float | None:
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def _range(power: int) -> str:
    most, least = 2**power, 2**power // 2 + 1
    return f"{least}-{most}" if least < most else f"{most}"
