"""Promises that survive the loss of nodes: plans on what is left without the widest of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.promises import PromisePlanner, Promises, all_free, takers_of
from swell.policies.elasticflow.standing import StandingPlans
from swell.policies.levels import Levels
from swell.solvers.capacity.plans import BROKEN, Takers


class KeptPlans(NamedTuple):
    """The plans of all promises, and what newcomers are tried with."""

    planner: PromisePlanner
    promises: Promises
    reserve: Reserve


class Reserve(NamedTuple):
    """What is kept for the loss of nodes."""

    snapshot: Snapshot
    levels: Levels
    takers: Takers  #: without what the loss of a node costs
    num_devices: int  #: that are not counted on
    is_whole: bool  #: the promises would survive the loss; else none is added

    @property
    def num_left(self) -> int:
        """Devices that promises may count on."""
        return self.snapshot.num_owned - self.num_devices

    def retime(self, takers: Takers, row: int, until_s: float) -> None:
        """Give a newcomer another deadline among these takers."""
        takers.until_s[row], takers.work[row] = until_s, self.takers.work[row]
        if self.num_devices:
            _charge(self.snapshot, self.levels, takers, np.array([row]))


def keep_promises(
    snapshot: Snapshot, levels: Levels, standing: StandingPlans, survive_nodes: int = 0
) -> KeptPlans:
    """Plans for promises that were made before, on all devices but those of the nodes that may be lost.

    Each plan there is for work that may have to be done again, and ends before the deadline by a start and by
    the time until the loss of a node is heard of: a gang may be lost with its node at any moment, and starts
    elsewhere. So whatever node is lost, the plans of the others stay as they are. A promise that has no such
    plan, for its own reserve is used up, has one without; where even then one is broken, for a node is lost,
    plans are on all devices that are there.

    Args:
        survive_nodes: how many nodes may be lost at one time.

    References: ElasticFlow, section 4.4, "Node failures", which leaves the reserve to future work.
    """
    rows = snapshot.by_deadline(snapshot.is_promised.nonzero()[0])
    takers, everything = takers_of(snapshot, levels), all_free(snapshot)
    num_reserved = sum(snapshot.owned_widths[:survive_nodes])
    reserve = Reserve(snapshot, levels, takers, num_reserved, is_whole=True)
    if not num_reserved:
        planner = PromisePlanner(snapshot, takers, everything)
        return KeptPlans(planner, planner.keep(standing, rows), reserve)
    is_charged = np.isfinite(snapshot.deadline_s)
    for num_devices in (num_reserved, 0):
        free = everything.raised(-num_devices)
        while True:
            charged = with_own_deadlines(takers)
            _charge(snapshot, levels, charged, is_charged.nonzero()[0])
            planner = PromisePlanner(snapshot, charged, free)
            promises = planner.keep(standing, rows)
            broken = rows[promises.grade[rows] == BROKEN]
            if not len(broken):
                return KeptPlans(planner, promises, reserve._replace(is_whole=num_devices > 0))
            if not is_charged[broken].any():
                break
            is_charged[broken] = False
    return KeptPlans(planner, promises, reserve._replace(is_whole=False))


def with_own_deadlines(takers: Takers) -> Takers:
    """The same, whose deadlines can be changed and leave those of these as they are."""
    return takers._replace(until_s=takers.until_s.copy(), work=takers.work.copy())


def _charge(snapshot: Snapshot, levels: Levels, takers: Takers, rows: IntArray) -> None:
    """Have these takers be able to pay for a start from a checkpoint at any moment.

    The work to be done again is that of the smallest level that would be in time with it.
    """
    num, rates = levels.num[rows], takers.rates[rows]
    gone_s = snapshot.unheard_s + levels.start_s[rows].max(axis=1, initial=0.0)
    until_s = takers.until_s[rows] - gone_s
    again = rates * snapshot.checkpoint_interval_s[rows, None]
    is_level = np.arange(levels.highest)[None, :] < num[:, None]
    is_in_time = is_level & (rates * until_s[:, None] >= takers.work[rows, :1] + again)
    level = np.where(is_in_time.any(axis=1), is_in_time.argmax(axis=1), np.maximum(num - 1, 0))
    steps = again[np.arange(len(rows)), level]
    most: FloatArray = snapshot.done_steps[rows] + snapshot.remaining_steps[rows]
    takers.work[rows] += np.where(num > 0, np.minimum(steps, most), 0.0)[:, None]
    takers.until_s[rows] = until_s
