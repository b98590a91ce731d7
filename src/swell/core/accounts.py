"""Tenants and their quotas; what each account has used, and which of its jobs have waited for too long.

An account is a tenant, or the user of a job that names none. Its use is device time, halved every half life.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray, read_only
from swell.core.record import JobRecord
from swell.model.quota import NO_QUOTA, Quotas
from swell.model.snapshot import BEST_EFFORT, TURN_S, AccountUsage, Snapshot, index_of
from swell.model.usage import AccountShare

#: A tenant whose last job ended, or was refused, so long ago does not count any more.
MEMORY_S = 86_400.0


class TenantTable(msgspec.Struct, kw_only=True):
    """Numbers of all tenants that there ever were, and which of them have jobs, or had some lately.

    A plain value, kept with the head's state: after a restart everybody has the number it had.
    """

    codes: dict[str, int] = {}
    num_jobs: dict[str, int] = {}  #: of those that have any
    left_s: dict[str, float] = {}  #: when others had their last one, if that was lately, in order

    def __len__(self) -> int:
        """Number of tenants that have jobs, or had one within MEMORY_S."""
        return len(self.num_jobs) + len(self.left_s)

    def join(self, name: str) -> int:
        """Note a job of this tenant. Returns its number, which is its own for ever."""
        self.left_s.pop(name, None)
        self.num_jobs[name] = self.num_jobs.get(name, 0) + 1
        return self.codes.setdefault(name, len(self.codes))

    def leave(self, name: str, at_s: float) -> None:
        """One job less; `at_s` is never before that of an earlier call."""
        self.num_jobs[name] -= 1
        if self.num_jobs[name] == 0:
            del self.num_jobs[name]
            self.left_s[name] = at_s

    def forget(self, now_s: float) -> None:
        """Let those count no more who have had no job for so long."""
        while self.left_s:
            name, at_s = next(iter(self.left_s.items()))
            if now_s - at_s <= MEMORY_S:
                return
            del self.left_s[name]

    def quota_devices(
        self, quotas: Quotas, num_devices: int, taken: Mapping[str, int] = MappingProxyType({})
    ) -> IntArray | None:
        """Most devices of each tenant by its number, NO_QUOTA for any; None if none of these has a quota.

        Args:
            num_devices: that are there.
            taken: by tenant, of these, that jobs have for which no policy plans.
        """
        limited = quotas.keys() & (self.num_jobs.keys() | self.left_s.keys())
        if not limited:
            return None
        column = np.full(max(self.codes.values()) + 1, NO_QUOTA, dtype=np.int64)
        for name in limited:
            most = quotas[name].most_devices(num_devices) - taken.get(name, 0)
            column[self.codes[name]] = max(most, 0)
        return read_only(column)


def is_beyond_quota(snapshot: Snapshot, workers: IntArray) -> BoolArray:
    """(J,) jobs whose tenant has more than its quota at these sizes (J,)."""
    quota = snapshot.quota_devices
    if quota is None:
        return np.zeros(snapshot.num_jobs, dtype=bool)
    is_beyond: BoolArray = (snapshot.devices_of_tenants(workers) > quota)[snapshot.tenant]
    return is_beyond


#: A job of an account of weight 1 that has waited for so long is served before all younger ones.
AGED_S = 86_400.0
#: The one that has waited for so many times that long is served before all others.
OVERDUE_TIMES = 2.0
#: So much of the time that it has waited a job then runs before younger ones are served again.
RUN_SHARE = 0.1
#: Of accounts that have no other one.
WEIGHT = 1.0


class AccountUse(msgspec.Struct, frozen=True, array_like=True):
    """Device-seconds that an account has used until a moment, and what it holds since then."""

    used_s: float
    num_devices: int
    as_of_s: float

    def until(self, at_s: float, half_life_s: float) -> float:
        """Device-seconds used by then: what was used a half life before counts half."""
        kept_share = 2.0 ** (min(self.as_of_s - at_s, 0.0) / half_life_s)
        return float(
            self.used_s * kept_share + self.num_devices * half_life_s / log(2.0) * (1.0 - kept_share)
        )


UNUSED = AccountUse(0.0, 0, 0.0)


class AccountTable(TenantTable, kw_only=True):
    """The accounts of a platform. A plain value, kept with the head's state."""

    uses: dict[str, AccountUse] = {}
    held: dict[str, int] = {}  #: devices of each job that holds any

    def note(self, record: JobRecord, now_s: float, half_life_s: float) -> None:
        """The job holds from now on what its record says."""
        more = len(record.gang.held) - self.held.get(record.id, 0)
        if not more:
            return
        use = self.uses.get(record.account, UNUSED)
        used_s = use.until(now_s, half_life_s)
        self.uses[record.account] = AccountUse(used_s, use.num_devices + more, now_s)
        self.held[record.id] = len(record.gang.held)
        if not self.held[record.id]:
            del self.held[record.id]

    def used_s(self, now_s: float, half_life_s: float) -> dict[str, float]:
        """What each account has used, by name; what is less than a device-second is nothing."""
        used = ((name, use.until(now_s, half_life_s)) for name, use in list(self.uses.items()))
        return {name: used_s for name, used_s in used if used_s >= 1.0}

    def levels(self, now_s: float, half_life_s: float, weights: Mapping[str, float]) -> dict[str, float]:
        """What accounts with open jobs have used over their weights; empty where there are not two."""
        if not half_life_s or len(self.num_jobs) < 2:
            return {}
        used_s = self.used_s(now_s, half_life_s)
        return {name: used_s.get(name, 0.0) / weights.get(name, WEIGHT) for name in self.num_jobs}

    def shares(
        self,
        now_s: float,
        half_life_s: float,
        weights: Mapping[str, float],
        quotas: Quotas,
        num_devices: int,
        columns: tuple[FloatArray, FloatArray, FloatArray],
    ) -> tuple[AccountUsage | None, float]:
        """What policies see of it, and when it will be different without an event.

        None: one account has all jobs, and none of them has waited for too long.

        Args:
            num_devices: that quotas are of.
            columns: (J,) each job's account, and since when it waits and runs; see `waits`.
        """
        if not half_life_s:
            return None, np.inf
        codes, account = np.unique(columns[0].astype(np.int64), return_inverse=True)
        known = list(self.codes)
        names = tuple(known[code] for code in codes.tolist())
        weight = np.array([weights.get(name, WEIGHT) for name in names])
        limit_s = AGED_S / weight[account]
        is_aged, aged_s = _aged(now_s, limit_s, *columns[1:])
        late, late_s = _aged(now_s, OVERDUE_TIMES * limit_s, *columns[1:])
        rows = late.nonzero()[0]
        if len(self.num_jobs) < 2 and not is_aged.any():
            return None, aged_s
        used_s = self.used_s(now_s, half_life_s)
        claims = (quotas[name].most_devices(num_devices) if name in quotas else NO_QUOTA for name in names)
        shares = AccountUsage(
            account=account,
            is_aged=is_aged,
            overdue=int(rows[columns[1][rows].argmin()]) if len(rows) else None,
            names=names,
            used_s=np.array([used_s.get(name, 0.0) for name in names]),
            weight=weight,
            claim=np.fromiter(claims, np.int64, len(names)),
            half_life_s=half_life_s,
            are_several=len(self.num_jobs) > 1,
        )
        is_any_waiting = bool(np.isnan(columns[2]).any())
        return shares, min(aged_s, late_s, now_s + TURN_S if is_any_waiting else np.inf)


