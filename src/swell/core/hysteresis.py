"""Nothing thrashes: which of the changes a policy would like are worth making now.

A policy says what would be best from a clean sheet. A running gang changes only

* when a promise needs it (`floor`), or
* when its gain, for as long as workers stay here, beats its measured cost and it has kept its size for
  `min_hold_s`: a growth, or a shrink of a gang that is slower for its size, as one over several hosts may
  turn out to be, or
* when it must give devices to somebody whose change passes these tests.

And a gang that will have ended before another could have started in its place is left alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.compiled import suited
from swell.core.gain import gain_s
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot

#: A change must save at least so many times what it costs: when it is taken back, that costs once more.
GAIN_OVER_COST = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadiedSizes:
    workers: IntArray  #: (J,) to have now
    gain_s: FloatArray  #: (J,) time that going to the wanted size would save, its cost not taken off
    wake_s: float  #: when the first change that had to wait may be made


def steady(
    snapshot: Snapshot, allocation: Allocation, is_pinned: BoolArray, needs_owned: BoolArray | None = None
) -> SteadiedSizes:
    """The changes of `allocation` that are worth making now; capacity is kept.

    Args:
        is_pinned: (J,) jobs that cannot change now: they keep what they hold.
        needs_owned: (J,) jobs that may not have borrowed devices; None: none.
    """
    held, want, floor = snapshot.held_workers, allocation.workers, allocation.floor
    pools = _pools(snapshot, floor, is_pinned, needs_owned, held)
    if (want == held).all() and all(_num_over(snapshot, held, pool) <= 0 for pool in pools):
        return SteadiedSizes(workers=held, gain_s=np.zeros(snapshot.num_jobs), wake_s=math.inf)
    saved_s, final = gain_s(snapshot, want), np.empty_like(want)
    is_free, is_running, is_fresh, is_shrink, is_ending = np.empty((5, snapshot.num_jobs), dtype=bool)
    suited(_settle, snapshot.num_jobs)(
        snapshot.now_s,
        snapshot.min_hold_s,
        held,
        want,
        floor,
        is_pinned,
        snapshot.held_rate_per_s * snapshot.start_cost_s,
        snapshot.remaining_steps,
        snapshot.changed_s,
        saved_s,
        snapshot.growth_cost_s,
        (final, is_free, is_running, is_fresh, is_shrink, is_ending),
    )
    for pool in _pools(snapshot, floor, is_pinned, needs_owned, final):
        fit = _Fit(snapshot, final, pool)
        if fit.is_over:
            wished, is_start, none = final.copy(), is_free & (held == 0), np.zeros_like(want)
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
    wake_s = float(np.min(snapshot.changed_s[is_waiting] + snapshot.min_hold_s, initial=math.inf))
    return SteadiedSizes(workers=final, gain_s=saved_s, wake_s=wake_s)


def as_wished(
    snapshot: Snapshot, allocation: Allocation, is_pinned: BoolArray, needs_owned: BoolArray | None = None
) -> SteadiedSizes:
    """The changes of a policy that has weighed them itself: all that can be made now.

    Jobs that cannot change now keep what they hold; where that is more than the policy gave them, others
    wait: starts first, then growths, the latest submitted first. Floors are the last to give way.

    Args:
        is_pinned: (J,) jobs that cannot change now.
        needs_owned: (J,) jobs that may not have borrowed devices; None: none.
    """
    held, want, floor = snapshot.held_workers, allocation.workers, allocation.floor
    final = np.where(is_pinned, held, want)
    is_start, is_growth, none = ~is_pinned & (held == 0), ~is_pinned & (want > held), np.zeros_like(want)
    for pool in _pools(snapshot, floor, is_pinned, needs_owned, final):
        fit, wished = _Fit(snapshot, final, pool), final.copy()
        fit.lower(is_start & (floor == 0), none)
        fit.lower(is_growth, np.maximum(held, floor))
        fit.lower(is_start, none)
        fit.lower(is_growth, held)
        fit.restore(~is_pinned, wished)
    return SteadiedSizes(workers=final, gain_s=gain_s(snapshot, want), wake_s=math.inf)


class _Pool(NamedTuple):
    """Devices, and who must do with them."""

    num_devices: int
    among: BoolArray | None  #: (J,) None: all jobs


def _pools(
    snapshot: Snapshot, floor: IntArray, is_pinned: BoolArray, needs_owned: BoolArray | None, sizes: IntArray
) -> list[_Pool]:
    """Quotas first that these sizes (J,) exceed; then owned devices, for those that need them; then all."""
    pools = _quotas(snapshot, floor, is_pinned, sizes)
    if snapshot.num_borrowed and needs_owned is not None and needs_owned.any():
        pools.append(_Pool(snapshot.num_owned, needs_owned))
    return [*pools, _Pool(snapshot.num_devices, None)]


def _quotas(snapshot: Snapshot, floor: IntArray, is_pinned: BoolArray, sizes: IntArray) -> list[_Pool]:
    """What the jobs of a tenant may have that would have more: its quota, or what they must have, if more."""
    if snapshot.quota_devices is None:
        return []
    must = snapshot.devices_of_tenants(np.where(is_pinned, snapshot.held_workers, floor))
    most = np.maximum(snapshot.quota_devices, must)
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


def _settle(
    now_s: float,
    min_hold_s: float,
    held: IntArray,
    want: IntArray,
    floor: IntArray,
    is_pinned: BoolArray,
    steps_of_start: FloatArray,
    remaining_steps: FloatArray,
    changed_s: FloatArray,
    saved_s: FloatArray,
    growth_cost_s: FloatArray,
    columns: tuple[IntArray, BoolArray, BoolArray, BoolArray, BoolArray, BoolArray],
) -> None:
    """Write what each would have if there were enough for all, and what it may come to if there is not.

    Args:
        steps_of_start: (J,) that each does, as it is, while another could be launched in its place.
        columns: sizes; may change now; and runs; and has changed lately; and would only shrink for others;
            and is about to end, and would shrink only for a promise.
    """
    final, is_free, is_running, is_fresh, is_shrink, is_ending = columns
    for row in range(len(held)):
        ends_soon = held[row] >= max(floor[row], 1) and remaining_steps[row] <= steps_of_start[row]
        is_ending[row] = ends_soon and not is_pinned[row] and want[row] < held[row]
        is_free[row] = not (is_pinned[row] or ends_soon)
        is_running[row] = is_free[row] and held[row] > 0
        # The very sum that `wake_s` asks for: a head that is woken then must find the hold over.
        is_fresh[row] = is_running[row] and now_s < changed_s[row] + min_hold_s
        is_optional = is_running[row] and held[row] >= floor[row]
        is_worth_it = not is_fresh[row] and saved_s[row] > GAIN_OVER_COST * growth_cost_s[row]
        # A shrink that saves nothing waits until somebody needs what it leaves.
        is_shrink[row] = is_optional and want[row] < held[row] and not is_worth_it
        is_growth = is_optional and want[row] > held[row]
        stays = not is_free[row] or is_shrink[row] or (is_growth and not is_worth_it)
        final[row] = held[row] if stays else want[row]
