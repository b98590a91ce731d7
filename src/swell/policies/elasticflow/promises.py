"""Which deadlines can be promised, and the plans that keep those that were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import part, suited
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels
from swell.solvers.filling import FreeProfile, no_plans
from swell.solvers.profile import Plans, Takers

#: No job is expected to be resized more often than this; a long one earns it back by being resized.
MOST_RESIZES = 6
#: A gang shrinks only to a size at which its promise has so much more to spare, as a share of the time
#: left, and the minimum hold: what goes at the first slack must come back at the first delay.
EASE_SHARE = 0.1
#: No plan has a step sooner than this. A job that gets more than its plan says pushes the plan's next step
#: away, by less each time: without a least step a run could take infinitely many before a fixed instant.
SHORTEST_STEP_S = 0.1


class Reserve:
    """How much a plan that keeps a promise can stand, from most to nothing at all.

    Plain integers, for columns are compared with them.
    """

    FULL = 0  #: beliefs that are too fast by the margin, some resizes, and a start if it needs one
    RUNNING = 1  #: the same if the job, which its plan would suspend for now, is not suspended
    CHANGES = 2  #: some resizes and a start, if all else goes as believed
    NONE = 3  #: just fits if all goes as believed, and no change takes time
    LATE = 4  #: does not fit


#: What is tried for a promise, in this order: that its gang runs on and needs no time for a start; that it
#: may have to start; that it would hold if the gang ran on; that it holds if beliefs do; that it just fits.
#: Else it is late.
RESERVES = np.array(
    [Reserve.FULL, Reserve.FULL, Reserve.RUNNING, Reserve.CHANGES, Reserve.NONE, Reserve.LATE], dtype=np.int64
)
RUNS_ON = np.array([True, False, False, False, False])
#: With little to spare nothing is put off: each later step up would take time that is not there.
IN_NEED = np.array([False, False, False, True, True])


@dataclass(frozen=True, slots=True)
class Promises:
    """Plans for a set of promised jobs."""

    rows: IntArray  #: in order of deadline
    plans: Plans  #: (J,) columns; `grade` is the reserve, -1 for all other jobs
    profile: FreeProfile  #: what they leave
    num_before: int  #: so many of `rows` ...
    before: FreeProfile  #: ... leave this

    @property
    def reserve(self) -> IntArray:
        """(J,) a `Reserve`, -1 for jobs without a promise."""
        return self.plans.grade

    def is_any_bare(self, place: int) -> bool:
        """Whether one of `rows[place:]` just holds, with nothing to spare."""
        return bool((self.reserve[self.rows[place:]] == Reserve.NONE).any())

    @property
    def is_any_late(self) -> bool:
        """Whether a promise can no longer be kept."""
        return bool((self.reserve == Reserve.LATE).any())


def hold_s(snapshot: Snapshot) -> float:
    """How soon a plan may have its next step: a step sooner than this is taken now."""
    return max(snapshot.min_hold_s, SHORTEST_STEP_S)


def need_of(snapshot: Snapshot) -> FloatArray:
    """(J,) steps to plan for: what remains, and more by as much as rates have proved too high."""
    return snapshot.remaining_steps * (1.0 + snapshot.margin_share)


@part
def resize_reserve_s(until_s: FloatArray, resize_cost_s: FloatArray, least_s: float) -> FloatArray:
    """(J,) time that resizes are expected to take from jobs which have `until_s` to go.

    A gang that changed keeps its size for the minimum hold, `least_s`, so there are at most `until_s` / hold
    of them, and no more than MOST_RESIZES are expected, each a dear one: a mean over jobs and sizes would be
    too little for a large gang. This falls as the deadline comes near: a reserve that is not used turns into
    slack and never makes a promise look broken.
    """
    resizes = np.minimum(MOST_RESIZES, np.maximum(until_s, 0.0) / least_s)
    reserve_s: FloatArray = resizes * resize_cost_s
    return reserve_s


def tries_of(snapshot: Snapshot, levels: Levels, until_s: FloatArray) -> Takers:
    """What is tried for each job, if it were to end within `until_s` (J,); see RESERVES."""
    num_jobs = len(until_s)
    tries = Takers(
        devices=levels.devices,
        rates=levels.rates,
        num_levels=levels.num,
        work=np.empty((num_jobs, len(RUNS_ON))),
        ends_s=np.empty((num_jobs, len(RUNS_ON))),
        grades=RESERVES,
        is_at_once=RUNS_ON,
        is_early=IN_NEED,
        held=levels.held,
        stop_s=np.empty(num_jobs),
        shrink_s=np.empty(num_jobs),
        easy_s=np.empty(num_jobs),
        left=snapshot.remaining_steps,
    )
    write_tries(snapshot, tries, until_s, slice(None))
    return tries


def write_tries(snapshot: Snapshot, tries: Takers, until_s: FloatArray, rows: slice) -> None:
    """Write what is tried for these jobs, if each were to end within its `until_s` (J,)."""
    suited(_list_tries, len(until_s))(
        until_s[rows],
        snapshot.remaining_steps[rows],
        snapshot.margin_share,
        snapshot.most_resize_cost_s[rows],
        snapshot.start_cost_s[rows],
        snapshot.most_start_cost_s[rows],
        snapshot.held_workers[rows],
        hold_s(snapshot),
        tries.work[rows],
        tries.ends_s[rows],
        tries.stop_s[rows],
        tries.shrink_s[rows],
        tries.easy_s[rows],
    )


def _list_tries(
    until_s: FloatArray,
    remaining_steps: FloatArray,
    margin_share: float,
    resize_cost_s: FloatArray,
    start_cost_s: FloatArray,
    most_start_cost_s: FloatArray,
    held_workers: IntArray,
    least_s: float,
    work: FloatArray,
    ends_s: FloatArray,
    stop_s: FloatArray,
    shrink_s: FloatArray,
    easy_s: FloatArray,
) -> None:
    """Write the columns of `tries_of` that depend on the time left; `least_s` is the minimum hold."""
    for row in range(len(until_s)):
        is_running = held_workers[row] > 0
        running_s = until_s[row] - resize_reserve_s(until_s[row], resize_cost_s[row], least_s)
        work[row, :3] = remaining_steps[row] * (1.0 + margin_share)
        work[row, 3:] = remaining_steps[row]
        ends_s[row, 0] = ends_s[row, 2] = running_s if is_running else -np.inf
        ends_s[row, 1] = ends_s[row, 3] = running_s - most_start_cost_s[row]
        ends_s[row, 4] = until_s[row]
        stop_s[row] = start_cost_s[row] if is_running else 0.0
        shrink_s[row] = least_s + 2.0 * resize_cost_s[row]  # to go, to stay away, and to come back
        easy_s[row] = running_s * (1.0 - EASE_SHARE) - least_s


def stop_s(snapshot: Snapshot) -> FloatArray:
    """(J,) a gang that runs is not stopped for less time than its next start would take."""
    return np.where(snapshot.held_workers > 0, snapshot.start_cost_s, 0.0)


def keep_promises(snapshot: Snapshot, tries: Takers, rows: IntArray, num_before: int = 0) -> Promises:
    """Plan `rows`, earliest deadline first, each with the most reserve that fits.

    A job that does not fit any more (a belief changed, a node was lost) takes, as early as it can, as
    much as is useful. In its turn if that lowers nobody's reserve, for a hair's delay must not cost it
    all its devices; else behind those whose promises can still be kept. It is never dropped.

    Args:
        rows: in order of deadline.
        num_before: keep what the first so many leave, to begin there when another one comes.

    References: ElasticFlow, section 4.1, Algorithm 1, lines 3-7.
    """
    in_turn = _fill(snapshot, tries, rows, num_before, is_late_served=True)
    if not in_turn.is_any_late:
        return in_turn
    behind = _fill(snapshot, tries, rows, num_before, is_late_served=False)
    late = rows[behind.reserve[rows] == Reserve.LATE]
    no_tries = tries._replace(ends_s=np.full_like(tries.ends_s, -np.inf))
    behind.profile.fill(no_tries, behind.plans, late, hold_s(snapshot), is_late_served=True)
    is_hurt = (in_turn.reserve[rows] > behind.reserve[rows]).any()
    return behind if is_hurt else in_turn


def _fill(
    snapshot: Snapshot, tries: Takers, rows: IntArray, num_before: int, is_late_served: bool
) -> Promises:
    plans, profile = no_plans(snapshot.num_jobs), all_free(snapshot)
    profile.fill(tries, plans, rows[:num_before], hold_s(snapshot), is_late_served)
    before = profile.copy()
    profile.fill(tries, plans, rows[num_before:], hold_s(snapshot), is_late_served)
    return Promises(rows, plans, profile, num_before, before)


def all_free(snapshot: Snapshot) -> FreeProfile:
    """All devices that promises may stand on, with room for the plans of all jobs."""
    return FreeProfile(snapshot.num_owned, snapshot.num_jobs)


def safe_level(snapshot: Snapshot, levels: Levels, rows: IntArray) -> IntArray:
    """(n,) the lowest levels that keep promises with their reserve from now to the end; else the highest."""
    until_s = snapshot.deadline_s - snapshot.now_s
    reserve_s = resize_reserve_s(until_s, snapshot.most_resize_cost_s, hold_s(snapshot))
    running_s = np.maximum(until_s - reserve_s, 0.0)
    is_level = np.arange(levels.rates.shape[1]) < levels.num[rows, None]
    rates = np.where(is_level, levels.rates[rows], -1.0)
    is_enough = rates * running_s[rows, None] >= need_of(snapshot)[rows, None]
    lowest: IntArray = np.where(is_enough.any(axis=1), np.argmax(is_enough, axis=1) + 1, levels.num[rows])
    return lowest
