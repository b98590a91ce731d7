"""Plans from snapshots: the policy chooses sizes, steadiness delays changes, the placer chooses devices.

And when jobs will start and end if the policy is followed from now on: no other job comes, no node comes or
leaves, and what is believed of speeds and costs is true."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import msgspec
import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.core.accounts import is_beyond_quota
from swell.core.explanations import Held, PlanAccount, Standing
from swell.core.hysteresis import KeptSizes, gain_s, steady
from swell.core.usable_nodes import on_whole_cores
from swell.model.plan import Allocation, JobPlan, Moves, Placement, Plan, PlanForecast
from swell.model.snapshot import STRICT, Memory, Snapshot
from swell.model.target import PLAIN_CONFIGURATION, Configuration, Target
from swell.placement.best_fit import BestFitPlacer
from swell.policies.policy import Policy

#: With more jobs, or more decisions, it takes more than some 20 ms: the rest is as the policy itself expects.
MOST_JOBS = 24
MOST_TURNS = 60

Settled = Callable[[Snapshot, Allocation, BoolArray], KeptSizes]


def follow(
    policy: Policy, settled: Settled, snapshot: Snapshot, allocation: Allocation, steadied: KeptSizes
) -> PlanForecast | None:
    """Ask the policy again at each end of a job, and whenever it wants to be asked.

    Args:
        settled: which changes of an answer are made.
        allocation: the answer to the snapshot, of which `steadied` is made.

    Returns:
        None: there are too many jobs, or how fast they go depends on their shares of cores.
    """
    if snapshot.num_jobs > MOST_JOBS or allocation.share is not None:
        return None
    rows, course = np.arange(snapshot.num_jobs), _Course(policy.makes_promises, snapshot)
    course.is_open[list(allocation.refusals)] = False
    seen, finish_s = snapshot, np.full(snapshot.num_jobs, math.inf)
    for _ in range(MOST_TURNS):
        course.change(rows, steadied.workers, seen.rates_at(steadied.workers))
        due_s = (course.now_s // policy.period_s + 1) * policy.period_s
        postponed = rows[allocation.workers != steadied.workers]
        asked_s = min(allocation.wake_s, steadied.wake_s, course.next_ready_s(postponed), due_s)
        is_over = course.go_on(asked_s)
        finish_s[is_over] = course.now_s
        still = course.is_open.nonzero()[0]
        if not len(still) or math.isinf(course.now_s):
            return PlanForecast(course.start_s, finish_s)
        try:
            view = course.snapshot(still, course.now_s >= due_s, allocation.memory)
            seen, allocation = policy.decide_fairly(view)
        except Exception:  # noqa: BLE001 - if it comes to that, the head will tell
            break
        rows, steadied = still, settled(seen, allocation, seen.is_pinned)
    is_open = course.is_open[rows]
    finish_s[rows[is_open]] = allocation.account.forecast.finish_s[is_open]
    return PlanForecast(course.start_s, finish_s)


class _Course:
    """Lets time go on for the jobs of a snapshot; rows are its rows."""

    def __init__(self, makes_promises: bool, first: Snapshot) -> None:
        self._first, self.now_s = first, first.now_s
        is_promised = first.is_promised | (first.is_undecided & makes_promises)
        self._is_promised = is_promised & (first.job_class == STRICT)
        self._left, self._held = first.remaining_steps.copy(), first.held_workers.copy()
        self._rate_per_s = first.held_rate_per_s.copy()
        self._ready_s = first.now_s + first.idle_s * (self._held > 0)  #: ends of pauses and starts
        self._attained_s, self._changed_s = first.attained_device_s.copy(), first.changed_s.copy()
        self.is_open = np.ones(first.num_jobs, dtype=bool)
        self.start_s = np.full(first.num_jobs, np.nan)

    def change(self, rows: IntArray, workers: IntArray, rate_per_s: FloatArray) -> None:
        """Give these jobs (n,) sizes now, at their costs; one that grows trains on until joiners come."""
        first, held = self._first, self._held[rows]
        is_start, is_growth = (held == 0) & (workers > 0), (held > 0) & (workers > held)
        wait_s = np.where(is_growth, first.resize_wait_s[rows], 0.0)
        running_s = np.where(is_growth, first.growth_cost_s[rows], first.shrink_cost_s[rows])
        pause_s = np.where(is_start, first.start_cost_s[rows], running_s) * (workers != held)
        self._left[rows] = np.maximum(self._left[rows] - wait_s * self._rate_per_s[rows], 0.0)
        self._ready_s[rows] = np.maximum(self._ready_s[rows], self.now_s) + wait_s + pause_s
        self._changed_s[rows] = np.where(workers != held, self.now_s, self._changed_s[rows])
        starting = rows[is_start & np.isnan(self.start_s[rows])]
        self.start_s[starting] = self.now_s
        self._held[rows], self._rate_per_s[rows] = workers, rate_per_s

    def next_ready_s(self, rows: IntArray) -> float:
        """Return when the first of these jobs can change that cannot now."""
        ready_s = self._ready_s[rows]
        return float(ready_s[ready_s > self.now_s].min(initial=math.inf))

    def go_on(self, until_s: float) -> BoolArray:
        """Let time go on until then, or until the first job ends. Returns (J,) those that end."""
        since_s, rate_per_s = np.maximum(self._ready_s, self.now_s), self._rate_per_s
        runs_s = np.divide(self._left, rate_per_s, out=np.full(len(since_s), np.inf), where=rate_per_s > 0)
        ends_s = np.where(self.is_open, since_s + runs_s, np.inf)
        then_s = max(self.now_s, min(until_s, float(ends_s.min(initial=math.inf))))
        is_over: BoolArray = self.is_open & np.isfinite(ends_s) & (ends_s <= then_s)
        if math.isfinite(then_s):
            self._left -= np.minimum(np.maximum(then_s - since_s, 0.0) * rate_per_s, self._left)
            self._attained_s += (then_s - self.now_s) * self._held * self._first.devices_per_worker
        self.is_open &= ~is_over
        self.now_s = then_s
        return is_over

    def snapshot(self, rows: IntArray, is_due: bool, memory: Memory) -> Snapshot:
        """Return what the policy sees of these jobs now."""
        first, held, left = self._first, self._held[rows], np.maximum(self._left[rows], 1e-9)
        idle_s = np.maximum(self._ready_s[rows] - self.now_s, 0.0) * (held > 0)
        return replace(
            first.of_jobs(rows, first.num_devices),
            now_s=self.now_s,
            quota_devices=first.quota_devices,
            fair=None if first.fair is None else first.fair.of_rows(rows),
            remaining_steps=left,
            done_steps=first.done_steps[rows] + first.remaining_steps[rows] - left,
            held_workers=held,
            is_pinned=idle_s > 0.0,
            idle_s=idle_s,
            most_workers=np.maximum(first.most_workers[rows], held),
            changed_s=self._changed_s[rows],
            attained_device_s=self._attained_s[rows],
            is_promised=self._is_promised[rows],
            is_undecided=np.zeros(len(rows), dtype=bool),
            is_due=is_due,
            memory=memory,
        )


@dataclass(frozen=True, slots=True)
class Planner:
    """Args: `others` are the policies, by name, that the platform may be switched to."""

    policy: Policy
    placer: BestFitPlacer
    others: Mapping[str, Policy] = field(default_factory=dict)

    def named(self, policy: str) -> Planner:
        """This planner with the policy of that name. Raises LookupError."""
        return self if policy == self.policy.name else replace(self, policy=self.others[policy])

    def plan(self, snapshot: Snapshot, allocation: Allocation, standing: Standing) -> Plan:
        """A plan for every job of the snapshot, by the policy's answer to it. Empty devices mean: wait."""
        is_pinned, cluster, held = standing.is_pinned, standing.cluster, standing.held
        needs_owned = self._needs_owned(snapshot)
        steadied = self._settled(snapshot, allocation, is_pinned)
        pinned = named(snapshot, is_pinned)
        owned_only = named(snapshot, needs_owned) if needs_owned is not None else frozenset[str]()
        wanted = _wanted_devices(snapshot, allocation, steadied.workers, held)
        if snapshot.num_left_idle:
            keeping = pinned | (held.keys() - wanted.keys())
            kept, others = [_devices(held, jobs) for jobs in (keeping, held)]
            cluster = on_whole_cores(cluster, kept, others)
        staying = frozenset(held) if self.policy.forbids_migration else frozenset[str]()
        each = _wide_workers(snapshot)
        rules = partial(
            self.placer.place,
            cluster,
            owned_only=owned_only,
            barred=standing.barred,
            slow=standing.slow,
        )
        place = partial(_place, partial(rules, held=held, staying=staying, each=each), wanted, held)
        placement, moves = _place_what_may_move(snapshot, allocation, wanted, pinned, place)
        account = PlanAccount(snapshot, allocation, steadied, placement, standing)
        chosen = _configurations(snapshot, steadied.workers, allocation, standing.configured)
        is_postponed = is_pinned & (allocation.workers != snapshot.held_workers)
        is_postponed |= is_pinned & is_beyond_quota(snapshot, steadied.workers)
        if chosen:
            is_postponed[[row for row in chosen if is_pinned[row]]] = True
        is_as_wished = bool((steadied.workers == allocation.workers).all())
        return Plan(
            job_ids=snapshot.job_ids,
            changes=_changes(account, chosen),
            refusals=allocation.refusals,
            undecided=snapshot.is_undecided.nonzero()[0],
            account=account,
            wake_s=min(allocation.wake_s, steadied.wake_s, float(moves.until_s.min(initial=math.inf))),
            makes_promises=self.policy.makes_promises,
            is_short=bool((allocation.floor > snapshot.held_workers).any()),
            is_sated=allocation.is_sated and is_as_wished and not snapshot.num_left_idle,
            has_options=len(snapshot.options.workers) > 0,
            forecast=partial(follow, self.policy, self._settled, snapshot, allocation, steadied),
            memory=moves.memory,
            revisit=named(snapshot, is_postponed),
        )

    def _settled(self, snapshot: Snapshot, allocation: Allocation, is_pinned: BoolArray) -> KeptSizes:
        """Return what of the policy's answer is worth doing now."""
        needs_owned = self._needs_owned(snapshot)
        return steady(snapshot, allocation, is_pinned, needs_owned, self.policy.weighs_changes)

    def _needs_owned(self, snapshot: Snapshot) -> BoolArray | None:
        """(J,) jobs that may not have borrowed devices; None: there are no such jobs, or no such devices."""
        return snapshot.needs_owned if self.policy.makes_promises and snapshot.num_borrowed else None


