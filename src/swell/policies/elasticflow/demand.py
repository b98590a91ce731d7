"""What the latest newcomers asked for: how crowded the cluster is, as far as can be known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.snapshot import Memory, Snapshot
from swell.policies.elasticflow.promises import need_of
from swell.policies.levels import Levels

#: Newcomers that are remembered: enough for a share of them to mean something, few enough to follow the day.
NUM_REMEMBERED = 80
#: From fewer nothing follows.
LEAST_NUM = 20


@dataclass(frozen=True, slots=True)
class RecentDemand:
    """The latest newcomers, oldest first, those of now among them."""

    submitted_s: FloatArray  #: (n,)
    device_s: FloatArray  #: (n,) device-seconds that each needed when it came; see `least_device_s`
    window_s: FloatArray  #: (n,) time from then to its deadline
    now_s: float
    num_devices: int

    @classmethod
    def of(cls, snapshot: Snapshot, levels: Levels, newcomers: IntArray) -> RecentDemand:
        """What is remembered, and these newcomers (n,)."""
        known = snapshot.memory.get("demand", {"submitted_s": [], "device_s": [], "window_s": []})
        device_s = least_device_s(snapshot, levels, newcomers)
        is_possible = np.isfinite(device_s)
        return cls(
            np.append(known["submitted_s"], snapshot.submitted_s[newcomers][is_possible])[-NUM_REMEMBERED:],
            np.append(known["device_s"], device_s[is_possible])[-NUM_REMEMBERED:],
            np.append(known["window_s"], (snapshot.deadline_s - snapshot.now_s)[newcomers][is_possible])[
                -NUM_REMEMBERED:
            ],
            snapshot.now_s,
            snapshot.num_owned,
        )

    @property
    def memory(self) -> Memory:
        """For the next snapshot."""
        return {
            "submitted_s": self.submitted_s.tolist(),
            "device_s": self.device_s.tolist(),
            "window_s": self.window_s.tolist(),
        }

    def within_s(self, until_s: float) -> float:
        """Time in which a job competes with others: until its deadline, or a usual one if that is sooner."""
        return min(until_s, float(np.median(self.window_s))) if len(self.window_s) else until_s

    def largest_that_fit(self, share: float) -> float:
        """Device-seconds of the largest jobs, if newcomers go on like this and the smallest fill this share.

        inf if all fit, or if too few are known. Most jobs are met if the smallest are served; which those are
        depends on what else is to come, and nothing is known of that but what came.
        """
        if len(self.device_s) < LEAST_NUM:
            return np.inf
        room = share * self.num_devices * (self.now_s - float(self.submitted_s.min()))
        sizes = np.sort(self.device_s)
        num_fit = int(np.searchsorted(np.cumsum(sizes), room, side="right"))
        return np.inf if num_fit == len(sizes) else float(sizes[num_fit])


def least_device_s(
    snapshot: Snapshot, levels: Levels, rows: IntArray, within_s: float | None = None
) -> FloatArray:
    """(n,) device-seconds at the cheapest size of each that is in time if all is free; inf if none is.

    Args:
        within_s: None: until its own deadline.
    """
    until_s = (snapshot.deadline_s[rows] - snapshot.now_s)[:, None] if within_s is None else within_s
    is_level = np.arange(levels.highest) < levels.num[rows, None]
    rates = np.where(is_level, levels.rates[rows], 1.0)
    lasts_s = need_of(snapshot)[rows, None] / rates + levels.start_s[rows]
    device_s = np.where(is_level & (lasts_s <= until_s), levels.devices[rows] * lasts_s, np.inf)
    least: FloatArray = device_s.min(axis=1, initial=np.inf)
    return least
