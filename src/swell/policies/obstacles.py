"""What stands in the way of a deadline that is refused: the job's own length, costs, and promises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.counted import told_devices
from swell.model.lengths import span
from swell.model.plan import Refusal
from swell.model.snapshot import Snapshot
from swell.policies import wording
from swell.policies.levels import Levels

#: Promises that are named; of more, the number is told.
MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """What keeps one job from its deadline: its own length and costs, and the promises made before it."""

    window_s: float  #: until the deadline
    workers: int  #: with which it would be done first, had it the cluster to itself
    start_s: float  #: upper cost of its start with so many; 0 if it runs
    train_s: float  #: from then on, with the margin that speeds may be off by
    promises: tuple[str, ...]  #: ids of jobs that need devices in this window, the most first
    promised_share: float  #: of the device time of the window: the least that these need
    resize_s: float  #: the most that making room may take from one of them that runs
    num_devices: int  #: that promises may stand on
    num_ending: int  #: of them, those of nodes that are known to end within the window

    @property
    def alone_s(self) -> float:
        """Seconds from now to its end, had it the cluster to itself."""
        return self.start_s + self.train_s

    def __str__(self) -> str:
        """Text for a sentence, after the deadline that is asked for."""
        costs = span(self.train_s)
        if self.start_s > 0.0:
            costs = f"{span(self.start_s)} to start and {costs}"
        own = f"it needs {costs} of training with {_count(self.workers, 'worker')}"
        if self.alone_s > self.window_s:
            return own
        ends = f", and {told_devices(self.num_ending)} of {self.num_devices} will be gone before then"
        own += ends if self.num_ending else ""
        if not self.promises:
            return own if self.num_ending else f"{own}, and what other changes may cost leaves too little"
        taken = f"{_listed(self.promises)} {'needs' if len(self.promises) == 1 else 'need'}"
        return f"{own}, and {taken} {self.promised_share:.0%} of all device time until then{self._resizes()}"

    def _resizes(self) -> str:
        return f"; each resize may take {span(self.resize_s)}" if self.resize_s > 0.0 else ""


def obstacles(snapshot: Snapshot, levels: Levels, row: int, window_s: float, promised: IntArray) -> Obstacles:
    """What a deadline in `window_s` > 0 of the job in this row meets with.

    Args:
        row: a job with at least one level.
        promised: rows of the jobs whose promises stand.
    """
    num = int(levels.num[row])
    starts_s = levels.start_s[row, :num] * (snapshot.held_workers[row] == 0)
    trains_s = snapshot.remaining_steps[row] / levels.safe_rates[row, :num]
    best = int(np.argmin(starts_s + trains_s))
    need = _least_device_s(snapshot, levels, promised, window_s)
    in_the_way = promised[need > 0.0]
    order = np.lexsort((snapshot.arrival_rank[in_the_way], -need[need > 0.0]))
    is_level = np.arange(levels.highest) < levels.num[:, None]
    running = in_the_way[snapshot.held_workers[in_the_way] > 0]
    return Obstacles(
        window_s=window_s,
        workers=int(levels.workers[row, best]),
        start_s=float(starts_s[best]),
        train_s=float(trains_s[best]),
        promises=tuple(snapshot.job_ids[one] for one in in_the_way[order].tolist()),
        promised_share=float(need.sum()) / max(snapshot.mean_owned(window_s) * window_s, 1e-9),
        resize_s=float((levels.resize_s * is_level)[running].max(initial=0.0)),
        num_devices=snapshot.num_owned,
        num_ending=snapshot.num_owned - snapshot.num_owned_until(snapshot.now_s + window_s),
    )


def refusal(
    snapshot: Snapshot,
    levels: Levels,
    row: int,
    promised: IntArray,
    offer_s: int | None,
    objection: str = "",
) -> Refusal:
    """The refusal of an undecided job; of its deadline, only what stands in its way is told.

    Args:
        promised: rows of the jobs whose promises stand.
        offer_s: the earliest deadline that would be promised, from now; None: none would be now.
        objection: why it is not promised though it could be kept.
    """
    if offer_s is None and not (levels.num[row] and levels.devices[row, 0] <= snapshot.num_owned):
        return Refusal(earliest_deadline_s=None, text=wording.no_size_fits(snapshot, row))
    window_s = float(snapshot.deadline_s[row]) - snapshot.now_s
    if window_s <= 0.0:
        text = "its deadline has passed"
    elif objection:
        text = f"its deadline in {span(window_s)} is not promised: {objection}"
    else:
        found = obstacles(snapshot, levels, row, window_s, promised)
        text = f"its deadline in {span(window_s)} cannot be kept: {found}{_quota(snapshot, row)}"
    if offer_s is None:
        return Refusal(earliest_deadline_s=None, text=f"{text}; no deadline would be promised now")
    return Refusal(earliest_deadline_s=snapshot.now_s + offer_s, text=text)


def _quota(snapshot: Snapshot, row: int) -> str:
    """Text on the tenant's quota for the end of a sentence; empty: it has none."""
    quota = wording.quota_of(snapshot, row)
    return "" if quota is None else f", and its tenant's quota is {told_devices(quota)}"


def _least_device_s(snapshot: Snapshot, levels: Levels, rows: IntArray, window_s: float) -> FloatArray:
    """(n,) device-seconds that each of these jobs needs within the window at least, to keep its deadline.

    That is what it cannot do after the window at its best speed, done at the size that needs the fewest.
    """
    is_level = np.arange(levels.highest) < levels.num[rows, None]
    rates = np.where(is_level, levels.safe_rates[rows], 0.0)
    best = rates.max(axis=1, initial=0.0)
    price = np.divide(levels.devices[rows], rates, out=np.full(rates.shape, np.inf), where=rates > 0.0)
    later_s = np.maximum(snapshot.deadline_s[rows] - snapshot.now_s - window_s, 0.0)
    steps = np.maximum(snapshot.remaining_steps[rows] - best * later_s, 0.0)
    cheapest = np.where(is_level.any(axis=1), price.min(axis=1, initial=np.inf), 0.0)
    least: FloatArray = steps * cheapest
    return least


def _listed(job_ids: tuple[str, ...]) -> str:
    named, num_more = job_ids[:MOST_NAMED], len(job_ids) - MOST_NAMED
    more = f" and {num_more} more" if num_more > 0 else ""
    return f"{_count(len(job_ids), 'promise')} ({', '.join(named)}{more})"


def _count(num: int, what: str) -> str:
    return f"1 {what}" if num == 1 else f"{num} {what}s"