def _place(
    placed: Callable[..., Placement], wanted: Mapping[str, int], held: Held, pinned: frozenset[str]
) -> Placement:
    """Place; a running job that cannot have its new size here and now keeps the devices it has.

    Those of a node that it is to leave, too, until there is a place for it.
    """
    placement = placed(wanted=wanted, pinned=pinned)
    stuck = placement.unplaced & held.keys()
    if not stuck:
        return placement
    others = {job: num for job, num in wanted.items() if job not in stuck}
    placement = placed(wanted=others, pinned=pinned | stuck)
    changes = {job: devices for job, devices in placement.changes.items() if job not in stuck}
    return replace(placement, changes=changes)


def named(snapshot: Snapshot, is_one: BoolArray) -> frozenset[str]:
    """Ids of these (J,) jobs."""
    if not is_one.any():
        return frozenset()
    return frozenset(snapshot.job_ids[row] for row in is_one.nonzero()[0].tolist())


def _wide_workers(snapshot: Snapshot) -> Mapping[str, int]:
    """Job id -> devices of each worker, of jobs where these are several."""
    each = snapshot.devices_per_worker
    return {snapshot.job_ids[row]: int(each[row]) for row in (each > 1).nonzero()[0].tolist()}


def _devices(held: Held, jobs: Iterable[str]) -> frozenset[str]:
    """The devices that these jobs hold, of those that hold any."""
    return frozenset(chain.from_iterable(held.get(job, ()) for job in jobs))


