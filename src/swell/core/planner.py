"""Plans from snapshots: the policy chooses sizes, steadiness delays changes, the placer chooses devices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from types import MappingProxyType

import msgspec
import numpy as np

from swell.arrays import BoolArray, IntArray
from swell.core.explanations import PlanAccount
from swell.core.forecast import follow
from swell.core.hysteresis import KeptSizes, gain_s, steady
from swell.core.tenants import is_beyond_quota
from swell.core.usable_nodes import on_whole_cores
from swell.model.cluster import Cluster
from swell.model.plan import Allocation, JobPlan, Moves, Placement, Plan
from swell.model.snapshot import Snapshot
from swell.model.target import PLAIN_CONFIGURATION, Configuration, Target
from swell.placement.best_fit import BestFitPlacer
from swell.policies.policy import Policy

Held = Mapping[str, tuple[str, ...]]
NO_CONFIGURATIONS: Mapping[str, Configuration] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Planner:
    """Args: `others` are the policies, by name, that the platform may be switched to."""

    policy: Policy
    placer: BestFitPlacer
    others: Mapping[str, Policy] = field(default_factory=dict)

    def named(self, policy: str) -> Planner:
        """This planner with the policy of that name. Raises LookupError."""
        return self if policy == self.policy.name else replace(self, policy=self.others[policy])

    def plan(
        self,
        snapshot: Snapshot,
        allocation: Allocation,
        is_pinned: BoolArray,
        cluster: Cluster,
        held: Held,
        configured: Mapping[str, Configuration] = NO_CONFIGURATIONS,
        backing_off: Mapping[str, str] = MappingProxyType({}),
        barred: Mapping[str, frozenset[str]] = MappingProxyType({}),
        nowhere: Mapping[str, str] = MappingProxyType({}),
    ) -> Plan:
        """A plan for every job of the snapshot. Empty devices mean: wait.

        Args:
            allocation: the policy's answer to the snapshot.
            is_pinned: (J,) jobs whose gang cannot change now.
            held: job id -> devices of its gang, or of the gang under way; only jobs that have any.
            configured: job id -> how its gang runs, or is about to, where that is not plain.
            backing_off: job id -> why it is not launched now, of pinned jobs without a gang.
            barred: job id -> names of the nodes that cannot run it.
            nowhere: job id -> why, of jobs for which too few nodes are left.
        """
        needs_owned = self._needs_owned(snapshot)
        steadied = self._settled(snapshot, allocation, is_pinned)
        pinned = _named(snapshot, is_pinned)
        owned_only = _named(snapshot, needs_owned) if needs_owned is not None else frozenset[str]()
        wanted = _wanted_devices(snapshot, allocation, steadied.workers, held)
        if snapshot.num_left_idle:
            keeping = pinned | (held.keys() - wanted.keys())
            kept, others = [_devices(held, jobs) for jobs in (keeping, held)]
            cluster = on_whole_cores(cluster, kept, others)
        staying = frozenset(held) if self.policy.forbids_migration else frozenset[str]()
        each = _wide_workers(snapshot)
        place = partial(self._place, cluster, wanted, held, owned_only, barred, staying, each)
        placement, moves = _place_what_may_move(snapshot, allocation, wanted, pinned, place)
        account = PlanAccount(snapshot, allocation, steadied, placement, backing_off, nowhere)
        chosen = _configurations(snapshot, steadied.workers, allocation, configured)
        is_postponed = is_pinned & (allocation.workers != snapshot.held_workers)
        is_postponed |= is_pinned & is_beyond_quota(snapshot, steadied.workers)
        if chosen:
            is_postponed[[row for row in chosen if is_pinned[row]]] = True
        is_as_wished = bool((steadied.workers == allocation.workers).all())
        return Plan(
            job_ids=snapshot.job_ids,
            changes=_changes(snapshot, account, chosen, is_pinned, held, configured),
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
            revisit=_named(snapshot, is_postponed),
        )

    def _place(
        self,
        cluster: Cluster,
        wanted: Mapping[str, int],
        held: Held,
        owned_only: frozenset[str],
        barred: Mapping[str, frozenset[str]],
        staying: frozenset[str],
        each: Mapping[str, int],
        pinned: frozenset[str],
    ) -> Placement:
        """Place; a running job that cannot have its new size here and now keeps the devices it has.

        Those of a node that it is to leave, too, until there is a place for it.
        """
        placement = self.placer.place(cluster, wanted, held, pinned, owned_only, barred, staying, each)
        stuck = placement.unplaced & held.keys()
        if not stuck:
            return placement
        others = {job: num for job, num in wanted.items() if job not in stuck}
        pinned |= stuck
        placement = self.placer.place(cluster, others, held, pinned, owned_only, barred, staying, each)
        changes = {job: devices for job, devices in placement.changes.items() if job not in stuck}
        return replace(placement, changes=changes)

    def _settled(self, snapshot: Snapshot, allocation: Allocation, is_pinned: BoolArray) -> KeptSizes:
        """Return what of the policy's answer is worth doing now."""
        needs_owned = self._needs_owned(snapshot)
        return steady(snapshot, allocation, is_pinned, needs_owned, self.policy.weighs_changes)

    def _needs_owned(self, snapshot: Snapshot) -> BoolArray | None:
        """(J,) jobs that may not have borrowed devices; None: there are no such jobs, or no such devices."""
        return snapshot.needs_owned if self.policy.makes_promises and snapshot.num_borrowed else None


def _named(snapshot: Snapshot, is_one: BoolArray) -> frozenset[str]:
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


def _changes(
    snapshot: Snapshot,
    account: PlanAccount,
    chosen: Mapping[int, Configuration],
    is_pinned: BoolArray,
    held: Held,
    configured: Mapping[str, Configuration],
) -> dict[str, JobPlan]:
    """Plans by job id, in the order of rows, for jobs that are to have something else than they have now."""
    planned = account.placement.changes
    # What was chosen for a size that finds no place is nothing for the one that is held.
    workers = account.steadied.workers
    others = [row for row in chosen if not is_pinned[row] and snapshot.held_workers[row] == workers[row] > 0]
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
        devices = planned[job_id] if job_id in planned else held[job_id]
        configuration = chosen.get(row) or configured.get(job_id, PLAIN_CONFIGURATION)
        changes[job_id] = JobPlan(
            target=Target(devices=devices, configuration=configuration),
            why=partial(account.text, row),
            saved_s=float(saved_s[row]) if snapshot.held_rate_per_s[row] > 0 else None,
        )
    return changes
