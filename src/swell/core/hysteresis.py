"""Nothing thrashes: which of the changes a policy would like are worth making now.

A policy says what would be best from a clean sheet. A running gang changes only

* when a promise needs it (`floor`), or
* when its gain, for as long as workers stay here, beats its measured cost and it has kept its size for
  `min_hold_s`: a growth, or a shrink of a gang that is slower for its size, as one over several hosts may
  turn out to be, or
* when it must give devices to somebody whose change passes these tests, or
* when it has more workers than it may have, because a difference was found.

And a gang that will have ended before another could have started in its place is left alone. The changes of
a policy that has weighed them itself pass these tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot

#: A change must save at least so many times what it costs: when it is taken back, that costs once more.
GAIN_OVER_COST = 2.0
#: A rate of 0 would have to be divided by.
LEAST_RATE_PER_S = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSizes:
    workers: IntArray  #: (J,) to have now
    gain_s: FloatArray  #: (J,) time that going to the wanted size would save, its cost not taken off
    wake_s: float  #: when the first change that had to wait may be made


def gain_s(snapshot: Snapshot, workers: IntArray) -> FloatArray:
    """(J,) seconds saved by going from what is held to `workers`, the cost of that not taken off.

    Joiners take `resize_wait_s` to come, and until then the old size trains on. The new one is held until
    the job ends, or for `expected_hold_s`. Negative for a smaller size; 0 where nothing is held.
    """
    held = snapshot.held_workers
    now_per_s = np.maximum(snapshot.held_rate_per_s, LEAST_RATE_PER_S)
    then_per_s = np.maximum(snapshot.rates_at(workers), LEAST_RATE_PER_S)
    wait_s = np.where(workers > held, snapshot.resize_wait_s, 0.0)
    left = np.maximum(snapshot.remaining_steps - now_per_s * wait_s, 0.0)
    saved_s = np.minimum(left / then_per_s, snapshot.expected_hold_s) * (then_per_s / now_per_s - 1.0)
    return np.where((held > 0) & (workers > 0) & (workers != held), saved_s, 0.0)


def steady(
    snapshot: Snapshot,
    allocation: Allocation,
    is_pinned: BoolArray,
    needs_owned: BoolArray | None = None,
    is_weighed: bool = False,
) -> KeptSizes:
    """The changes of `allocation` that are worth making now; capacity is kept.

    Where jobs that keep what they hold leave less than the others want, some of these wait: for each class
    of changes the latest submitted first. Floors are the last to give way.

    Args:
        is_pinned: (J,) jobs that cannot change now: they keep what they hold.
        needs_owned: (J,) jobs that may not have borrowed devices; None: none.
        is_weighed: the policy has weighed the changes itself: all that can be made now are worth it.
    """
    now_s, held = snapshot.now_s, snapshot.held_workers
    want, floor, none = allocation.workers, allocation.floor, np.zeros_like(held)
    pools = _pools(snapshot, allocation, is_pinned, needs_owned, held)
    if (want == held).all() and all(_num_over(snapshot, held, pool) <= 0 for pool in pools):
        return KeptSizes(workers=held, gain_s=np.zeros(snapshot.num_jobs), wake_s=math.inf)
    saved_s = gain_s(snapshot, want)
    ends_soon = snapshot.remaining_steps <= snapshot.held_rate_per_s * snapshot.start_cost_s
    ends_soon &= (held >= np.maximum(floor, 1)) & (not is_weighed)
    is_free = ~(is_pinned | ends_soon)
    is_running = is_free & (held > 0)
    # The very sum that `wake_s` asks for: a head that is woken then must find the hold over.
    may_change_s = snapshot.changed_s + snapshot.min_hold_s
    is_fresh = is_running & (now_s < may_change_s) & (not is_weighed)
    is_worth_it = ~is_fresh & (saved_s > GAIN_OVER_COST * snapshot.growth_cost_s) | is_weighed
    is_worth_it |= snapshot.must_shrink
    is_optional = is_running & (held >= floor) & ~is_worth_it
    # A shrink that saves nothing waits until somebody needs what it leaves.
    is_shrink, is_ending = is_optional & (want < held), ends_soon & ~is_pinned & (want < held)
    final = np.where(is_free & ~(is_optional & (want != held)), want, held)
    for pool in _pools(snapshot, allocation, is_pinned, needs_owned, final):
        fit = _Fit(snapshot, final, pool)
        if fit.is_over:
            wished, is_start = final.copy(), is_free & (held == 0)
            fit.lower(is_shrink & ~is_fresh, want)
            fit.lower(is_running & (final > held) & (final > floor), np.maximum(held, floor))
            fit.lower(is_start & (floor == 0), none)
            fit.lower(is_shrink & is_fresh, want)
            fit.lower(is_ending, want)
            fit.lower(is_start, none)
            fit.lower(is_running & (fit.final > held), held)
            fit.restore(~is_shrink, wished)
            fit.restore(is_shrink, wished)
    is_waiting = is_fresh & (final != want)
    wake_s = float(np.min(may_change_s[is_waiting], initial=math.inf))
    return KeptSizes(workers=final, gain_s=saved_s, wake_s=wake_s)


class _Pool(NamedTuple):
    """Devices, and who must do with them."""

    num_devices: int
    among: BoolArray | None  #: (J,) None: all jobs


def _pools(
    snapshot: Snapshot,
    allocation: Allocation,
    is_pinned: BoolArray,
    needs_owned: BoolArray | None,
    sizes: IntArray,
) -> list[_Pool]:
    """Quotas first that these sizes (J,) exceed; then owned devices, for those that need them; then all."""
    pools = _quotas(snapshot, allocation, is_pinned, sizes)
    if snapshot.num_borrowed and needs_owned is not None and needs_owned.any():
        pools.append(_Pool(snapshot.num_owned, needs_owned))
    return [*pools, _Pool(snapshot.num_devices, None)]


def _quotas(snapshot: Snapshot, allocation: Allocation, is_pinned: BoolArray, sizes: IntArray) -> list[_Pool]:
    """What jobs of a tenant may have that would have more: its quota, what is lent, what they must have."""
    if snapshot.quota_devices is None:
        return []
    bound = np.where(is_pinned, snapshot.held_workers, allocation.floor)
    needed = np.maximum(*map(snapshot.devices_of_tenants, (bound, allocation.workers)))
    most = np.maximum(snapshot.quota_devices, needed)
    is_over = snapshot.devices_of_tenants(sizes) > most
    return [_Pool(int(most[one]), snapshot.tenant == one) for one in is_over.nonzero()[0].tolist()]


class _Fit:
    """Lowers sizes, class of jobs by class of jobs, until what is left fits the pool; `final` is changed."""

    def __init__(self, snapshot: Snapshot, final: IntArray, pool: _Pool) -> None:
        self._snapshot = snapshot
        self.final = final
        self._among = pool.among
        self._over = _num_over(snapshot, final, pool)

    @property
    def is_over(self) -> bool:
        """More is wanted than there is."""
        return self._over > 0

    def lower(self, candidates: BoolArray, to: IntArray) -> None:
        """Lower candidates, the latest submitted first, while the pool is too small."""
        if not self.is_over:
            return
        for row in reversed(self._by_arrival(candidates & (to < self.final))):
            if not self.is_over:
                return
            self._set(row, to)

    def restore(self, candidates: BoolArray, to: IntArray) -> None:
        """Give back, the first submitted first, what a larger sacrifice made after theirs has left over."""
        if self._over >= 0:
            return
        for row in self._by_arrival(candidates & (to > self.final)):
            more = (to[row] - self.final[row]) * self._snapshot.devices_per_worker[row]
            if self._over + more <= 0:
                self._set(row, to)

    def _set(self, row: int, to: IntArray) -> None:
        self._over += int((to[row] - self.final[row]) * self._snapshot.devices_per_worker[row])
        self.final[row] = to[row]

    def _by_arrival(self, candidates: BoolArray) -> list[int]:
        snapshot = self._snapshot
        if self._among is not None:
            candidates = candidates & self._among
        rows: list[int] = snapshot.in_order(candidates.nonzero()[0]).tolist()
        return rows


def _num_over(snapshot: Snapshot, workers: IntArray, pool: _Pool) -> int:
    """Devices that these sizes need beyond those there are; negative if some are left."""
    if pool.among is not None:
        workers = workers * pool.among
    return int(workers @ snapshot.devices_per_worker) - pool.num_devices