def _place_what_may_move(
    snapshot: Snapshot,
    allocation: Allocation,
    wanted: Mapping[str, int],
    pinned: frozenset[str],
    place: Callable[[frozenset[str]], Placement],
) -> tuple[Placement, Moves]:
    """Place until all that move only to make room may do so; and what follows from that."""
    while True:
        placement = place(pinned)
        moved = sorted(snapshot.row_of[job] for job in placement.moved.difference(wanted))
        if not moved or allocation.moves is None:
            return placement, Moves(np.zeros(0), allocation.memory)
        moves = allocation.moves(np.array(moved, dtype=np.int64))
        if not (moves.until_s == -math.inf).any():
            return placement, moves
        pinned |= {snapshot.job_ids[row] for row in np.array(moved)[moves.until_s == -math.inf].tolist()}


def _wanted_devices(
    snapshot: Snapshot, allocation: Allocation, workers: IntArray, held: Held
) -> dict[str, int]:
    """Job id -> number of devices, of jobs that are to have another: promises, the rest by class and arrival.

    What is still held by jobs that are not planned for any more (they are being stopped) is counted as free.
    """
    wanted: dict[str, int] = {}
    if len(held) != np.count_nonzero(snapshot.held_workers):
        wanted |= {job: 0 for job in held if job not in snapshot.row_of}
    rows = (workers != snapshot.held_workers).nonzero()[0]
    if len(rows):
        rows = snapshot.in_order(rows, allocation.floor == 0, snapshot.job_class)
        num_devices = (workers[rows] * snapshot.devices_per_worker[rows]).tolist()
        for row, num in zip(rows.tolist(), num_devices, strict=True):
            wanted[snapshot.job_ids[row]] = num
    return wanted


