"""Promises planned job by job in plain Python: what columns and kernels must agree with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
from tests.solvers.plain_profile import Fill, FreeProfile

from swell.arrays import FloatArray, IntArray
from swell.model.plan import Refusal
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels
from swell.policies.obstacles import refusal
from swell.policies.order import by_arrival, by_deadline

#: No job is expected to be resized more often than this; a long one earns it back by being resized.
MOST_RESIZES = 6
#: A gang shrinks only to a size at which its promise has so much more to spare, as a share of the time
#: left, and the minimum hold: what goes at the first slack must come back at the first delay.
EASE_SHARE = 0.1
#: No plan has a step sooner than this. A job that gets more than its plan says pushes the plan's next step
#: away, by less each time: without a least step a run could take infinitely many before a fixed instant.
SHORTEST_STEP_S = 0.1


class Reserve(IntEnum):
    """How much a plan that keeps a promise can stand, from most to nothing at all."""

    FULL = 0  #: beliefs that are too fast by the margin, some resizes, and a start if it needs one
    RUNNING = 1  #: the same if the job, which its plan would suspend for now, is not suspended
    CHANGES = 2  #: some resizes and a start, if all else goes as believed
    NONE = 3  #: just fits if all goes as believed, and no change takes time
    LATE = 4  #: does not fit


@dataclass(frozen=True, slots=True)
class Promises:
    """Plans for a set of promised jobs."""

    profile: FreeProfile  #: what they leave
    reserve: dict[int, Reserve] = field(default_factory=dict)  #: row -> what its plan can stand
    #: row -> its plan; None: no size fits on the devices there are
    fills: dict[int, Fill | None] = field(default_factory=dict)
    #: row of a gang that runs on -> it shrinks to this level at once, but no further for now
    ease: dict[int, int] = field(default_factory=dict)


def hold_s(snapshot: Snapshot) -> float:
    """How soon a plan may have its next step: a step sooner than this is taken now."""
    return max(snapshot.min_hold_s, SHORTEST_STEP_S)


def need_of(snapshot: Snapshot, row: int) -> float:
    """Steps to plan for: what remains, and more by as much as rates have proved too high."""
    return float(snapshot.remaining_steps[row] * (1.0 + snapshot.margin_share))


def resize_reserve_s(snapshot: Snapshot, row: int, until_s: float) -> float:
    """Time that resizes are expected to take from a job which has `until_s` to go.

    A gang that changed keeps its size for the minimum hold, so there are at most `until_s` / hold of
    them, and no more than MOST_RESIZES are expected. This falls as the deadline comes near: a reserve
    that is not used turns into slack and never makes a promise look broken.
    """
    resizes = min(MOST_RESIZES, max(until_s, 0.0) / hold_s(snapshot))
    return float(resizes * snapshot.most_resize_cost_s[row])


def stop_s(snapshot: Snapshot, row: int) -> float:
    return float(snapshot.start_cost_s[row]) if snapshot.held_workers[row] > 0 else 0.0


def keep_promises(snapshot: Snapshot, levels: Levels, rows: Sequence[int] | IntArray) -> Promises:
    """Plan `rows`, earliest deadline first, each with the most reserve that fits.

    A job that does not fit any more (a belief changed, a node was lost) takes, as early as it can, as
    much as is useful. In its turn if that lowers nobody's reserve, for a hair's delay must not cost it
    all its devices; else behind those whose promises can still be kept. It is never dropped.

    Args:
        rows: in order of deadline.

    References: ElasticFlow, section 4.1, Algorithm 1, lines 3-7.
    """
    in_turn = Promises(FreeProfile(snapshot.num_owned, len(rows)))
    for row in rows:
        _keep(snapshot, levels, row, in_turn)
        if in_turn.reserve[row] is Reserve.LATE:
            _serve(snapshot, levels, row, in_turn)
    if Reserve.LATE not in in_turn.reserve.values():
        return in_turn
    behind = Promises(FreeProfile(snapshot.num_owned, len(rows)))
    for row in rows:
        _keep(snapshot, levels, row, behind)
    for row in rows:
        if behind.reserve[row] is Reserve.LATE:
            _serve(snapshot, levels, row, behind)
    is_hurt = any(in_turn.reserve[row] > behind.reserve[row] for row in rows)
    return behind if is_hurt else in_turn


def _keep(snapshot: Snapshot, levels: Levels, row: int, promises: Promises) -> None:
    """Take what the promise needs, with the most reserve that fits."""
    until_s = float(snapshot.deadline_s[row] - snapshot.now_s)
    running_s = until_s - resize_reserve_s(snapshot, row, until_s)
    need, left = need_of(snapshot, row), float(snapshot.remaining_steps[row])
    is_running = bool(snapshot.held_workers[row] > 0)
    if is_running and _run_on(snapshot, levels, row, running_s, promises):
        return
    tries = {Reserve.FULL: (need, running_s - float(snapshot.most_start_cost_s[row]))}
    if is_running:
        tries[Reserve.RUNNING] = (need, running_s)
    tries[Reserve.CHANGES] = (left, running_s - float(snapshot.most_start_cost_s[row]))
    tries[Reserve.NONE] = (left, until_s)
    for reserve, (work, end_s) in tries.items():
        is_early = reserve >= Reserve.CHANGES
        fill = _fill(snapshot, levels, row, promises.profile, work, end_s, is_early)
        if fill is not None:
            promises.reserve[row], promises.fills[row] = reserve, fill
            return
    promises.reserve[row] = Reserve.LATE


def _fill(
    snapshot: Snapshot,
    levels: Levels,
    row: int,
    profile: FreeProfile,
    work: float,
    end_s: float,
    is_early: bool,
) -> Fill | None:
    """As late as can be; one in need takes it early and does not shrink, nor does one near its end."""
    held, curve = int(levels.held[row]), _curve(levels, row)
    shrink_s = hold_s(snapshot) + 2.0 * float(snapshot.most_resize_cost_s[row])
    limits_s = (math.inf if is_early else hold_s(snapshot), stop_s(snapshot, row), shrink_s)
    trial = profile.copy()
    fill = trial.fill(work, end_s, *curve, *limits_s, held)
    if fill is not None and (is_early or end_s < shrink_s) and held > fill.top:
        return profile.serve(work, curve[0][:held], curve[1][:held])
    if fill is not None:
        profile.take_over(trial)
    return fill


def _run_on(snapshot: Snapshot, levels: Levels, row: int, end_s: float, promises: Promises) -> bool:
    """Take a plan that lets the gang run on, which needs no time for a start; False if there is none."""
    need = need_of(snapshot, row)
    trial, eased = promises.profile.copy(), promises.profile.copy()
    plan = _fill(snapshot, levels, row, trial, need, end_s, is_early=False)
    if plan is None or plan.now == 0:
        return False
    spare_s = hold_s(snapshot) + EASE_SHARE * end_s
    easy = eased.fill(need, end_s - spare_s, *_curve(levels, row), hold_s(snapshot))
    promises.profile.take_over(trial)
    promises.reserve[row], promises.fills[row] = Reserve.FULL, plan
    promises.ease[row] = easy.top if easy is not None else int(levels.num[row])
    return True


def _serve(snapshot: Snapshot, levels: Levels, row: int, promises: Promises) -> None:
    """Take, from now on, as much as is useful of what there is."""
    left = float(snapshot.remaining_steps[row])
    promises.fills[row] = promises.profile.serve(left, *_curve(levels, row))


def _curve(levels: Levels, row: int) -> tuple[IntArray, FloatArray]:
    """(devices, steps/s) at each of the job's levels."""
    return levels.devices[row, : levels.num[row]], levels.rates[row, : levels.num[row]]


