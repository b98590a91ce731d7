"""Why a job has what it has, in one sentence for people; and what stands in the way of a deadline that is
refused, worked out when it is read. Times are seconds from now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.model.plan import Refusal
from swell.model.quantities import span, told_devices, told_jobs, told_other_jobs, told_workers
from swell.model.snapshot import Snapshot
from swell.policies.levels import Levels

#: Of a promise whose reserve is used up.
NO_SLACK = "is on track, but has no slack"
#: Margins of speeds, as shares of time: of one that is hardly known, and the least that is told.
DOUBTED_SHARE, LEAST_TOLD_SHARE = 0.95, 0.02
#: Promises that are named; of more, the number is told.
MOST_NAMED = 3


def keeps_promise(
    workers: int, floor: int, until_s: float, saved_s: float, later: str = "", num_others: int = 0
) -> str:
    """A promised job that runs.

    Args:
        saved_s: what its workers above the floor save.
        later: the first step of its plan to more workers than the floor, such as `4 in 46 s`.
        num_others: promised jobs; among them a plan may have to use devices now that are theirs later. It may
            also keep more than the promise needs, where a change costs.
    """
    promise, has = _promise(until_s), f"has {told_workers(workers)}"
    if workers == floor:
        given = f", given the promises to {told_other_jobs(num_others)}" if num_others else ""
        text = f"{has}, as planned for {promise}"
        return f"{text}, and {later}{given}" if later else text + given
    if floor == 0:
        needs = f", {later} needed for it" if later else ""
        return f"{has}: ahead of schedule for {promise}, uses idle devices{needs}"
    needed = f"{floor} needed now" + (f" and {later}" if later else "")
    return f"{has}: {needed} for {promise}, plus {workers - floor} to finish {span(saved_s)} sooner"


def barely_keeps_promise(workers: int, until_s: float) -> str:
    """A promised job whose reserve is used up."""
    return f"{_has_most(workers)}: {_promise(until_s)} {NO_SLACK}"


def promise_can_wait(until_s: float, starts_s: float) -> str:
    """A promised job whose plan begins later."""
    return f"waits: {_promise(until_s)} needs no workers for {span(starts_s)}"


def at_risk(workers: int, until_s: float, fits: bool) -> str:
    """A promise that does not fit any more, by belief."""
    has = _has_most(workers) if workers else "waits for devices"
    return f"{has}: {_promise(until_s)} is at risk{'' if fits else ', none of its allowed sizes fits'}"


def shares(workers: int, smallest: int, saved_s: float) -> str:
    """A job that runs on what promises leave."""
    if workers == smallest:
        return f"has {told_workers(workers)}, its minimum"
    more = f"plus {workers - smallest} to finish {span(saved_s)} sooner"
    return f"has {told_workers(workers)}: minimum {smallest}, {more}"


def gets(workers: int, why: str) -> str:
    """A job that has what a simple rule gives it."""
    return f"has {told_workers(workers)}: {why}"


def waits(for_what: str, num_higher: int = 0) -> str:
    """A waiting job; `for_what` names the jobs or limits that it waits for.

    Args:
        num_higher: running jobs whose priority is higher.
    """
    return f"waits: {for_what}" + (f" ({told_jobs(num_higher)} of higher priority)" if num_higher else "")


def promisable(snapshot: Snapshot) -> str:
    """The devices that promises may stand on."""
    if snapshot.num_left_idle:
        return f"{snapshot.num_owned} devices that have a core each (promises use no others)"
    if not snapshot.num_borrowed:
        return f"{snapshot.num_devices} devices of the cluster"
    return f"{snapshot.num_owned} devices that are not borrowed"


def quota_of(snapshot: Snapshot, row: int) -> int | None:
    """Devices that jobs of its tenant may hold together; None: as many as there are."""
    if snapshot.quota_devices is None:
        return None
    quota = int(snapshot.quota_devices[snapshot.tenant[row]])
    return quota if quota < snapshot.num_devices else None


def no_size_fits(snapshot: Snapshot, row: int) -> str:
    """Sentence for a job that can be promised no deadline, as none of its sizes fits."""
    quota = quota_of(snapshot, row)
    if quota is not None and quota < snapshot.num_owned:
        what = "allow fewer workers, or ask for a higher quota"
        return f"none of its allowed sizes fits in its tenant's quota of {told_devices(quota)}; {what}"
    return f"none of its allowed sizes fits on the {promisable(snapshot)}; allow fewer workers or add nodes"


def fits_nowhere(snapshot: Snapshot) -> str:
    """A waiting job whose sizes are all larger than the cluster."""
    what, remedy = "of the cluster", "; allow fewer workers or add nodes"
    if snapshot.num_left_idle:
        what, remedy = "that have a core each", ", while a promise stands"
    return f"waits: none of its allowed sizes fits on the {snapshot.num_devices} devices {what}{remedy}"


def _has_most(workers: int) -> str:
    return f"has {told_workers(workers)}, the most that are useful and free"


def _promise(until_s: float) -> str:
    if until_s >= 0:
        return f"the promise to end within {span(until_s)}"
    return f"the promise that ran out {span(-until_s)} ago"


class RefusalTable(Mapping[int, Refusal]):
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
    snapshot: Snapshot, levels: Levels, row: int, promised: IntArray, offer_s: int | None, objection: str = ""
) -> Refusal:
    """The refusal of an undecided job; of its deadline, only what stands in its way is told.

    Args:
        promised: rows of the jobs whose promises stand.
        offer_s: the earliest deadline that would be promised, from now; None: none would be now.
        objection: why it is not promised though it could be kept.
    """
    if offer_s is None and not (levels.num[row] and levels.devices[row, 0] <= snapshot.num_owned):
        return Refusal(earliest_deadline_s=None, text=no_size_fits(snapshot, row))
    window_s = float(snapshot.deadline_s[row]) - snapshot.now_s
    if window_s <= 0.0:
        text = "its deadline has passed"
    elif objection:
        text = f"its deadline in {span(window_s)} is not promised: {objection}"
    else:
        found = obstacles(snapshot, levels, row, window_s, promised)
        text = f"its deadline in {span(window_s)} cannot be kept: {found}"
        if (quota := quota_of(snapshot, row)) is not None:
            text += f", and its tenant's quota is {told_devices(quota)}"
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
    own = f"it needs {start}{_trains(float(trains_s[best]), float(levels.margin_share[row, best]), workers)}"
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


def _trains(safe_s: float, margin_share: float, workers: str) -> str:
    """How long a job trains, and what a promise counts besides in case it is slower."""
    own_s = safe_s / (1.0 + margin_share)
    text = f"{span(own_s)} of training with {workers}"
    if margin_share >= DOUBTED_SHARE:
        return f"{text}, and as much again until its speed is known"
    is_told = margin_share >= LEAST_TOLD_SHARE
    return f"{text}, and {span(safe_s - own_s)} more in case it is slower" if is_told else text


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


def _listed(job_ids: list[str]) -> str:
    named, num_more = ", ".join(job_ids[:MOST_NAMED]), len(job_ids) - MOST_NAMED
    if len(job_ids) == 1:
        return f"1 promise ({named}) needs"
    return f"{len(job_ids)} promises ({named}{f' and {num_more} more' if num_more > 0 else ''}) need"
