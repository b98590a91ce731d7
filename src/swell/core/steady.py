"""Nothing thrashes: which of the changes a policy would like are worth making now.

A policy says what would be best from a clean sheet. A running gang changes only

* when a promise needs it (`floor`), or
* when its gain, for as long as workers stay here, beats its measured cost and it has kept its size for
  `min_hold_s`, or
* when it must give devices to somebody whose change passes these tests.

And a gang that will have ended before another could have started in its place is left alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from swell.core.gain import gain_s
from swell.model.plan import Allocation
from swell.model.snapshot import BoolArray, FloatArray, IntArray, Snapshot

#: A growth must save at least so many times what it costs: when it is taken back, that costs once more.
GAIN_OVER_COST = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Steadied:
    workers: IntArray  #: (J,) to have now
    gain_s: FloatArray  #: (J,) time that going to the wanted size would save, its cost not taken off
    wake_s: float  #: when the first change that had to wait may be made


def steady(snapshot: Snapshot, allocation: Allocation, is_pinned: BoolArray) -> Steadied:
    """The changes of `allocation` that are worth making now; capacity is kept.

    Args:
        is_pinned: (J,) jobs that cannot change now: they keep what they hold.
    """
    held, want, floor = snapshot.held_workers, allocation.workers, allocation.floor
    if (want == held).all() and _num_over(snapshot, held) <= 0:
        return Steadied(workers=held, gain_s=np.zeros(snapshot.num_jobs), wake_s=math.inf)
    is_pinned = is_pinned | _is_ending(snapshot)
    is_running = (held > 0) & ~is_pinned
    # The very sum that `wake_s` asks for: whoever is woken then must find the hold over.
    is_fresh = is_running & (snapshot.now_s < snapshot.changed_s + snapshot.min_hold_s)
    is_optional = is_running & (want != held) & (held >= floor)

    final = np.where(is_pinned, held, want)
    saved_s = gain_s(snapshot, want)
    is_worth_it = saved_s > GAIN_OVER_COST * snapshot.resize_cost_s
    final = np.where(is_optional & (want > held) & (is_fresh | ~is_worth_it), held, final)
    final = np.where(is_optional & (want < held), held, final)  # shrinks wait until somebody needs them

    fit = _Fit(snapshot, final)
    if fit.is_over:
        wished, shrinks = final.copy(), is_optional & (want < held)
        fit.lower(shrinks & ~is_fresh, want)
        fit.lower(is_running & (final > held) & (final > floor), np.maximum(held, floor))
        fit.lower((held == 0) & ~is_pinned & (floor == 0), np.zeros_like(want))
        fit.lower(shrinks & is_fresh, want)
        fit.lower((held == 0) & ~is_pinned, np.zeros_like(want))
        fit.lower(is_running & (fit.final > held), held)
        fit.restore(~shrinks, wished)
        fit.restore(shrinks, wished)
    is_waiting = is_fresh & (fit.final != want)
    wake_s = float(np.min(snapshot.changed_s[is_waiting] + snapshot.min_hold_s, initial=math.inf))
    return Steadied(workers=fit.final, gain_s=saved_s, wake_s=wake_s)


class _Fit:
    """Lowers sizes, class of jobs by class of jobs, until what is left fits the cluster."""

    def __init__(self, snapshot: Snapshot, final: IntArray) -> None:
        self._snapshot = snapshot
        self.final = final
        self._over = _num_over(snapshot, final)

    @property
    def is_over(self) -> bool:
        """More is wanted than there is."""
        return self._over > 0

    def lower(self, candidates: BoolArray, to: IntArray) -> None:
        """Lower candidates, the latest submitted first, while the cluster is too small."""
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
        rows = np.flatnonzero(candidates).tolist()
        return sorted(rows, key=lambda row: (snapshot.submitted_s[row], snapshot.job_ids[row]))


def _num_over(snapshot: Snapshot, workers: IntArray) -> int:
    """Devices that these sizes need beyond those there are; negative if some are left."""
    return int(workers @ snapshot.devices_per_worker) - snapshot.num_devices


def _is_ending(snapshot: Snapshot) -> BoolArray:
    """(J,) gangs that end, as they are, sooner than a launch would take."""
    within = snapshot.held_rate_per_s * snapshot.start_cost_s
    ending: BoolArray = (snapshot.held_workers > 0) & (snapshot.remaining_steps <= within)
    return ending