def safe_level(snapshot: Snapshot, levels: Levels, row: int) -> int:
    """The lowest level that keeps the promise with its reserve from now to the end; else the highest."""
    until_s = float(snapshot.deadline_s[row] - snapshot.now_s)
    running_s = until_s - resize_reserve_s(snapshot, row, until_s)
    _, rates = _curve(levels, row)
    is_enough = rates * max(running_s, 0.0) >= need_of(snapshot, row)
    return int(np.argmax(is_enough)) + 1 if is_enough.any() else len(rates)


def admit(snapshot: Snapshot, levels: Levels) -> tuple[Promises, dict[int, Refusal]]:
    """Promise or refuse each undecided job, the first to arrive first; each promise counts for the next.

    References: ElasticFlow, section 4.1, Algorithm 1.
    """
    promised = [int(row) for row in np.flatnonzero(snapshot.is_promised)]
    kept = keep_promises(snapshot, levels, by_deadline(snapshot, promised))
    refusals: dict[int, Refusal] = {}
    undecided = np.flatnonzero(snapshot.is_undecided).tolist()
    for row in by_arrival(snapshot, undecided):
        order = by_deadline(snapshot, [*promised, row])  # lines 2-3
        trial = keep_promises(snapshot, levels, order)
        if _harms_nobody(trial, kept, row):
            promised, kept = order.tolist(), trial  # line 9
        else:
            refusals[row] = _refuse(snapshot, levels, promised, kept, row)  # line 7
    return kept, refusals


