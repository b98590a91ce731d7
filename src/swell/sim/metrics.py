"""Figures of a run, under the names that code, JSON, CLI and docs share."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from swell.model.job import Phase
from swell.sim.groups import Fairness, GroupMetrics, Groups
from swell.sim.outcome import JobOutcome, SimOutcome
from swell.sim.pool import HOUR_S


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
    fairness: Fairness | None  #: between tenants
    by_tenant: tuple[GroupMetrics, ...]
    by_size: tuple[GroupMetrics, ...]  #: by the number of devices that users asked for
    resource_integral_node_h: float | None = None  #: node-hours that were lent (BFTrainer, Eq. 17)
    equivalent_nodes: float | None = None  #: nodes that give as much if they never leave (BFTrainer, Eq. 18)
    kept_device_s: float | None = None  #: device-seconds held on nodes that had been reclaimed
    unpromised: int = 0  #: refused a promise, and tried all the same
    met_unpromised: int = 0  #: of these, done by the deadline; `deadline_satisfaction` counts them too


def metrics_of(outcome: SimOutcome) -> Metrics:
    sums = MetricSums()
    for job in outcome.jobs:
        sums.add(job)
    num_jobs, num_rejected = len(outcome.jobs), sums.phases[Phase.REJECTED]
    first_s = sums.first_s if num_jobs else 0.0
    makespan_s = max(sums.last_s, first_s) - first_s
    usage, pool = outcome.usage, outcome.pool
    num_unfinished = sum(number for phase, number in sums.phases.items() if not phase.is_end)
    until_s = first_s + makespan_s
    if pool is not None and num_unfinished:
        until_s = max(until_s, min(outcome.end_s, pool.last_s))  # so long jobs used it that did not end
    num_devices = outcome.mean_devices(first_s, until_s)
    used_s = sums.device_s - outcome.waste.unnoticed_device_s
    return Metrics(
        jobs=num_jobs,
        deadline_satisfaction=_ratio(sums.num_kept, sums.num_with_deadline),
        met_device_h=sums.met_device_s / HOUR_S,
        admitted=sums.num_admitted,
        rejected=num_rejected,
        admitted_late=sums.num_late,
        completed=sums.phases[Phase.SUCCEEDED],
        failed=sums.phases[Phase.FAILED],
        cancelled=sums.phases[Phase.CANCELLED],
        unfinished=num_unfinished,
        drop_ratio=_ratio(num_rejected, num_jobs) or 0.0,
        cluster_efficiency=_ratio(usage.mean(usage.efficiency, until_s), num_devices) or 0.0,
        device_utilization=_ratio(used_s, num_devices * (until_s - first_s)) or 0.0,
        sjs_efficiency=_ratio(sums.single_device_s, sums.device_s),
        avg_jct_s=_mean(sums.jcts_s),
        p99_jct_s=float(np.percentile(sums.jcts_s, 99)) if sums.jcts_s else None,
        makespan_s=makespan_s,
        avg_queue_s=_mean(sums.queues_s),
        resizes=sums.num_resizes,
        events=outcome.num_events,
        fairness=sums.groups.fairness(),
        by_tenant=sums.groups.by_tenant(),
        by_size=sums.groups.by_size(),
        resource_integral_node_h=pool.node_s(first_s, until_s) / HOUR_S if pool else None,
        equivalent_nodes=pool.equivalent_nodes(first_s, until_s) if pool else None,
        kept_device_s=outcome.kept_device_s if pool else None,
        unpromised=sums.num_unpromised,
        met_unpromised=sums.num_met_unpromised,
    )


class MetricSums:
    """Over the jobs of a run, each of which is looked at once."""

    def __init__(self) -> None:
        self.phases: Counter[Phase] = Counter()
        self.num_with_deadline = self.num_kept = self.num_admitted = self.num_late = self.num_resizes = 0
        self.num_unpromised = self.num_met_unpromised = 0
        self.device_s = self.single_device_s = self.met_device_s = 0.0
        self.first_s, self.last_s = math.inf, -math.inf
        self.jcts_s, self.queues_s = array("d"), array("d")
        self.groups = Groups()

    def add(self, job: JobOutcome) -> None:
        self.phases[job.phase] += 1
        self.num_resizes += job.num_resizes
        self.device_s += job.device_s
        self.groups.add(job)
        self.single_device_s += job.single_device_s
        self.first_s = min(self.first_s, job.submit_s)
        if job.end_s is not None:
            self.last_s = max(self.last_s, job.end_s)
        if job.jct_s is not None:
            self.jcts_s.append(job.jct_s)
        if job.start_s is not None:
            self.queues_s.append(job.start_s - job.submit_s)
        if job.deadline_s is not None:
            self._add_deadline(job)

    def _add_deadline(self, job: JobOutcome) -> None:
        self.num_with_deadline += 1
        if job.is_kept:
            self.num_kept += 1
            self.met_device_s += job.single_device_s
        if job.is_unpromised:
            self.num_unpromised += 1
            self.num_met_unpromised += bool(job.is_kept)
        elif job.phase is not Phase.REJECTED:
            self.num_admitted += 1
            self.num_late += _is_late(job)


def _is_late(job: JobOutcome) -> bool:
    return not job.is_kept and not job.is_buggy and job.phase is not Phase.CANCELLED


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
