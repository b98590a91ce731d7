"""Plans that keep promises: made in several ways, and kept from one decision to the next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.model.options import NO_FASTER_SHARE
from swell.model.snapshot import Snapshot
from swell.policies.elasticflow.standing import StandingPlans
from swell.policies.levels import Levels
from swell.solvers.capacity.plans import (
    AS_BELIEVED,
    AS_PLANNED,
    BROKEN,
    EARLY,
    JUST,
    LATE,
    MARGIN,
    NO_GROUP,
    Plans,
    Takers,
)
from swell.solvers.filling import EMPTY, FreeProfile, copy_of
from swell.solvers.marginal import ENDLESS
from swell.solvers.queueing import NEVER_S

#: In place of a held level: a number of workers that is none.
NO_LEVEL = -1
#: For so long from its end on a node is not there. Offers end before: see `NEVER_S`.
AS_GOOD_AS_EVER_S = 4 * NEVER_S
#: An end that is later by less is not later: sums are not exact.
NO_LATER_S = 1e-6


class EarliestPlans(NamedTuple):
    """Plans of the first so many promises, made without those that come after them."""

    num: int  #: of the promises
    plans: Plans
    profile: FreeProfile  #: what they leave
    is_whole: bool  #: none of them is weaker than it was; else the one behind them would be


@dataclass(frozen=True, slots=True)
class Promises:
    """Plans for a set of promised jobs: together they prove that every promise can be kept."""

    rows: IntArray  #: in order of deadline
    plans: Plans  #: (J,) columns; a grade is -1 for all other jobs
    profile: FreeProfile  #: what they leave
    exempt: BoolArray  #: (J,) promises that would be broken within their tenant's quota
    #: by the way of planning: plans made again of so many of the earliest, and what these leave
    earliest: dict[int, list[EarliestPlans]] = field(default_factory=dict)

    @property
    def grade(self) -> IntArray:
        """(J,) MARGIN: kept with the margin; JUST: kept if all goes as believed; BROKEN; -1: no promise."""
        return self.plans.grade


def takers_of(snapshot: Snapshot, levels: Levels) -> Takers:
    """What each job needs until its deadline, and what its changes cost."""
    is_bound = _is_bound(snapshot) & (levels.held > 0)
    is_no_level = (snapshot.held_workers != levels.workers_at(levels.held)) & ~is_bound
    return Takers(
        devices=levels.devices,
        rates=_ascending(levels),
        believed_rates=levels.rates,
        # A gang that is to stop may be kept as it is: then its next start is a resize.
        start_s=np.where(
            levels.held[:, None] > 0, np.maximum(levels.start_s, levels.resize_s), levels.start_s
        ),
        resize_s=levels.resize_s,
        num_levels=levels.num.copy(),
        held=np.where(is_no_level, NO_LEVEL, levels.held),
        idle_s=snapshot.idle_s.copy(),
        is_bound=is_bound,
        work=_work(snapshot),
        until_s=snapshot.deadline_s - snapshot.now_s,
    )


def _ascending(levels: Levels) -> FloatArray:
    """(J, L) rates to count on: those of a smaller level, at least, for no job has to take a larger one."""
    if levels.safe_rates is levels.rates:
        return levels.rates
    slightly_faster = 1.0 + NO_FASTER_SHARE * np.arange(levels.highest)
    rates: FloatArray = np.maximum.accumulate(levels.safe_rates, axis=1) * slightly_faster
    return rates


def _work(snapshot: Snapshot) -> FloatArray:
    """(J, 2) steps: what remains, and one, for none is cut in two; and what remains."""
    steps = snapshot.remaining_steps
    return np.stack([steps + 1.0, steps], axis=1)


def all_free(snapshot: Snapshot) -> FreeProfile:
    """Devices that plans may stand on: all while they are there, but for those that no gang can leave yet.

    A group is a tenant with a quota. The quota counts borrowed devices, too, on which no plan stands: what a
    gang has of those is not taken from plans.
    """
    profile = owned_profile(snapshot, *_groups(snapshot))
    rows = _is_bound(snapshot).nonzero()[0]
    if len(rows):
        num_devices = snapshot.held_workers[rows] * snapshot.devices_per_worker[rows]
        num_owned = np.maximum(num_devices - snapshot.held_borrowed[rows], 0)
        profile.take_now(num_owned, snapshot.idle_s[rows])
        profile.take_of_groups(num_devices, snapshot.idle_s[rows], rows)
    return profile


def with_borrowed(free: FreeProfile, snapshot: Snapshot) -> FreeProfile:
    """A copy with the borrowed devices that a gang can have now, for plans that are no promises."""
    whole = free.raised(snapshot.num_borrowed)
    rows = (_is_bound(snapshot) & (snapshot.held_borrowed > 0)).nonzero()[0]
    whole.take_now(snapshot.held_borrowed[rows], snapshot.idle_s[rows])
    return whole


def _is_bound(snapshot: Snapshot) -> BoolArray:
    """(J,) gangs that cannot leave their devices yet."""
    is_bound: BoolArray = snapshot.is_pinned & (snapshot.idle_s > 0.0) & (snapshot.held_workers > 0)
    return is_bound


def owned_profile(
    snapshot: Snapshot, group: IntArray = EMPTY, of_group: Iterable[FreeProfile] = ()
) -> FreeProfile:
    """Devices that promises may stand on, each while the calendar says that it is there.

    Groups are those of a `FreeProfile`.
    """
    profile = FreeProfile(snapshot.num_owned, group, of_group)
    if snapshot.calendar.of_owned:
        _change(profile, *_calendar_of(snapshot))
    return profile


def give_back_ended(free: FreeProfile, snapshot: Snapshot) -> None:
    """Have devices stay that go for good, as those of nodes that end, for plans that are no promises."""
    if snapshot.calendar.of_owned:
        at_s, changes = _calendar_of(snapshot)
        num_gone = np.maximum(-np.maximum.accumulate(changes.cumsum()[::-1])[::-1], 0)
        _change(free, at_s, np.diff(num_gone, prepend=0))


def _calendar_of(snapshot: Snapshot) -> tuple[FloatArray, IntArray]:
    """(C,) in how many seconds from now how many owned devices come back, or go if that is below 0."""
    at_s, changes = np.array(snapshot.calendar.of_owned).T
    return np.maximum(at_s - snapshot.now_s, 0.0), changes.astype(np.int64)


def _change(profile: FreeProfile, at_s: FloatArray, changes: IntArray) -> None:
    """Devices come or go, but not for ever: so a plan that is too late has an end, too."""
    profile.take_now(-changes.sum(keepdims=True), np.array([AS_GOOD_AS_EVER_S]))
    profile.take_now(changes, at_s)


def _groups(snapshot: Snapshot) -> tuple[IntArray, list[FreeProfile]]:
    """(J,) the group of each job whose tenant has a quota; and what each of these may have.

    A tenant without a deadline needs none: what its jobs get is counted where they get it (`shares`).
    """
    quota = snapshot.quota_devices
    if quota is None:
        return EMPTY, []
    is_limited = quota[snapshot.tenant] < snapshot.num_devices
    is_planned = is_limited & np.isfinite(snapshot.deadline_s)
    tenants = np.unique(snapshot.tenant[is_planned])
    is_in_group = is_limited & np.isin(snapshot.tenant, tenants)
    group = np.where(is_in_group, tenants.searchsorted(snapshot.tenant), NO_GROUP)
    return group, [FreeProfile(num_devices) for num_devices in quota[tenants].tolist()]


@dataclass(frozen=True, slots=True)
class PromisePlanner:
    """Makes plans for sets of jobs, each time from all devices."""

    snapshot: Snapshot
    takers: Takers
    free: FreeProfile  #: all devices

    def keep(self, standing: StandingPlans, rows: IntArray) -> Promises:
        """Plans for promises that were made before: the standing ones, as far as these still hold.

        The first way in which no promise is weaker than it was; else that with the fewest broken ones.
        One that is broken takes what is useful in its turn, if that weakens no other, else behind the others.
        It is never dropped. One that its tenant's quota would break is exempt from that: it was made under
        another one, or with other devices. One that is late anyway, and has no size within the quota, goes on
        at its smallest size.
        """
        nobody = np.zeros(self.snapshot.num_jobs, dtype=bool)
        if not len(rows):
            return Promises(rows, standing.plans, self.free.copy(), nobody)
        if not self.free.in_groups(rows).any():
            return self._firmest(standing, rows, nobody)
        kept = self._keep(standing, rows)
        is_idle = (kept.grade[rows] == BROKEN) & (kept.plans.top[rows] == 0)
        late = rows[self.free.in_groups(rows) & is_idle & (self.takers.num_levels[rows] > 0)]
        if not len(late):
            return kept
        self.takers.num_levels[late] = 1
        plans, profile, exempt = copy_of(kept.plans), kept.profile.copy(), kept.exempt.copy()
        exempt[late] = True
        profile.fill(self.takers, plans, late, AS_PLANNED, True, exempt=exempt)  # of what others leave
        return Promises(kept.rows, plans, profile, exempt)

    def _keep(self, standing: StandingPlans, rows: IntArray) -> Promises:
        exempt, tried = np.zeros(self.snapshot.num_jobs, dtype=bool), list[Promises]()
        while True:
            firmest = self._firmest(standing, rows, exempt)
            tried.append(firmest)
            fails = _weaker(firmest, standing.plans, rows) | (firmest.grade[rows] == BROKEN)
            is_open = self.free.in_groups(rows) & ~exempt[rows]
            others = rows[is_open & fails]
            if not len(others):  # then the others of the same tenants are in their way
                tenant = self.snapshot.tenant[rows]
                others = rows[is_open & np.isin(tenant, tenant[fails])]
            if not len(others):
                break
            exempt = exempt.copy()
            exempt[others] = True
        best = min(tried, key=lambda one: (_weaker(one, standing.plans, rows).any(), _weakness(one)))
        return self._with_few_exempt(best, standing, rows)

    def _with_few_exempt(self, best: Promises, standing: StandingPlans, rows: IntArray) -> Promises:
        """Without exemptions of promises that are broken all the same: more than the quota is of no use."""
        in_vain = rows[best.exempt[rows] & (best.grade[rows] == BROKEN)]
        if not len(in_vain):
            return best
        exempt = best.exempt.copy()
        exempt[in_vain] = False
        fewer = self._firmest(standing, rows, exempt)
        return fewer if _weakness(fewer) <= _weakness(best) else best

    def _firmest(self, standing: StandingPlans, rows: IntArray, exempt: BoolArray) -> Promises:
        tried: list[Promises] = []
        for trial in self._ways(standing, rows, exempt):
            tried.append(trial)
            if not _weaker(trial, standing.plans, rows).any():
                return trial
        return min(tried, key=_weakness)

    def _ways(self, plans: StandingPlans, rows: IntArray, exempt: BoolArray) -> Iterable[Promises]:
        standing = plans.plans
        in_turn = self.fill(standing, rows, AS_PLANNED, exempt)
        yield in_turn
        if plans.after_change is not standing:
            yield self.fill(plans.after_change, rows, AS_PLANNED, exempt)
        grade = in_turn.grade[rows]
        if (grade != MARGIN).any():  # margins may have grown: no plan is made longer at another's expense
            believed = self.fill(plans.after_change, rows, AS_BELIEVED, exempt)
            yield believed  # those that need more than that take it of what the others leave
            is_weaker = _weaker(believed, standing, rows)
            last = np.concatenate([rows[~is_weaker], rows[is_weaker]])
            how = np.where(np.sort(is_weaker), AS_PLANNED, AS_BELIEVED)
            yield self.fill(plans.after_change, last, how, exempt)
        if (grade == BROKEN).any():  # who is broken if those that are too late anyway take nothing?
            grade = self.fill(standing, rows, AS_PLANNED, exempt, is_late_served=False).grade[rows]
            is_broken = grade == BROKEN
            others_first = np.concatenate([rows[~is_broken], rows[is_broken]])
            yield self.fill(standing, others_first, AS_PLANNED, exempt)
        if (grade != MARGIN).any():
            fails = self._fails(standing, rows).argsort(kind="stable")
            yield self.fill(standing, rows[fails], AS_PLANNED, exempt)
            yield self.fill(standing, rows, LATE, exempt)
            yield self.fill(standing, rows, EARLY, exempt)

    def _fails(self, standing: Plans, rows: IntArray) -> IntArray:
        """(n,) 0: the plan of this row holds if all that it takes is free; 1: it does not; 2: none does.

        Those that fail make do with what the others leave.
        """
        plans, profile = copy_of(standing), FreeProfile(ENDLESS)
        profile.fill(self.takers, plans, rows, AS_PLANNED)
        fails: IntArray = np.maximum(_is_other(plans, standing)[rows], 2 * (plans.grade[rows] == BROKEN))
        return fails

    def fill(
        self,
        standing: Plans,
        rows: IntArray,
        how: int | IntArray,
        exempt: BoolArray,
        is_late_served: bool = True,
    ) -> Promises:
        """All of `rows`, in this order."""
        profile, plans = self.free.copy(), copy_of(standing)
        profile.fill(self.takers, plans, rows, how, is_late_served, exempt=exempt)
        return Promises(self.snapshot.by_deadline(rows), plans, profile, exempt)

    def with_newcomer(self, kept: Promises, newcomer: int, place: int) -> Promises | None:
        """The promises with the newcomer's among them; None if there is no way that keeps each as firmly.

        In the gaps that the others leave; in its turn, where those of later deadlines make way; with all
        plans made again, as late or as early as can be. What a gate that serves by deadline would admit at
        this moment, one of these admits too. One that is broken already cannot forbid new ones
        for ever, but none may make it later still.

        Args:
            place: how many of the promises have an earlier deadline.

        References: ElasticFlow, section 4.1, Algorithm 1, lines 2-7.
        """
        if in_gaps := self.in_gaps(kept, newcomer, place):
            return in_gaps
        if not self._is_possible(newcomer) or self._is_over_quota(kept, newcomer):
            return None
        rows, worst = _with(newcomer, place, kept.rows), _worst(kept, newcomer)
        for how in (AS_PLANNED, LATE, EARLY):
            before = self._earliest(kept, how, place)
            if before.num < place:
                continue
            plans, profile = copy_of(before.plans), before.profile.copy()
            rest = rows[place:]
            if profile.fill(self.takers, plans, rest, how, True, worst, kept.exempt) < len(rest):
                continue
            trial = Promises(rows, plans, profile, kept.exempt)
            if not self._is_any_later(trial, kept):
                return trial
        return None

    def in_gaps(self, kept: Promises, newcomer: int, place: int) -> Promises | None:
        """`with_newcomer`, where no other plan changes."""
        plans, profile = copy_of(kept.plans), kept.profile.copy()
        if not profile.fill(self.takers, plans, np.array([newcomer]), LATE, worst=_worst(kept, newcomer)):
            return None
        return Promises(_with(newcomer, place, kept.rows), plans, profile, kept.exempt)

    def _earliest(self, kept: Promises, how: int, num: int) -> EarliestPlans:
        """The first `num` promises planned again; fewer if one of them would be weaker than it was.

        What is tried for one newcomer, and for each deadline that it is offered, is worked out once.
        """
        known = kept.earliest.setdefault(how, [EarliestPlans(0, kept.plans, self.free, True)])
        nearest = max((one for one in known if one.num <= num), key=lambda one: one.num)
        if nearest.num == num or not nearest.is_whole:
            return nearest
        plans, profile, rows = copy_of(nearest.plans), nearest.profile.copy(), kept.rows[nearest.num : num]
        num_served = profile.fill(self.takers, plans, rows, how, True, kept.grade, kept.exempt)
        known.append(EarliestPlans(nearest.num + num_served, plans, profile, num_served == len(rows)))
        return known[-1]

    def _is_possible(self, newcomer: int) -> bool:
        """Whether it could be done in time if it were alone."""
        takers, num = self.takers, self.takers.num_levels[newcomer]
        if num == 0:
            return False
        held = takers.held[newcomer] > 0
        costs_s = np.zeros(num) if held else takers.start_s[newcomer, :num]
        runs_s = np.maximum(takers.until_s[newcomer] - costs_s, 0.0)
        return bool((takers.rates[newcomer, :num] * runs_s).max() >= takers.work[newcomer, MARGIN] * 0.999)

    def _is_over_quota(self, kept: Promises, newcomer: int) -> bool:
        """Whether promises of its tenant need more than its quota: none of these makes way then."""
        is_own = self.snapshot.tenant == self.snapshot.tenant[newcomer]
        return bool((kept.exempt & is_own).any())

    def _is_any_later(self, trial: Promises, kept: Promises) -> bool:
        late = kept.rows[(kept.grade[kept.rows] == BROKEN) & (kept.plans.top[kept.rows] > 0)]
        return bool((trial.plans.end_s[late] > kept.plans.end_s[late] + NO_LATER_S).any())


def _worst(kept: Promises, newcomer: int) -> IntArray:
    """(J,) grades with the newcomer's among them: no promise may be weaker."""
    worst = kept.grade.copy()
    worst[newcomer] = MARGIN
    return worst


