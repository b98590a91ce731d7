"""Promises that survive the loss of nodes: plans on what is left without the widest of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.promises import PromisePlanner, Promises, all_free, takers_of
from swell.policies.elasticflow.standing import StandingPlans
from swell.policies.levels import Levels
from swell.policies.order import by_deadline
from swell.solvers.profile.plans import BROKEN, Takers


class Kept(NamedTuple):
    """The plans of all promises, and what newcomers are tried with."""

    planner: PromisePlanner
    promises: Promises
    has_reserve: bool  #: the promises would survive the loss of nodes; else none is added


def keep_promises(
    snapshot: Snapshot, levels: Levels, standing: StandingPlans, survive_nodes: int = 0
) -> Kept:
    """Plans for promises that were made before, on all devices but those of the nodes that may be lost.

    Each plan there is for work that may have to be done again, and ends a start before the deadline: a gang
    may be lost with its node at any moment, and starts elsewhere. So whatever node is lost, the plans of the
    others stay as they are. A promise that has no such plan, for its own reserve is used up, has one without;
    where even then one is broken, for a node is lost, plans are on all devices that are there.

    Args:
        survive_nodes: how many nodes may be lost at one time.

    References: ElasticFlow, section 4.4, "Node failures", which leaves the reserve to future work.
    """
    rows = by_deadline(snapshot, np.flatnonzero(snapshot.is_promised))
    takers, everything = takers_of(snapshot, levels), all_free(snapshot)
    num_reserved = sum(snapshot.owned_widths[:survive_nodes])
    if not num_reserved:
        planner = PromisePlanner(snapshot, takers, everything)
        return Kept(planner, planner.keep(standing, rows), True)
    is_charged = np.ones(snapshot.num_jobs, dtype=bool)
    for num_devices in (num_reserved, 0):
        free = everything.raised(-num_devices)
        while True:
            planner = PromisePlanner(snapshot, _charged(snapshot, levels, takers, is_charged), free)
            promises = planner.keep(standing, rows)
            broken = rows[promises.grade[rows] == BROKEN]
            if not len(broken):
                return Kept(planner, promises, num_devices > 0)
            if not is_charged[broken].any():
                break
            is_charged[broken] = False
    return Kept(planner, promises, False)


def _charged(snapshot: Snapshot, levels: Levels, takers: Takers, is_charged: BoolArray) -> Takers:
    """Takers that can pay for a start from a checkpoint at any moment, but for those that are not charged.

    The work to be done again is that of the smallest level that would be in time with it.
    """
    start_s = levels.start_s.max(axis=1, initial=0.0)
    until_s = takers.until_s - start_s
    again = takers.rates * snapshot.checkpoint_interval_s
    is_level = np.arange(levels.highest)[None, :] < levels.num[:, None]
    is_in_time = is_level & (takers.rates * until_s[:, None] >= takers.work[:, :1] + again)
    top = np.maximum(levels.num - 1, 0)
    level = np.where(is_in_time.any(axis=1), is_in_time.argmax(axis=1), top)
    steps = again[np.arange(snapshot.num_jobs), level]
    most: FloatArray = snapshot.done_steps + snapshot.remaining_steps
    lost = np.where(is_charged & (levels.num > 0), np.minimum(steps, most), 0.0)
    return takers._replace(
        work=takers.work + lost[:, None], until_s=np.where(is_charged, until_s, takers.until_s)
    )