def _harms_nobody(trial: Promises, kept: Promises, newcomer: int) -> bool:
    """Lines 4-7: the newcomer fits with full reserve, and every promise stands as firmly as before.

    One that is broken already cannot forbid new ones for ever, but none may make it later still.
    """
    if trial.reserve[newcomer] is not Reserve.FULL:
        return False
    order = list(trial.reserve)
    behind = order[order.index(newcomer) + 1 :]
    if any(kept.reserve[row] is Reserve.NONE for row in behind):
        return False
    for row, fill in kept.fills.items():
        if trial.reserve[row] > kept.reserve[row]:
            return False
        later = trial.fills[row]
        if kept.reserve[row] is Reserve.LATE and fill and later and later.end_s > fill.end_s + 1e-6:
            return False
    return True


def _refuse(snapshot: Snapshot, levels: Levels, promised: list[int], kept: Promises, row: int) -> Refusal:
    offer_s = earliest_offer_s(snapshot, levels, promised, kept, row)
    return refusal(snapshot, levels, row, np.array(promised, dtype=np.int64), offer_s)


def earliest_offer_s(
    snapshot: Snapshot, levels: Levels, promised: list[int], kept: Promises, row: int
) -> int | None:
    """The fewest whole seconds from now for which a deadline would be promised at this instant.

    Found by bisection, and each candidate, so the answer too, is tried by the admission itself. (Progressive
    filling is not quite monotone in the deadline: a still earlier one that fits by luck may be missed.)

    Returns None if the job has no size that fits on the cluster.
    """
    if levels.num[row] == 0:
        return None

    def is_accepted(offer_s: int) -> bool:
        # Resubmitted now, it stands behind older jobs of the same deadline.
        deadline_s, submitted_s = snapshot.deadline_s.copy(), snapshot.submitted_s.copy()
        deadline_s[row], submitted_s[row] = snapshot.now_s + offer_s, snapshot.now_s
        resubmitted = replace(snapshot, deadline_s=deadline_s, submitted_s=submitted_s)
        order = by_deadline(resubmitted, [*promised, row])
        return _harms_nobody(keep_promises(resubmitted, levels, order), kept, row)

    refused_s, accepted_s = 0, _last_resort_s(snapshot, levels, kept, row)
    while not is_accepted(accepted_s):
        refused_s, accepted_s = accepted_s, 2 * accepted_s + 1
    while accepted_s - refused_s > 1:
        middle_s = (accepted_s + refused_s) // 2
        if is_accepted(middle_s):
            accepted_s = middle_s
        else:
            refused_s = middle_s
    return accepted_s


def _last_resort_s(snapshot: Snapshot, levels: Levels, kept: Promises, row: int) -> int:
    """Enough for the job alone at its peak after every plan has ended."""
    ends_s = [fill.end_s for fill in kept.fills.values() if fill is not None]
    alone_s = need_of(snapshot, row) / levels.rates[row, levels.num[row] - 1]
    pauses_s = snapshot.most_start_cost_s[row] + MOST_RESIZES * snapshot.most_resize_cost_s[row]
    return math.ceil(float(max(ends_s, default=0.0) + alone_s + pauses_s + hold_s(snapshot))) + 1