def _with(newcomer: int, place: int, rows: IntArray) -> IntArray:
    """These rows with the newcomer's behind so many of them."""
    return np.concatenate([rows[:place], [newcomer], rows[place:]])


def _is_other(plans: Plans, standing: Plans) -> BoolArray:
    """(J,) plans that are not the standing ones."""
    is_segment = np.arange(plans.levels.shape[1]) < plans.num[:, None]
    is_other = (plans.levels != standing.levels) | (plans.starts_s != standing.starts_s)
    other: BoolArray = (plans.num != standing.num) | (is_other & is_segment).any(axis=1)
    return other


def _weaker(promises: Promises, standing: Plans, rows: IntArray) -> BoolArray:
    """(n,) promises that are less firm than in the standing plans."""
    is_weaker: BoolArray = promises.grade[rows] > np.maximum(standing.grade[rows], MARGIN)
    return is_weaker


def _weakness(promises: Promises) -> tuple[int, int]:
    grade = promises.grade[promises.rows]
    return int((grade == BROKEN).sum()), int((grade == JUST).sum())


def next_step_s(level: IntArray, held: IntArray, top: IntArray, change_s: FloatArray) -> float:
    """The first step of any plan that goes to more than its job is to have and has; inf if there is none."""
    return float(change_s[top > np.minimum(level, held)].min(initial=np.inf))
