"""What the latest newcomers asked for: how crowded the cluster is, as far as can be known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.snapshot import Memory, Snapshot
from swell.policies.levels import Levels

#: Newcomers that are remembered: enough for a share of them to mean something, few enough to follow the day.
NUM_REMEMBERED = 80
#: Columns of `RecentDemand` that are kept for the next snapshot.
REMEMBERED = ("submitted_s", "device_s", "window_s", "tenant")
#: From fewer nothing follows.
LEAST_NUM = 20


@dataclass(frozen=True, slots=True)
class RecentDemand:
    """The latest newcomers, oldest first, those of now among them."""

    submitted_s: list[float]
    device_s: list[float]  #: device-seconds that each needed when it came; see `least_device_s`
    window_s: list[float]  #: time from then to its deadline
    tenant: list[int]  #: its number
    now_s: float
    num_devices: int
    quotas: dict[int, int]  #: devices that jobs of a tenant hold together at most, where it has a quota

    @classmethod
    def of(cls, snapshot: Snapshot, levels: Levels, newcomers: IntArray) -> RecentDemand:
        """What is remembered, and these newcomers (n,)."""
        known = snapshot.memory.get("newcomers", {name: [] for name in REMEMBERED})
        if len(newcomers):
            device_s = least_device_s(snapshot, levels, newcomers)
            windows_s = snapshot.deadline_s[newcomers] - snapshot.now_s
            columns = (snapshot.submitted_s[newcomers], device_s, windows_s, snapshot.tenant[newcomers])
            is_possible = np.isfinite(device_s)
            known = {
                name: [*known[name], *column[is_possible].tolist()][-NUM_REMEMBERED:]
                for name, column in zip(REMEMBERED, columns, strict=True)
            }
        quotas = {} if snapshot.quota_devices is None else dict(enumerate(snapshot.quota_devices.tolist()))
        return cls(**known, now_s=snapshot.now_s, num_devices=snapshot.num_owned, quotas=quotas)

    @property
    def memory(self) -> Memory:
        """What the policy remembers of newcomers for the next snapshot."""
        return {name: getattr(self, name) for name in REMEMBERED}

    def within_s(self, until_s: float) -> float:
        """Time in which a job competes with others: until its deadline, or a usual one if that is sooner."""
        return min(until_s, median(self.window_s)) if self.window_s else until_s

    def largest_that_fit(self, share: float, tenant: int) -> float:
        """Device-seconds of the largest jobs, if newcomers go on like this and the smallest fill this share.

        inf if all fit, or if too few are known. Most jobs are met if the smallest are served; which those are
        depends on what else is to come, and nothing is known of that but what came. Jobs of a tenant with a
        quota fill no more than this share of it.

        Args:
            tenant: whose jobs are meant.
        """
        if len(self.device_s) < LEAST_NUM:
            return math.inf
        time_s = share * (self.now_s - min(self.submitted_s))
        room = self.num_devices * time_s
        room_of = {whose: most * time_s for whose, most in self.quotas.items()}
        for size, whose in sorted(zip(self.device_s, self.tenant, strict=True)):
            room_of[whose] = room_of.get(whose, math.inf) - size
            if room_of[whose] < 0.0:
                if whose == tenant:
                    return size
                continue
            room -= size
            if room < 0.0:
                return size
        return math.inf


def least_device_s(
    snapshot: Snapshot, levels: Levels, rows: IntArray, within_s: float | None = None
) -> FloatArray:
    """(n,) device-seconds at the cheapest size of each that is in time if all is free; inf if none is.

    Args:
        within_s: None: until its own deadline.
    """
    until_s = (snapshot.deadline_s[rows] - snapshot.now_s)[:, None] if within_s is None else within_s
    is_level = np.arange(levels.highest) < levels.num[rows, None]
    rates = np.where(is_level, levels.safe_rates[rows], 1.0)
    lasts_s = snapshot.remaining_steps[rows, None] / rates + levels.start_s[rows]
    device_s = np.where(is_level & (lasts_s <= until_s), levels.devices[rows] * lasts_s, np.inf)
    least: FloatArray = device_s.min(axis=1, initial=np.inf)
    return least
