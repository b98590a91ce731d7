"""The same figures for parts of the jobs: for each tenant, and for each size that users asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from swell.model.job import Phase
from swell.sim.outcome import JobOutcome

#: Tenants beyond so many, those with the fewest jobs, are not told.
MOST_TENANTS = 50
#: Who has fewer deadlines says nothing about fairness: one job more or less would change all.
LEAST_DEADLINES = 10


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


class GroupSums:
    """Over the jobs of one group."""

    def __init__(self) -> None:
        self.num_jobs = self.num_deadlines = self.num_admitted = self.num_kept = 0
        self.promised_s = self.used_s = 0.0

    def add(self, job: JobOutcome) -> None:
        self.num_jobs += 1
        self.used_s += job.device_s
        self.promised_s += job.device_s if job.is_promised else 0.0
        if job.deadline_s is not None:
            self.num_deadlines += 1
            self.num_kept += bool(job.is_kept)
            self.num_admitted += job.phase is not Phase.REJECTED and not job.is_unpromised

    @property
    def satisfaction(self) -> float | None:
        return self.num_kept / self.num_deadlines if self.num_deadlines else None

    def named(self, name: str) -> GroupMetrics:
        return GroupMetrics(
            name=name,
            jobs=self.num_jobs,
            deadlines=self.num_deadlines,
            admitted=self.num_admitted,
            deadline_satisfaction=self.satisfaction,
            promised_device_h=self.promised_s / 3600.0,
            used_device_h=self.used_s / 3600.0,
        )


class Groups:
    """Every job is looked at once."""

    def __init__(self) -> None:
        self._tenants: defaultdict[str, GroupSums] = defaultdict(GroupSums)
        self._sizes: defaultdict[int, GroupSums] = defaultdict(GroupSums)

    def add(self, job: JobOutcome) -> None:
        self._tenants[job.tenant].add(job)
        if job.requested_devices:  # the least power of two, as an exponent, that is no smaller
            self._sizes[(job.requested_devices - 1).bit_length()].add(job)

    def by_tenant(self) -> tuple[GroupMetrics, ...]:
        """The one with the most jobs first; empty where there are not two."""
        if len(self._tenants) < 2:
            return ()
        ranked = sorted(self._tenants.items(), key=lambda item: (-item[1].num_jobs, item[0]))
        return tuple(sums.named(name) for name, sums in ranked[:MOST_TENANTS])

    def by_size(self) -> tuple[GroupMetrics, ...]:
        """Figures of the jobs by the number of devices that users asked for, in ranges of powers of two.

        Empty where that number is unknown.
        """
        return tuple(self._sizes[power].named(_range(power)) for power in sorted(self._sizes))

    def fairness(self) -> Fairness | None:
        """None where there are not two tenants to compare."""
        shares = {
            name: sums.satisfaction or 0.0
            for name, sums in sorted(self._tenants.items())
            if sums.num_deadlines >= LEAST_DEADLINES
        }
        if len(shares) < 2:
            return None
        worst = min(shares, key=shares.__getitem__)
        return Fairness(
            tenants=len(shares),
            jain_index=_jain_index(list(shares.values())),
            worst_tenant=worst,
            worst_satisfaction=shares[worst],
        )


def _jain_index(shares: Sequence[float]) -> float | None:
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def _range(power: int) -> str:
    most, least = 2**power, 2**power // 2 + 1
    return f"{least}-{most}" if least < most else f"{most}"
