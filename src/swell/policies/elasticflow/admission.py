"""Who is promised a deadline, and what those are offered who are not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial

import numpy as np

from swell.arrays import IntArray
from swell.model.plan import Refusal
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.objective import Objective, objection_to
from swell.policies.elasticflow.promises import (
    MOST_RESIZES,
    Promises,
    Reserve,
    all_free,
    hold_s,
    keep_promises,
    need_of,
    tries_of,
    write_tries,
)
from swell.policies.levels import Levels
from swell.policies.obstacles import refusal
from swell.policies.order import by_arrival, by_deadline
from swell.solvers.filling import no_plans
from swell.solvers.profile import Plans, Takers

#: An end that is later by less is not later: sums are not exact.
NO_LATER_S = 1e-6


def admit(
    snapshot: Snapshot, levels: Levels, objective: Objective | None = None
) -> tuple[Promises, Refusals]:
    """Promise or refuse each undecided job, the first to arrive first; each promise counts for the next.

    Args:
        objective: which of those that fit are worth it; None: all are.

    References: ElasticFlow, section 4.1, Algorithm 1.
    """
    tries = tries_of(snapshot, levels, snapshot.deadline_s - snapshot.now_s)
    promised = by_deadline(snapshot, np.flatnonzero(snapshot.is_promised))
    newcomers = by_arrival(snapshot, np.flatnonzero(snapshot.is_undecided)).tolist()
    num_before = _place_of(snapshot, newcomers[0], promised) if newcomers else 0
    kept = keep_promises(snapshot, tries, promised, num_before)
    refusals = Refusals()
    for row in newcomers:
        trial = with_newcomer(snapshot, tries, kept, row, _place_of(snapshot, row, kept.rows))
        until_s = float(snapshot.deadline_s[row]) - snapshot.now_s
        objection = (
            "" if trial is None else objection_to(objective, snapshot, levels, kept, trial, row, until_s)
        )
        if trial is not None and not objection:
            kept = trial  # line 9
        else:
            refusals.add(row, partial(_refuse, snapshot, levels, kept, row, objective, objection))  # line 7
    return kept, refusals


def with_newcomer(
    snapshot: Snapshot, tries: Takers, kept: Promises, newcomer: int, place: int
) -> Promises | None:
    """The promises with the newcomer's among them; None if it does not fit with full reserve, or harms one.

    Every promise must stand as firmly as before, and nobody new comes before one that just holds: it is
    in need of whatever slack it has left. One that is broken already cannot forbid new ones for
    ever, but none may make it later still. Only jobs of later deadlines are planned anew.

    Args:
        place: how many of the promises have an earlier deadline.

    References: ElasticFlow, section 4.1, Algorithm 1, lines 2-7.
    """
    if kept.is_any_bare(place):
        return None
    rows = np.concatenate([kept.rows[:place], [newcomer], kept.rows[place:]])
    if kept.is_any_late:  # whether a late one is served in its turn depends on all of them
        trial = keep_promises(snapshot, tries, rows, kept.num_before)
        return trial if _harms_nobody(trial, kept, newcomer) else None
    num_before, before = (
        (kept.num_before, kept.before) if kept.num_before <= place else (0, all_free(snapshot))
    )
    profile, plans = before.copy(), Plans._make(column.copy() for column in kept.plans)
    worst = kept.reserve.copy()
    worst[newcomer] = Reserve.FULL
    num_served = profile.fill(tries, plans, rows[num_before:], hold_s(snapshot), worst=worst)
    is_accepted = num_before + num_served == len(rows)
    return Promises(rows, plans, profile, num_before, before) if is_accepted else None


def _harms_nobody(trial: Promises, kept: Promises, newcomer: int) -> bool:
    rows = kept.rows
    is_late = (kept.reserve[rows] == Reserve.LATE) & (kept.plans.top[rows] > 0)
    is_later = is_late & (trial.plans.end_s[rows] > kept.plans.end_s[rows] + NO_LATER_S)
    is_weaker = trial.reserve[rows] > kept.reserve[rows]
    return bool(trial.reserve[newcomer] == Reserve.FULL and not (is_later | is_weaker).any())


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


class Refusals(Mapping[int, Refusal]):
    """By row. A counter-offer takes longer than the admission, and is worked out for whoever asks."""

    def __init__(self) -> None:
        self._answers: dict[int, Callable[[], Refusal]] = {}

    def add(self, row: int, answer: Callable[[], Refusal]) -> None:
        """Refuse the job of this row; `answer` is called once, when the refusal is first read."""
        self._answers[row] = cache(answer)

    def __getitem__(self, row: int) -> Refusal:
        return self._answers[row]()

    def __contains__(self, row: object) -> bool:
        return row in self._answers

    def __iter__(self) -> Iterator[int]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)


def _refuse(
    snapshot: Snapshot, levels: Levels, kept: Promises, row: int, objective: Objective | None, objection: str
) -> Refusal:
    offer_s = earliest_offer_s(snapshot, levels, kept, row, objective)
    return refusal(snapshot, levels, row, kept.rows, offer_s, objection)


def earliest_offer_s(
    snapshot: Snapshot, levels: Levels, kept: Promises, row: int, objective: Objective | None = None
) -> int | None:
    """The fewest whole seconds from now for which a deadline would be promised at this instant.

    Found by bisection, and the answer is tried by the admission itself. (Progressive filling is not
    quite monotone in the deadline: a still earlier one that fits by luck may be missed.) First for the
    job alone, beside the promises of earlier deadlines, which needs no other to be planned anew; only if
    it would harm one of a later deadline, with all of them.

    Returns None if the job has no size that fits on the cluster.
    """
    if levels.num[row] == 0:
        return None
    bargain = _Bargain(snapshot, levels, kept, row, objective)
    enough_s = _last_resort_s(snapshot, levels, kept, row)
    first_s = _bisect(bargain.has_room, 0, enough_s)
    return first_s if bargain.is_accepted(first_s) else _bisect(bargain.is_accepted, first_s, enough_s)


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
        self, snapshot: Snapshot, levels: Levels, kept: Promises, row: int, objective: Objective | None
    ) -> None:
        self._snapshot, self._levels, self._kept, self._row = snapshot, levels, kept, row
        self._objective = objective
        self._until_s = snapshot.deadline_s - snapshot.now_s
        self._tries = tries_of(snapshot, levels, self._until_s)
        self._num_before, self._before = 0, all_free(snapshot)  # of deadlines that have been refused

    def has_room(self, offer_s: int) -> bool:
        """Whether it fits beside the promises of earlier deadlines, if late ones took nothing."""
        snapshot, plans = self._snapshot, no_plans(self._snapshot.num_jobs)
        tries, place, profile = self._tries_at(offer_s), self._place(offer_s), self._before.copy()
        profile.fill(tries, plans, self._kept.rows[self._num_before : place], hold_s(snapshot))
        full = np.full(snapshot.num_jobs, Reserve.FULL, dtype=np.int64)
        newcomer = np.array([self._row])
        if profile.fill(tries, plans, newcomer, hold_s(snapshot), worst=full):
            return True
        self._num_before, self._before = place, profile
        return False

    def is_accepted(self, offer_s: int) -> bool:
        """Whether the admission would take it."""
        kept = self._kept
        if not kept.is_any_late:
            kept = replace(kept, num_before=self._num_before, before=self._before)
        place = self._place(offer_s)
        trial = with_newcomer(self._snapshot, self._tries_at(offer_s), kept, self._row, place)
        return trial is not None and not objection_to(
            self._objective, self._snapshot, self._levels, kept, trial, self._row, offer_s
        )

    def _tries_at(self, offer_s: int) -> Takers:
        self._until_s[self._row] = offer_s
        row = slice(self._row, self._row + 1)
        write_tries(self._snapshot, self._tries, self._until_s, row)
        return self._tries

    def _place(self, offer_s: int) -> int:
        now_s = self._snapshot.now_s
        return _place(self._snapshot, self._row, self._kept.rows, now_s + offer_s, now_s)


def _last_resort_s(snapshot: Snapshot, levels: Levels, kept: Promises, row: int) -> int:
    """Enough for the job alone at its peak after every plan has ended."""
    alone_s = need_of(snapshot)[row] / levels.rates[row, levels.num[row] - 1]
    pauses_s = snapshot.most_start_cost_s[row] + MOST_RESIZES * snapshot.most_resize_cost_s[row]
    others_s = kept.plans.end_s[kept.rows].max(initial=0.0)
    return math.ceil(float(others_s + alone_s + pauses_s + hold_s(snapshot))) + 1
