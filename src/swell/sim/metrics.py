"""Figures of a run and of parts of its jobs, under the names that code, JSON, CLI and docs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
import numpy as np

from swell.arrays import FloatArray
from swell.model.job import Phase
from swell.sim.outcome import JobOutcome, SimOutcome
from swell.sim.pool import HOUR_S

WEEK_S = 7 * 86_400.0
#: Time is looked at in steps of so long, or in so many.
STEP_S, MOST_STEPS = 300.0, 20_000
#: Halvings of the range in which the level is that all devices go up to.
NUM_HALVINGS = 40


def share_deviation(
    jobs: Sequence[JobOutcome], num_devices: int, weights: Mapping[str, float], half_life_s: float
) -> float | None:
    """Largest difference of an account's device time from the ideal, as a share of all device time of a week.

    The ideal is a fluid: at each moment devices go to the accounts that have used least over their weights,
    as far as their jobs can use them. Jobs bring the device time that they used in the run. What promised
    jobs used is given. None where jobs of two accounts have not run, or shares are not to be fair.
    """
    ran = [job for job in jobs if job.device_s > 0.0]
    names = sorted({job.tenant for job in ran})
    if len(names) < 2 or not half_life_s or not num_devices:
        return None
    begin_s, end_s = min(job.submit_s for job in ran), max(_stretches(job)[-1][1] for job in ran)
    step_s = max(STEP_S, (end_s - begin_s) / MOST_STEPS)
    at_s = np.float64(begin_s) + np.float64(step_s) * np.arange(int((end_s - begin_s) / step_s) + 2)
    place = {name: number for number, name in enumerate(names)}
    used = _used(ran, place, at_s)
    given = np.diff(_used([job for job in ran if job.is_promised], place, at_s))
    weight = np.array([weights.get(name, 1.0) for name in names])
    fluid = _Fluid([job for job in ran if not job.is_promised], place)
    ideal, lately_s, kept_share = np.zeros_like(used), np.zeros(len(names)), 2.0 ** (-step_s / half_life_s)
    for step in range(len(at_s) - 1):
        lately_s = lately_s * kept_share + given[:, step]
        left_s = max(num_devices * step_s - float(given[:, step].sum()), 0.0)
        got_s = _shared_out(left_s, fluid.demand_s(at_s[step], step_s), lately_s, weight)
        fluid.serve(got_s)
        lately_s += got_s
        ideal[:, step + 1] = ideal[:, step] + given[:, step] + got_s
    num_steps = min(int(WEEK_S / step_s), len(at_s) - 1)
    off_s = ideal - used
    off_of_weeks_s = off_s[:, num_steps:] - off_s[:, : off_s.shape[1] - num_steps]
    return float(np.abs(off_of_weeks_s).max() / (num_devices * num_steps * step_s))


def _stretches(job: JobOutcome) -> list[tuple[float, float, float]]:
    """(since, until, devices) of each time in which the job held the same devices."""
    last_s = job.sizes[-1][0] if job.end_s is None else max(job.end_s, job.sizes[-1][0])
    moments = [*job.sizes, (last_s, 0)]
    worker_s = sum((after_s - at_s) * num for (at_s, num), (after_s, _) in pairwise(moments))
    each = job.device_s / worker_s if worker_s else 0.0
    return [(at_s, after_s, num * each) for (at_s, num), (after_s, _) in pairwise(moments)]


def _used(jobs: Sequence[JobOutcome], place: Mapping[str, int], at_s: FloatArray) -> FloatArray:
    """(A, T) device-seconds that each account has used until these (T,) times."""
    sums = np.zeros((2, len(place), len(at_s)))
    changes = [
        change
        for job in jobs
        for since_s, until_s, num in _stretches(job)
        for change in ((place[job.tenant], since_s, num), (place[job.tenant], until_s, -num))
    ]
    if changes:
        account, moment_s, num = np.array(changes).T
        at = account.astype(int), np.searchsorted(at_s, moment_s)
        np.add.at(sums[0], at, num)
        np.add.at(sums[1], at, num * moment_s)
    rate, before_s = sums.cumsum(axis=2)
    used: FloatArray = rate * at_s - before_s
    return used


def _shared_out(left_s: float, demand_s: FloatArray, used_s: FloatArray, weight: FloatArray) -> FloatArray:
    """(A,) of these device-seconds: those that have used least over their weights get what they can use."""
    if demand_s.sum() <= left_s:
        return demand_s
    low, high = 0.0, float(((used_s + demand_s) / weight).max())
    for _ in range(NUM_HALVINGS):
        level = (low + high) / 2.0
        got_s = np.clip(level * weight - used_s, 0.0, demand_s)
        low, high = (level, high) if got_s.sum() < left_s else (low, level)
    return got_s


class _Fluid:
    """The jobs, and what is left of each; those of one account share what it gets."""

    def __init__(self, jobs: Sequence[JobOutcome], place: Mapping[str, int]) -> None:
        ordered = sorted(jobs, key=lambda job: job.submit_s)
        self._submit_s = np.array([job.submit_s for job in ordered])
        self._left_s = np.array([job.device_s for job in ordered])
        most = [max(job.requested_devices or 0, *(one[2] for one in _stretches(job))) for job in ordered]
        self._most = np.array(most, dtype=float)
        self._account = np.array([place[job.tenant] for job in ordered], dtype=int)
        self._num_accounts, self._open, self._num_come = len(place), np.zeros(0, dtype=int), 0

    def demand_s(self, now_s: float, step_s: float) -> FloatArray:
        """(A,) device-seconds that jobs submitted by now can use within a step."""
        num = int(np.searchsorted(self._submit_s, now_s, side="right"))
        self._open = np.concatenate([self._open, np.arange(self._num_come, num)])
        self._open = self._open[self._left_s[self._open] > 0.0]
        self._num_come = num
        self._can_s = np.minimum(self._most[self._open] * step_s, self._left_s[self._open])
        wanted_s = np.bincount(self._account[self._open], self._can_s, self._num_accounts)
        self._wanted_s = wanted_s.astype(np.float64)
        return self._wanted_s

    def serve(self, got_s: FloatArray) -> None:
        """The accounts get so much (A,) of what they can use."""
        share = np.divide(got_s, self._wanted_s, out=np.zeros(len(got_s)), where=self._wanted_s > 0.0)
        left_s = self._left_s[self._open] - self._can_s * share[self._account[self._open]]
        self._left_s[self._open] = np.where(left_s < 1e-6, 0.0, left_s)


#: Tenants beyond so many, those with the fewest jobs, are not told.
MOST_TENANTS = 50
#: Who has fewer deadlines says nothing about fairness: one job more or less would change all.
LEAST_DEADLINES = 10
KeyT = TypeVar("KeyT", str, int)


class JobMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of some jobs. None where there is nothing to take a mean of."""

    jobs: int
    deadline_satisfaction: float | None  #: ended at or before it / submitted with one (ElasticFlow 6.1)
    admitted: int  #: jobs with a deadline that were not refused a promise
    #: Admitted, and not done by the deadline, also for want of nodes that were lost: for strict jobs a broken
    #: promise. Those with a bug of their own, or that their users gave up, are not counted.
    admitted_late: int
    completed: int
    timed_out: int  #: fixed jobs that were ended at their limit of time
    avg_queue_s: float | None  #: from submission to the first step