def told_shares(used_s: Mapping[str, float], weights: Mapping[str, float]) -> tuple[AccountShare, ...]:
    """What accounts have used (`AccountTable.used_s`), of devices of all kinds, beside their shares."""
    known = {name: weights.get(name, WEIGHT) for name in used_s}
    device_h = sum(used_s.values()) / 3600.0 / (sum(known.values()) or WEIGHT)
    return tuple(
        AccountShare(
            name=name,
            weight=weight,
            used_device_h=used_s[name] / 3600.0,
            share_device_h=device_h * weight,
        )
        for name, weight in sorted(known.items())
    )


def waited(record: JobRecord, now_s: float, weights: Mapping[str, float]) -> float:
    """For how many times AGED_S a job without workers has waited, times the weight of its account."""
    waits_s = record.submitted_s if record.sizes.waits_from_s is None else record.sizes.waits_from_s
    return (now_s - waits_s) / AGED_S * weights.get(record.account, WEIGHT)


def _aged(
    now_s: float, aged_s: FloatArray, waits_s: FloatArray, runs_s: FloatArray
) -> tuple[BoolArray, float]:
    """(J,) jobs that have waited for (J,) so long, until they have run for a part of it; and when one is."""
    has_waited_s = np.where(np.isnan(runs_s), now_s, runs_s) - waits_s
    is_over = now_s - runs_s >= RUN_SHARE * has_waited_s  # NaN: never
    due_s = np.where(np.isnan(runs_s) & (has_waited_s < aged_s), waits_s + aged_s, np.inf)
    return (has_waited_s >= aged_s) & ~is_over, float(due_s.min(initial=np.inf))


def with_aged(columns: dict[str, Any], fair: AccountUsage, now_s: float) -> dict[str, Any]:
    """Columns in which aged jobs have the highest priorities, the first submitted the highest of all.

    So a policy serves them first without knowing. A soft job whose deadline has passed is a best-effort one.
    """
    needs_owned = columns["is_promised"] | columns["is_undecided"]
    rows = (fair.is_aged & ~needs_owned).nonzero()[0]
    if not len(rows):
        return columns
    ids, priority, job_class = columns["job_ids"], columns["priority"].copy(), columns["job_class"].copy()
    arrival = {row: (columns["submitted_s"][row], ids[row]) for row in rows.tolist()}
    youngest_first = sorted(arrival, key=arrival.__getitem__, reverse=True)
    priority[youngest_first] = priority.max() + 1 + np.arange(len(rows))
    job_class[rows[columns["deadline_s"][rows] <= now_s]] = BEST_EFFORT
    index = index_of(ids, priority, columns["submitted_s"])
    return {**columns, "priority": read_only(priority), "job_class": read_only(job_class), "index": index}
