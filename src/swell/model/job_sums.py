"""Jobs in numbers that can be added up: how long they had devices, and what came of those that have ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import msgspec

from swell.model.job import JobClass
from swell.model.view import JobView

HOUR_S = 3600.0
#: Columns of text of a row, in order, and those that are filled in where rows are grouped by one of them.
TEXTS = ("user", "tenant", "job_class", "kind", "job", "name")


class UsageGroup(StrEnum):
    """What has a row of its own in a list of device hours."""

    USER = "user"
    TENANT = "tenant"
    CLASS = "class"
    KIND = "kind"
    JOB = "job"
    ALL = "all"  #: each combination of user, tenant, class and kind


class Payer(NamedTuple):
    """Whose a device hour is, of which class of job, on which kind of device."""

    user: str  #: empty: the owner of the platform
    tenant: str
    job_class: JobClass
    kind: str  #: of the devices


class HeldTime(msgspec.Struct, frozen=True, kw_only=True):
    """When a job had how many workers: the part of a `JobView` that is charged, and that is read of it."""

    id: str  #: empty: it was pruned, as is its name then
    name: str
    user: str = ""
    tenant: str = ""
    job_class: JobClass
    kind: str = ""
    devices_per_worker: int
    finished_s: float | None
    sizes: tuple[tuple[float, int], ...]

    @classmethod
    def of(cls, view: JobView) -> HeldTime:
        return cls(**{name: getattr(view, name) for name in cls.__struct_fields__})

    @property
    def payer(self) -> Payer:
        return Payer(self.user, self.tenant, self.job_class, self.kind)

    def device_s(self, since_s: float, until_s: float) -> float:
        """Devices times how long its gangs trained on them, in this time; up to its end, or to `until_s`."""
        return math.fsum(
            num * max(0.0, min(end_s, until_s) - max(begin_s, since_s))
            for begin_s, end_s, num in self._stretches(until_s)
        )

    def _stretches(self, until_s: float) -> Iterator[tuple[float, float, int]]:
        """Begin, end and devices of each stretch of time with any."""
        end_s = until_s if self.finished_s is None else self.finished_s
        for (begin_s, workers), (next_s, _) in pairwise([*self.sizes, (end_s, 0)]):
            if workers > 0:
                yield begin_s, next_s, workers * self.devices_per_worker


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Device hours of some jobs together. What the jobs of the row differ in is empty."""

    user: str = ""
    tenant: str = ""
    job_class: str = ""
    kind: str = ""
    job: str = ""  #: id; empty: of several jobs, or of pruned ones
    name: str = ""  #: of the job
    device_hours: float


OWN_TEXTS = {
    UsageGroup.USER: TEXTS[:1],
    UsageGroup.TENANT: TEXTS[1:2],
    UsageGroup.CLASS: TEXTS[2:3],
    UsageGroup.KIND: TEXTS[3:4],
    UsageGroup.JOB: TEXTS,
    UsageGroup.ALL: TEXTS[:4],
}


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Device hours within a time."""

    since_s: float
    until_s: float
    by: UsageGroup
    rows: tuple[UsageRow, ...]  #: the most device hours first
    device_hours: float  #: of all rows


class UsageEntry(NamedTuple):
    """Device time of one job, or of pruned jobs of one payer."""

    payer: Payer
    job: str
    name: str
    device_s: float


def report_of(entries: Iterable[UsageEntry], by: UsageGroup, since_s: float, until_s: float) -> UsageReport:
    """Add up device time by what `by` says; entries without device time are left out."""
    amounts: dict[tuple[str, ...], list[float]] = {}
    for payer, job, name, device_s in entries:
        if device_s > 0.0:
            told = zip(TEXTS, (*payer, job, name), strict=True)
            key = tuple(str(text) if field in OWN_TEXTS[by] else "" for field, text in told)
            amounts.setdefault(key, []).append(device_s / HOUR_S)
    rows = [
        UsageRow(**dict(zip(TEXTS, key, strict=True)), device_hours=math.fsum(hours))
        for key, hours in amounts.items()
    ]
    rows.sort(key=lambda row: (-row.device_hours, row.user, row.tenant, row.job_class, row.kind, row.job))
    return UsageReport(
        since_s=since_s,
        until_s=until_s,
        by=by,
        rows=tuple(rows),
        device_hours=math.fsum(part for hours in amounts.values() for part in hours),
    )


class OutcomeSums(msgspec.Struct, frozen=True, kw_only=True):
    """What came of jobs: of one, or of several together. Times are seconds."""

    num_jobs: int = 0
    promises_kept: int = 0
    promises_missed: int = 0
    others_kept: int = 0  #: deadlines without a promise
    others_missed: int = 0
    refused: int = 0
    failed: int = 0
    device_s: float = 0.0  #: devices that were held, times how long
    resizes: int = 0
    pause_s: float = 0.0  #: that resizes took from training
    saved_s: float = 0.0  #: training time that growing saved

    def __add__(self, other: OutcomeSums) -> OutcomeSums:
        names = OutcomeSums.__struct_fields__
        return OutcomeSums(**{name: getattr(self, name) + getattr(other, name) for name in names})


class OutcomePeriod(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that ended in a week, or another length of time."""

    begin_s: float
    outcome: OutcomeSums


class JobHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Ended jobs added up, period by period; those in which none ended are left out."""

    period_s: float
    periods: tuple[OutcomePeriod, ...] = ()  #: oldest first

    @property
    def total(self) -> OutcomeSums:
        """Sum of the outcomes of all periods."""
        return sum((period.outcome for period in self.periods), OutcomeSums())


def device_s(view: JobView) -> float:
    """Devices that it held, times how long it held them."""
    return 0.0 if view.finished_s is None else HeldTime.of(view).device_s(-math.inf, math.inf)