class GroupMetrics(JobMetrics, frozen=True, kw_only=True):
    """Figures of a part of the jobs of a run."""

    name: str
    deadlines: int  #: jobs that were submitted with one
    promised_device_h: float  #: device-hours of jobs whose deadlines were promised
    used_device_h: float  #: device-hours of all its jobs


class Metrics(JobMetrics, frozen=True, kw_only=True):
    """Figures of a run."""

    met_device_h: float  #: device-hours that the jobs take on one device each that met their deadlines
    rejected: int  #: refused, and ended by that
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
    resizes: int
    events: int  #: turns of the head
    fairness: TenantMetrics | None  #: between tenants
    by_tenant: tuple[GroupMetrics, ...]
    by_size: tuple[GroupMetrics, ...]  #: by the number of devices that users asked for
    by_kind: tuple[GroupMetrics, ...] = ()  #: elastic, fixed, session; empty where all are elastic
    refused_bookings: int = 0
    resource_integral_node_h: float | None = None  #: node-hours that were lent (BFTrainer, Eq. 17)
    equivalent_nodes: float | None = None  #: nodes that give as much if they never leave (BFTrainer, Eq. 18)
    kept_device_s: float | None = None  #: device-seconds held on nodes that had been reclaimed
    share_deviation: float | None = None  #: see `share_deviation`
    unpromised: int = 0  #: refused a promise, and tried all the same
    met_unpromised: int = 0  #: of these, done by the deadline; `deadline_satisfaction` counts them too

    @property
    def hours_in_time(self) -> float | None:
        """`met_device_h`; None where no job has a deadline."""
        return None if self.deadline_satisfaction is None else self.met_device_h


