"""Who is promised a deadline, and what those are offered who are not.

Where promises are to survive the loss of nodes, plans are on what is left without the widest of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.plan import Refusal
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.objective import Objective, RecentDemand, bid_of
from swell.policies.elasticflow.promises import PromisePlanner, Promises, all_free, takers_of
from swell.policies.elasticflow.standing import StandingPlans, remembered
from swell.policies.levels import Levels
from swell.policies.wording import RefusalTable, refusal
from swell.solvers.capacity.plans import BROKEN, Takers
from swell.solvers.queueing import NEVER_S

NO_RESERVE = "the promises that were made could not survive the loss of another node"
TOO_FEW_LEFT = "none of its allowed sizes would fit on what the loss of a node leaves"


def admit(
    snapshot: Snapshot, levels: Levels, objective: Objective | None = None, survive_nodes: int = 0
) -> tuple[PromisePlanner, Promises, RefusalTable, RecentDemand]:
    """Promise or refuse each undecided job, by priority and arrival; each promise counts for the next.

    Args:
        objective: which of those that fit are worth it; None: all are.
        survive_nodes: how many nodes may be lost at one time without breaking a promise.

    References: ElasticFlow, section 4.1, Algorithm 1.
    """
    planner, kept, reserve = keep_promises(snapshot, levels, remembered(snapshot, levels), survive_nodes)
    refusals = RefusalTable()
    newcomers = snapshot.in_order(snapshot.is_undecided.nonzero()[0])
    gate = _Gate(planner, levels, objective, RecentDemand.of(snapshot, levels, newcomers), reserve)
    for row in newcomers.tolist():
        until_s = float(snapshot.deadline_s[row]) - snapshot.now_s
        trial, objection = gate.weigh(kept, row, _place_of(snapshot, row, kept.rows), until_s)
        if trial is not None:
            kept = trial  # line 9
        else:
            refusals.add(row, partial(_refuse, gate, kept, row, objection))  # line 7
    return planner, kept, refusals, gate.demand


@dataclass(frozen=True, slots=True)
class _Gate:
    """Weighs a newcomer against the promises made before it."""

    planner: PromisePlanner
    levels: Levels
    objective: Objective | None
    demand: RecentDemand
    reserve: Reserve

    def weigh(
        self, kept: Promises, row: int, place: int, until_s: float, is_in_gaps: bool = False
    ) -> tuple[Promises | None, str]:
        """The promises with the newcomer's among them; or None, and the objection if that alone is why.

        Args:
            is_in_gaps: no other plan may change.
        """
        if not self.reserve.is_whole:
            return None, NO_RESERVE
        if self.reserve.num_devices and self.levels.devices[row, 0] > self.reserve.num_left:
            return None, TOO_FEW_LEFT
        try_it = self.planner.in_gaps if is_in_gaps else self.planner.with_newcomer
        trial = try_it(kept, row, place)
        if trial is None or self.objective is None:
            return trial, ""
        bid = bid_of(self.planner.snapshot, self.levels, kept, trial, row, until_s, self.demand)
        objection = self.objective.objection(bid)
        return None if objection else trial, objection

    def with_own_deadlines(self) -> _Gate:
        """One on which deadlines can be tried without changing those of this one."""
        return replace(self, planner=replace(self.planner, takers=with_own_deadlines(self.planner.takers)))


def _place_of(snapshot: Snapshot, newcomer: int, rows: IntArray) -> int:
    at_s, since_s = float(snapshot.deadline_s[newcomer]), float(snapshot.submitted_s[newcomer])
    return _place(snapshot, newcomer, rows, at_s, since_s)


def _place(snapshot: Snapshot, newcomer: int, rows: IntArray, deadline_s: float, submitted_s: float) -> int:
    """How many of `rows`, which are in order of deadline, come before it with such a deadline."""
    deadlines_s = snapshot.deadline_s[rows]
    first, last = deadlines_s.searchsorted(deadline_s), deadlines_s.searchsorted(deadline_s, side="right")
    ids, own = snapshot.job_ids, (-int(snapshot.priority[newcomer]), submitted_s, snapshot.job_ids[newcomer])
    ties = [
        (-int(snapshot.priority[row]), float(snapshot.submitted_s[row]), ids[row])
        for row in rows[first:last].tolist()
    ]
    return int(first) + sum(tie < own for tie in ties)


# The counter-offer


def _refuse(gate: _Gate, kept: Promises, row: int, objection: str) -> Refusal:
    offer_s = _earliest_offer_s(gate, kept, row)
    return refusal(gate.planner.snapshot, gate.levels, row, kept.rows, offer_s, objection)


def _earliest_offer_s(gate: _Gate, kept: Promises, row: int) -> int | None:
    """The fewest whole seconds from now for which a deadline would be promised at this instant.

    Found by bisection, first of those that fit in the gaps that others leave, which are soon told; and the
    answer is tried by the admission itself. (Progressive filling is not quite monotone in the deadline: a
    still earlier one that fits by luck may be missed.)

    Returns None if no deadline would be.
    """
    if gate.levels.num[row] == 0:
        return None
    trial_gate, snapshot = gate.with_own_deadlines(), gate.planner.snapshot
    now_s = snapshot.now_s

    def is_accepted(offer_s: int, is_in_gaps: bool = False) -> bool:
        """Submitted again now, it stands behind older jobs of the same deadline and priority."""
        gate.reserve.retime(trial_gate.planner.takers, row, offer_s)
        place = _place(snapshot, row, kept.rows, now_s + offer_s, now_s)
        return trial_gate.weigh(kept, row, place, offer_s, is_in_gaps)[0] is not None

    refused, accepted = 0, max(_last_resort_s(gate.planner, gate.levels, kept, row), 1)
    while not is_accepted(accepted):
        if accepted > NEVER_S:
            return None
        refused, accepted = accepted, 2 * accepted + 1
    if is_accepted(accepted, is_in_gaps=True):
        accepted = _bisect(partial(is_accepted, is_in_gaps=True), refused, accepted)
    offer_s = _bisect(is_accepted, *_bracket(is_accepted, refused, accepted))
    return None if offer_s > NEVER_S else offer_s


def _bracket(accepts: Callable[[int], bool], refused: int, accepted: int) -> tuple[int, int]:
    """A refused and an accepted one near `accepted`, if there are such: sought further and further below."""
    step = 1
    while accepted - step > refused and accepts(accepted - step):
        accepted, step = accepted - step, 2 * step
    return max(accepted - step, refused), accepted


def _bisect(accepts: Callable[[int], bool], refused: int, accepted: int) -> int:
    """One that is accepted while its neighbour below is not."""
    while accepted - refused > 1:
        middle = (accepted + refused) // 2
        if accepts(middle):
            accepted = middle
        else:
            refused = middle
    return accepted


def _last_resort_s(planner: PromisePlanner, levels: Levels, kept: Promises, row: int) -> int:
    """Enough for the job alone at its peak after every plan has ended."""
    top = levels.num[row] - 1
    alone_s = planner.snapshot.remaining_steps[row] / levels.safe_rates[row, top] + levels.start_s[row, top]
    others_s = kept.plans.end_s[kept.rows].max(initial=0.0)
    return math.ceil(float(others_s + alone_s)) + 1


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
) -> tuple[PromisePlanner, Promises, Reserve]:
    """Plans for promises that were made before, on all devices but those of the nodes that may be lost.

    Each plan there is for work that may have to be done again, and ends before the deadline by a start and by
    the time until the loss of a node is heard of: a gang may be lost with its node at any moment, and starts
    elsewhere. So whatever node is lost, the plans of the others stay as they are. A promise that has no such
    plan, for its own reserve is used up, has one without; where even then one is broken, for a node is lost,
    plans are on all devices that are there.

    Args:
        survive_nodes: how many nodes may be lost at one time.

    Returns:
        What newcomers are tried with, the promises, and the reserve.

    References: ElasticFlow, section 4.4, "Node failures", which leaves the reserve to future work.
    """
    rows = snapshot.by_deadline(snapshot.is_promised.nonzero()[0])
    takers, everything = takers_of(snapshot, levels), all_free(snapshot)
    num_reserved = sum(snapshot.owned_widths[:survive_nodes])
    reserve = Reserve(snapshot, levels, takers, num_reserved, is_whole=True)
    if not num_reserved:
        planner = PromisePlanner(snapshot, takers, everything)
        return planner, planner.keep(standing, rows), reserve
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
                return planner, promises, reserve._replace(is_whole=num_devices > 0)
            if not is_charged[broken].any():
                break
            is_charged[broken] = False
    return planner, promises, reserve._replace(is_whole=False)


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
