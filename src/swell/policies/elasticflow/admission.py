"""Who is promised a deadline, and what those are offered who are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from swell.arrays import IntArray
from swell.model.plan import Refusal
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.demand import RecentDemand
from swell.policies.elasticflow.objective import Objective, bid_of
from swell.policies.elasticflow.promises import PromisePlanner, Promises
from swell.policies.elasticflow.reserve import Reserve, keep_promises, with_own_deadlines
from swell.policies.elasticflow.standing import remembered
from swell.policies.levels import Levels
from swell.policies.refusing import LazyRefusals, refusal
from swell.solvers.queueing import NEVER_S

NO_RESERVE = "the promises that were made could not survive the loss of another node"
TOO_FEW_LEFT = "none of its allowed sizes would fit on what the loss of a node leaves"


def admit(
    snapshot: Snapshot, levels: Levels, objective: Objective | None = None, survive_nodes: int = 0
) -> tuple[PromisePlanner, Promises, LazyRefusals, RecentDemand]:
    """Promise or refuse each undecided job, by priority and arrival; each promise counts for the next.

    Args:
        objective: which of those that fit are worth it; None: all are.
        survive_nodes: how many nodes may be lost at one time without breaking a promise.

    References: ElasticFlow, section 4.1, Algorithm 1.
    """
    planner, kept, reserve = keep_promises(snapshot, levels, remembered(snapshot, levels), survive_nodes)
    refusals = LazyRefusals()
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