def _configurations(
    snapshot: Snapshot, workers: IntArray, allocation: Allocation, configured: Mapping[str, Configuration]
) -> dict[int, Configuration]:
    """Configurations by row, for jobs whose gangs neither have them nor are about to.

    Args:
        workers: (J,) sizes of the jobs. A size that is not among a job's options has no configuration.
    """
    options, share = snapshot.options, allocation.share
    if not configured and not options.has_configured and share is None:
        return {}
    option = options.at(workers)
    is_option = (workers > 0) & (options.workers_of(option) == workers)
    chosen = {row: options.configuration(int(option[row])) for row in is_option.nonzero()[0].tolist()}
    if share is not None:
        for row in [row for row in chosen if not math.isnan(share[row])]:
            chosen[row] = msgspec.structs.replace(chosen[row], share=float(share[row]))
    now = {row: configured.get(snapshot.job_ids[row], PLAIN_CONFIGURATION) for row in chosen}
    return {row: one for row, one in chosen.items() if one != now[row]}


def _changes(account: PlanAccount, chosen: Mapping[int, Configuration]) -> dict[str, JobPlan]:
    """Plans by job id, in the order of rows, for jobs that are to have something else than they have now."""
    snapshot, standing = account.snapshot, account.standing
    planned = account.placement.changes
    # What was chosen for a size that finds no place is nothing for the one that is held.
    workers = account.steadied.workers
    is_other = ~standing.is_pinned & (snapshot.held_workers == workers) & (workers > 0)
    others = [row for row in chosen if is_other[row]]
    if not planned and not others:  # the map of rows takes a while, too
        return {}
    rows = {snapshot.row_of[job] for job in planned if job in snapshot.row_of}
    if not rows and not others:
        return {}
    is_as_wished = (account.steadied.workers == account.allocation.workers)[list(rows)].all()
    saved_s = account.steadied.gain_s if is_as_wished else gain_s(snapshot, account.steadied.workers)
    changes = {}
    for row in sorted(rows.union(others)):
        job_id = snapshot.job_ids[row]
        devices = planned[job_id] if job_id in planned else standing.held[job_id]
        configuration = chosen.get(row) or standing.configured.get(job_id, PLAIN_CONFIGURATION)
        changes[job_id] = JobPlan(
            target=Target(devices=devices, configuration=configuration),
            why=partial(account.text, row),
            saved_s=float(saved_s[row]) if snapshot.held_rate_per_s[row] > 0 else None,
        )
    return changes
