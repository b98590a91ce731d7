"""Refusals of deadlines: what stands in the way of each, worked out when it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.counted import told_devices, told_workers
from swell.model.lengths import span
from swell.model.plan import Refusal
from swell.model.snapshot import Snapshot
from swell.policies import wording
from swell.policies.levels import Levels

#: Promises that are named; of more, the number is told.
MOST_NAMED = 3


class LazyRefusals(Mapping[int, Refusal]):
    """Refusals by row, each worked out when it is first read: a counter-offer takes longer than admission."""

    def __init__(self) -> None:
        self._answers: dict[int, Callable[[], Refusal]] = {}

    def add(self, row: int, answer: Callable[[], Refusal]) -> None:
        """Refuse the job of this row; `answer` is called once at most."""
        self._answers[row] = cache(answer)

    def __getitem__(self, row: int) -> Refusal:
        return self._answers[row]()

    def __contains__(self, row: object) -> bool:
        return row in self._answers

    def __iter__(self) -> Iterator[int]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)


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


def obstacles(snapshot: Snapshot, levels: Levels, row: int, window_s: float, promised: IntArray) -> str:
    """What keeps a job from a deadline in `window_s` > 0: its own length and costs, and promises.

    Args:
        row: a job with at least one level.
        promised: rows of the jobs whose promises stand.
    """
    num = int(levels.num[row])
    starts_s = levels.start_s[row, :num] * (snapshot.held_workers[row] == 0)
    trains_s = snapshot.remaining_steps[row] / levels.safe_rates[row, :num]
    best = int(np.argmin(starts_s + trains_s))  # had it the cluster to itself
    start = f"{span(float(starts_s[best]))} to start and " if starts_s[best] > 0.0 else ""
    workers = told_workers(int(levels.workers[row, best]))
    own = f"it needs {start}{span(float(trains_s[best]))} of training with {workers}"
    if starts_s[best] + trains_s[best] > window_s:
        return own
    num_ending = snapshot.num_owned - snapshot.num_owned_until(snapshot.now_s + window_s)
    if num_ending:
        own += f", and {told_devices(num_ending)} of {snapshot.num_owned} will be gone before then"
    need = least_device_s(snapshot, levels, promised, window_s)
    rows = promised[need > 0.0]
    if not len(rows):
        return own if num_ending else f"{own}, and what other changes may cost leaves too little"
    in_order = rows[np.lexsort((snapshot.arrival_rank[rows], -need[need > 0.0]))]
    share = float(need.sum()) / max(snapshot.mean_owned(window_s) * window_s, 1e-9)
    running = rows[snapshot.held_workers[rows] > 0]
    is_level = np.arange(levels.highest) < levels.num[running, None]
    resize_s = float((levels.resize_s[running] * is_level).max(initial=0.0))
    resizes = f"; each resize may take {span(resize_s)}" if resize_s > 0.0 else ""
    taken = _listed([snapshot.job_ids[one] for one in in_order.tolist()])
    return f"{own}, and {taken} {share:.0%} of all device time until then{resizes}"


def least_device_s(snapshot: Snapshot, levels: Levels, rows: IntArray, window_s: float) -> FloatArray:
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


def _quota(snapshot: Snapshot, row: int) -> str:
    """Text on the tenant's quota for the end of a sentence; empty: it has none."""
    quota = wording.quota_of(snapshot, row)
    return "" if quota is None else f", and its tenant's quota is {told_devices(quota)}"


def _listed(job_ids: list[str]) -> str:
    named, num_more = ", ".join(job_ids[:MOST_NAMED]), len(job_ids) - MOST_NAMED
    if len(job_ids) == 1:
        return f"1 promise ({named}) needs"
    return f"{len(job_ids)} promises ({named}{f' and {num_more} more' if num_more > 0 else ''}) need"