def metrics_of(
    outcome: SimOutcome, weights: Mapping[str, float] = MappingProxyType({}), half_life_s: float = 0.0
) -> Metrics:
    """Figures of a run with these weights of accounts, and this half life of what they have used."""
    jobs, usage, pool = outcome.jobs, outcome.usage, outcome.pool
    phases = Counter(job.phase for job in jobs)
    facing = [job for job in jobs if job.deadline_s is not None]
    kept, unpromised = [job for job in facing if job.is_kept], [job for job in facing if job.is_unpromised]
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
        **_of_jobs(jobs),
        met_device_h=sum(job.single_device_s for job in kept) / HOUR_S,
        rejected=num_rejected,
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
        resizes=sum(job.num_resizes for job in jobs),
        events=outcome.num_events,
        fairness=fairness(jobs),
        by_tenant=by_tenant(jobs),
        by_size=by_size(jobs),
        by_kind=by_kind(jobs),
        refused_bookings=len(outcome.refused_bookings),
        resource_integral_node_h=pool.node_s(first_s, until_s) / HOUR_S if pool else None,
        equivalent_nodes=pool.equivalent_nodes(first_s, until_s) if pool else None,
        kept_device_s=outcome.kept_device_s if pool else None,
        share_deviation=None
        if pool is not None
        else share_deviation(jobs, outcome.num_devices, weights, half_life_s),
        unpromised=len(unpromised),
        met_unpromised=sum(bool(job.is_kept) for job in unpromised),
    )


def _is_late(job: JobOutcome) -> bool:
    """What is promised to a fixed job is all of its time: one that ended at its limit in time has had it."""
    if job.phase is Phase.TIMED_OUT and job.end_s is not None and job.deadline_s is not None:
        return job.end_s > job.deadline_s
    return not job.is_kept and not job.is_buggy and job.phase is not Phase.CANCELLED


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


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


def by_kind(jobs: Iterable[JobOutcome]) -> tuple[GroupMetrics, ...]:
    """Figures of elastic jobs, fixed jobs and sessions; empty where all are elastic."""
    groups = _grouped(jobs, lambda job: str(job.job_kind))
    return (
        tuple(_metrics(name, groups[name]) for name in sorted(groups)) if groups.keys() - {"elastic"} else ()
    )


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
    return GroupMetrics(
        name=name,
        deadlines=sum(job.deadline_s is not None for job in jobs),
        promised_device_h=sum(job.device_s for job in jobs if job.is_promised) / HOUR_S,
        used_device_h=sum(job.device_s for job in jobs) / HOUR_S,
        **_of_jobs(jobs),
    )


def _of_jobs(jobs: Sequence[JobOutcome]) -> dict[str, Any]:
    """Fields of `JobMetrics`."""
    facing = [job for job in jobs if job.deadline_s is not None]
    admitted = [job for job in facing if job.is_admitted]
    return {
        "jobs": len(jobs),
        "deadline_satisfaction": _ratio(sum(bool(job.is_kept) for job in facing), len(facing)),
        "admitted": len(admitted),
        "admitted_late": sum(map(_is_late, admitted)),
        "completed": sum(job.phase is Phase.SUCCEEDED for job in jobs),
        "timed_out": sum(job.phase is Phase.TIMED_OUT for job in jobs),
        "avg_queue_s": _mean([job.start_s - job.submit_s for job in jobs if job.start_s is not None]),
    }


def _jain_index(shares: Sequence[float]) -> float | None:
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def _range(power: int) -> str:
    most, least = 2**power, 2**power // 2 + 1
    return f"{least}-{most}" if least < most else f"{most}"
