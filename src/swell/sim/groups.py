"""The same figures for parts of the jobs: for each tenant, and for each size that users asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from swell.sim.outcome import JobOutcome

#: Tenants beyond so many, those with the fewest jobs, are not told.
MOST_TENANTS = 50
#: Who has fewer deadlines says nothing about fairness: one job more or less would change all.
LEAST_DEADLINES = 10

KeyT = TypeVar("KeyT", str, int)


class GroupMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Names as in `Metrics`."""

    name: str
    jobs: int
    deadlines: int  #: jobs that were submitted with one
    admitted: int
    deadline_satisfaction: float | None
    promised_device_h: float  #: device-hours of jobs whose deadlines were promised
    used_device_h: float  #: device-hours of all its jobs


class Fairness(msgspec.Struct, frozen=True, kw_only=True):
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


def fairness(jobs: Iterable[JobOutcome]) -> Fairness | None:
    """None where there are not two tenants to compare."""
    groups = _grouped(jobs, lambda job: job.tenant)
    told = [_metrics(name, groups[name]) for name in sorted(groups)]
    shares = {one.name: one.deadline_satisfaction or 0.0 for one in told if one.deadlines >= LEAST_DEADLINES}
    if len(shares) < 2:
        return None
    worst = min(shares, key=shares.__getitem__)
    return Fairness(
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
