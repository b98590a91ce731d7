"""Jobs in numbers that can be added up: how long they had devices, and what came of those that have ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any

import msgspec

from swell.model.job import JobClass
from swell.model.view import JobView

HOUR_S = 3600.0
#: Columns of text of a row.
TEXTS = ("user", "tenant", "job_class", "kind", "job", "name", "week")


class UsageGroup(StrEnum):
    """What has a row of its own in a list of device hours."""

    USER = "user"
    TENANT = "tenant"
    CLASS = "class"
    KIND = "kind"
    JOB = "job"
    WEEK = "week"
    ALL = "all"  #: each combination of user, tenant, class and kind


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
    used: tuple[tuple[float, float], ...] = ()  #: as in `JobView`

    @classmethod
    def of(cls, view: JobView) -> HeldTime:
        return cls(**{name: getattr(view, name) for name in cls.__struct_fields__})

    def device_s(self, since_s: float, until_s: float) -> float:
        """Devices times how long its gangs trained on them, in this time; up to its end, or to `until_s`."""
        return math.fsum(
            num * max(0.0, min(end_s, until_s) - max(begin_s, since_s))
            for begin_s, end_s, num in self._stretches(until_s)
        )

    def used_s(self, since_s: float, until_s: float) -> float | None:
        """Use of these devices, integrated over this time; None: it was not measured.

        What was used between two times of `used` is spread evenly over what was held between them.
        """
        if not self.used:
            return None
        found, begin_s, before_s = [], -math.inf, 0.0
        for number, (at_s, used_s) in enumerate(self.used, 1):
            is_last = number == len(self.used) and self.finished_s is not None
            end_s = math.inf if is_last else at_s
            if held_s := self.device_s(begin_s, end_s):
                share = min(1.0, (used_s - before_s) / held_s)
                found.append(share * self.device_s(max(begin_s, since_s), min(end_s, until_s)))
            begin_s, before_s = at_s, used_s
        return math.fsum(found)

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
    week: str = ""  #: its first day, a Monday
    device_hours: float
    used_hours: float | None = None  #: of `measured_hours`: in which the devices computed; None: not measured
    measured_hours: float = 0.0  #: of the device hours, those of which the use was measured


#: What rows of each report have, in the order in which people are shown it.
OWN_TEXTS: Mapping[UsageGroup, tuple[str, ...]] = {
    UsageGroup.USER: TEXTS[:1],
    UsageGroup.TENANT: TEXTS[1:2],
    UsageGroup.CLASS: TEXTS[2:3],
    UsageGroup.KIND: TEXTS[3:4],
    UsageGroup.JOB: ("job", "name", *TEXTS[:4]),
    UsageGroup.WEEK: TEXTS[6:],
    UsageGroup.ALL: TEXTS[:4],
}


class UsageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Device hours within a time."""

    since_s: float
    until_s: float
    by: UsageGroup
    rows: tuple[UsageRow, ...]  #: the most device hours first
    device_hours: float  #: of all rows, as are the next two
    used_hours: float | None = None
    measured_hours: float = 0.0


#: Begin and end of a part of the time of a report, and the week that it is of; they follow each other.
UsagePart = tuple[float, float, str]


def report_of(
    jobs: Iterable[HeldTime], by: UsageGroup, parts: Sequence[UsagePart], ahead_s: float = 0.0
) -> UsageReport:
    """Add up device time by what `by` says; jobs that held nothing are left out.

    Args:
        ahead_s: the times of the report less those of the jobs.
    """
    groups: dict[tuple[str, ...], list[tuple[float, float | None]]] = {}
    for job in jobs:
        known = {name: str(getattr(job, name, "")) for name in TEXTS} | {"job": job.id}
        for begin_s, end_s, week in parts:
            time_s = begin_s - ahead_s, end_s - ahead_s
            if (held_s := job.device_s(*time_s)) > 0.0:
                known["week"] = week
                key = tuple(known[name] if name in OWN_TEXTS[by] else "" for name in TEXTS)
                groups.setdefault(key, []).append((held_s / HOUR_S, job.used_s(*time_s)))
    rows = [
        UsageRow(**{**dict(zip(TEXTS, key, strict=True)), **_hours(group)}) for key, group in groups.items()
    ]
    rows.sort(key=lambda row: (row.week, -row.device_hours, *(getattr(row, name) for name in TEXTS)))
    every = _hours([one for group in groups.values() for one in group])
    return UsageReport(since_s=parts[0][0], until_s=parts[-1][1], by=by, rows=tuple(rows), **every)


def _hours(held: Sequence[tuple[float, float | None]]) -> dict[str, Any]:
    """Sums, as rows name them, of device hours and of the device-seconds of them that were used."""
    known = [(hours, used_s) for hours, used_s in held if used_s is not None]
    return {
        "device_hours": math.fsum(hours for hours, _ in held),
        "used_hours": math.fsum(used_s / HOUR_S for _, used_s in known) if known else None,
        "measured_hours": math.fsum(hours for hours, _ in known),
    }


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
