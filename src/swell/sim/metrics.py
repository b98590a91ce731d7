"""Figures of a run, under the names that code, JSON, CLI and docs share."""

from __future__ import annotations

import msgspec
import numpy as np

from swell.model.job import Phase
from swell.sim.outcome import JobOutcome, Outcome


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """None where there is nothing to take a mean of."""

    jobs: int
    deadline_satisfaction: float | None  #: ended at or before it / submitted with one (ElasticFlow 6.1)
    admitted: int  #: jobs with a deadline that were not refused
    rejected: int
    #: Admitted, and not done by the deadline, also for want of nodes that were lost: for strict jobs a broken
    #: promise. Those with a bug of their own, or that their users gave up, are not counted.
    admitted_late: int
    completed: int
    failed: int
    cancelled: int
    unfinished: int
    drop_ratio: float  #: refused / submitted (Saxena IV-C)
    cluster_efficiency: float  #: ElasticFlow, Eq. 8, mean over the makespan
    device_utilization: float  #: share of device-seconds that a job held, over the makespan
    sjs_efficiency: float | None  #: single-device run times / device-seconds used (Saxena IV-C)
    avg_jct_s: float | None
    p99_jct_s: float | None
    makespan_s: float  #: from the first submission to the last end
    avg_queue_s: float | None  #: from submission to the first step
    resizes: int
    events: int  #: turns of the head


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """What the run itself cost; differs from one run to the next."""

    decision_p50_ms: float
    decision_p99_ms: float
    wall_s: float  #: CPU seconds of the whole run on one core


def metrics_of(outcome: Outcome) -> Metrics:
    jobs = outcome.jobs
    with_deadline = [job for job in jobs if job.deadline_s is not None]
    rejected = [job for job in jobs if job.phase is Phase.REJECTED]
    admitted = [job for job in with_deadline if job.phase is not Phase.REJECTED]
    completed = [job for job in jobs if job.phase is Phase.SUCCEEDED]
    ends_s = [job.end_s for job in jobs if job.end_s is not None]
    first_s = min((job.submit_s for job in jobs), default=0.0)
    makespan_s = max(ends_s, default=first_s) - first_s
    used_s = sum(job.device_s for job in jobs)
    single_s = sum(job.single_device_s for job in jobs)
    jcts_s = [jct_s for job in jobs if (jct_s := job.jct_s) is not None]
    queues_s = [job.start_s - job.submit_s for job in jobs if job.start_s is not None]
    usage = outcome.usage
    return Metrics(
        jobs=len(jobs),
        deadline_satisfaction=_ratio(sum(map(_is_kept, with_deadline)), len(with_deadline)),
        admitted=len(admitted),
        rejected=len(rejected),
        admitted_late=sum(_is_late(job) for job in admitted),
        completed=len(completed),
        failed=sum(job.phase is Phase.FAILED for job in jobs),
        cancelled=sum(job.phase is Phase.CANCELLED for job in jobs),
        unfinished=sum(not job.phase.is_end for job in jobs),
        drop_ratio=_ratio(len(rejected), len(jobs)) or 0.0,
        cluster_efficiency=usage.mean(usage.efficiency, first_s + makespan_s) / outcome.num_devices,
        device_utilization=_ratio(used_s, outcome.num_devices * makespan_s) or 0.0,
        sjs_efficiency=_ratio(single_s, used_s),
        avg_jct_s=float(np.mean(jcts_s)) if jcts_s else None,
        p99_jct_s=float(np.percentile(jcts_s, 99)) if jcts_s else None,
        makespan_s=makespan_s,
        avg_queue_s=float(np.mean(queues_s)) if queues_s else None,
        resizes=sum(job.num_resizes for job in jobs),
        events=outcome.num_events,
    )


def timing_of(outcome: Outcome) -> Timing:
    decision_ms = 1000.0 * outcome.decision_s if len(outcome.decision_s) else np.zeros(1)
    return Timing(
        decision_p50_ms=float(np.percentile(decision_ms, 50)),
        decision_p99_ms=float(np.percentile(decision_ms, 99)),
        wall_s=outcome.cpu_s,
    )


def _is_kept(job: JobOutcome) -> bool:
    return bool(job.is_kept)


def _is_late(job: JobOutcome) -> bool:
    return not job.is_kept and not job.is_buggy and job.phase is not Phase.CANCELLED


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
