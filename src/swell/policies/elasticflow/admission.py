"""Who is promised a deadline, and what those are offered who are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from swell.arrays import IntArray
from swell.model.plan import Refusal
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.demand import RecentDemand
from swell.policies.elasticflow.objective import Objective, objection_to
from swell.policies.elasticflow.promises import PromisePlanner, Promises, all_free, need_of, takers_of
from swell.policies.elasticflow.standing import remembered
from swell.policies.levels import Levels
from swell.policies.obstacles import refusal
from swell.policies.order import by_arrival, by_deadline
from swell.policies.refusing import LazyRefusals


def admit(
    snapshot: Snapshot, levels: Levels, objective: Objective | None = None
) -> tuple[PromisePlanner, Promises, LazyRefusals, RecentDemand]:
    """Promise or refuse each undecided job, the first to arrive first; each promise counts for the next.

    Args:
        objective: which of those that fit are worth it; None: all are.

    References: ElasticFlow, section 4.1, Algorithm 1.
    """
    promised = by_deadline(snapshot, np.flatnonzero(snapshot.is_promised))
    planner = PromisePlanner(snapshot, takers_of(snapshot, levels), all_free(snapshot))
    kept = planner.keep(remembered(snapshot, levels), promised)
    refusals = LazyRefusals()
    newcomers = by_arrival(snapshot, np.flatnonzero(snapshot.is_undecided))
    demand = RecentDemand.of(snapshot, levels, newcomers)
    for row in newcomers.tolist():
        trial = planner.with_newcomer(kept, row, _place_of(snapshot, row, kept.rows))
        until_s = float(snapshot.deadline_s[row]) - snapshot.now_s
        objection = (
            ""
            if trial is None
            else objection_to(objective, snapshot, levels, kept, trial, row, until_s, demand)
        )
        if trial is not None and not objection:
            kept = trial  # line 9
        else:
            refusals.add(
                row, partial(_refuse, planner, levels, kept, row, objective, objection, demand)
            )  # line 7
    return planner, kept, refusals, demand


def _place_of(snapshot: Snapshot, newcomer: int, rows: IntArray) -> int:
    at_s, since_s = float(snapshot.deadline_s[newcomer]), float(snapshot.submitted_s[newcomer])
    return _place(snapshot, newcomer, rows, at_s, since_s)


def _place(snapshot: Snapshot, newcomer: int, rows: IntArray, deadline_s: float, submitted_s: float) -> int:
    """How many of `rows`, which are in order of deadline, come before it with such a deadline."""
    deadlines_s = snapshot.deadline_s[rows]
    first, last = deadlines_s.searchsorted(deadline_s), deadlines_s.searchsorted(deadline_s, side="right")
    ties = [(float(snapshot.submitted_s[row]), snapshot.job_ids[row]) for row in rows[first:last].tolist()]
    return int(first) + sum(tie < (submitted_s, snapshot.job_ids[newcomer]) for tie in ties)


# The counter-offer


def _refuse(
    planner: PromisePlanner,
    levels: Levels,
    kept: Promises,
    row: int,
    objective: Objective | None,
    objection: str,
    demand: RecentDemand,
) -> Refusal:
    offer_s = earliest_offer_s(planner, levels, kept, row, objective, demand)
    return refusal(planner.snapshot, levels, row, kept.rows, offer_s, objection)


def earliest_offer_s(
    planner: PromisePlanner,
    levels: Levels,
    kept: Promises,
    row: int,
    objective: Objective | None,
    demand: RecentDemand,
) -> int | None:
    """The fewest whole seconds from now for which a deadline would be promised at this instant.

    Found by bisection, and the answer is tried by the admission itself. (Progressive filling is not
    quite monotone in the deadline: a still earlier one that fits by luck may be missed.)

    Returns None if the job has no size that fits on the cluster.
    """
    if levels.num[row] == 0:
        return None
    bargain = _Bargain(planner, levels, kept, row, objective, demand)
    return _bisect(bargain.is_accepted, 0, _last_resort_s(planner, levels, kept, row))


def _bisect(accepts: Callable[[int], bool], refused: int, accepted: int) -> int:
    """One that is accepted while its neighbour below is not; looks beyond `accepted` if need be."""
    accepted = max(accepted, refused + 1)
    while not accepts(accepted):
        refused, accepted = accepted, 2 * accepted + 1
    while accepted - refused > 1:
        middle = (accepted + refused) // 2
        if accepts(middle):
            accepted = middle
        else:
            refused = middle
    return accepted


class _Bargain:
    """Tries deadlines for one newcomer: submitted again now, it stands behind older jobs of the same one."""

    def __init__(
        self,
        planner: PromisePlanner,
        levels: Levels,
        kept: Promises,
        row: int,
        objective: Objective | None,
        demand: RecentDemand,
    ) -> None:
        takers = planner.takers._replace(until_s=planner.takers.until_s.copy())
        self._planner = replace(planner, takers=takers)
        self._levels, self._kept, self._row = levels, kept, row
        self._objective, self._demand = objective, demand

    def is_accepted(self, offer_s: int) -> bool:
        """Whether the admission would take it."""
        planner, kept, row = self._planner, self._kept, self._row
        snapshot = planner.snapshot
        planner.takers.until_s[row] = offer_s
        now_s = snapshot.now_s
        place = _place(snapshot, row, kept.rows, now_s + offer_s, now_s)
        trial = planner.with_newcomer(kept, row, place)
        return trial is not None and not objection_to(
            self._objective, snapshot, self._levels, kept, trial, row, offer_s, self._demand
        )


def _last_resort_s(planner: PromisePlanner, levels: Levels, kept: Promises, row: int) -> int:
    """Enough for the job alone at its peak after every plan has ended."""
    top = levels.num[row] - 1
    alone_s = need_of(planner.snapshot)[row] / levels.rates[row, top] + levels.start_s[row, top]
    others_s = kept.plans.end_s[kept.rows].max(initial=0.0)
    return math.ceil(float(others_s + alone_s)) + 1
