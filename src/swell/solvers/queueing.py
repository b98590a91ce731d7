"""Queues: when those who wait will be done, and fair queueing, of devices by what accounts have used and of
what equal parts would give tasks.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray

#: Stands for an end that cannot be named: no size fits. Finite, and beyond any plan (a century).
NEVER_S = 100 * 365.25 * 86400.0


def list_schedule(
    num_free: int, end_s: FloatArray, held: IntArray, wanted: IntArray, lasts_s: FloatArray
) -> FloatArray:
    """(W,) end of each waiting task if tasks start in the order given, as soon as their devices are free.

    No task overtakes, none is interrupted. A task that needs more than there ever is ends at
    `NEVER_S` and delays no other.

    Args:
        num_free: devices free now.
        end_s, held: (R,) of what holds devices: its end in seconds from now, and how many.
        wanted, lasts_s: (W,) of what waits, in order of service: devices, and seconds it takes.

    References: Graham, "Bounds on multiprocessing timing anomalies", 1969 (list scheduling).
    """
    done_s = np.full(len(wanted), NEVER_S)
    releases = list(zip(end_s.tolist(), held.tolist(), strict=True))
    heapq.heapify(releases)
    num_devices, now_s = num_free + held.sum(), 0.0
    for row, (devices, takes_s) in enumerate(zip(wanted.tolist(), lasts_s.tolist(), strict=True)):
        if devices > num_devices or takes_s >= NEVER_S:
            continue
        while num_free < devices:
            release_s, released = heapq.heappop(releases)
            now_s, num_free = max(now_s, release_s), num_free + released
        num_free -= devices
        heapq.heappush(releases, (now_s + takes_s, devices))
        done_s[row] = min(now_s + takes_s, NEVER_S)
    return done_s


#: Devices beyond the smallest sizes are handed out one by one, or in so many parts.
MOST_PARTS = 256


class AccountDemand(NamedTuple):
    """What the jobs of one account can use beyond what it has."""

    aged: Sequence[int]  #: devices of the smallest size of each job that has waited for too long
    running: Sequence[int]  #: devices of the smallest size of each job that runs
    waiting: Sequence[int]  #: the same of each job that waits, in the order in which they are to start
    growth: int  #: devices that all of them can use beyond these


def share_out(
    left: int,
    given: IntArray,
    claim: IntArray,
    demands: Sequence[AccountDemand],
    used_s: FloatArray,
    weight: FloatArray,
    turn_s: float,
) -> IntArray:
    """(A,) devices that each account may have, those included that are given already.

    What is left goes to the account that has used least over its weight, one job or device after the other:
    first within claims, then to accounts without one, then beyond claims. So what a claim leaves is lent.

    Args:
        given: (A,) that accounts have in any case.
        claim: (A,) the most that each is to have before others are served; an account that may have any
            number claims nothing.
        turn_s: a device that an account has now counts as if it had been used for so long. And its running
            jobs stay until another account is behind by so much for each of their devices.

    References: Goyal, Vin and Cheng, "Start-time Fair Queueing: A Scheduling Algorithm for Integrated
        Services Packet Switching Networks", SIGCOMM 1996; Demers, Keshav and Shenker, "Analysis and
        Simulation of a Fair Queueing Algorithm", SIGCOMM 1989 (max-min).
    """
    has, most = given.tolist(), int(given.sum()) + left
    parts = [_parts(demand, max(1, left // MOST_PARTS)) for demand in demands]
    queue: list[tuple[int, float, int, int, bool]] = []

    def enter(account: int) -> None:
        size, kept, is_aged = next(parts[account], (0, 0, False))
        if size:
            tier = 1 if claim[account] > most else 2 * (has[account] + size > claim[account])
            level = (used_s[account] + turn_s * (has[account] - kept)) / weight[account]
            heappush(queue, (tier, float(level), account, size, is_aged))

    for account in range(len(has)):
        enter(account)
    while queue and left > 0:
        _, _, account, size, is_aged = heappop(queue)
        if size <= left:
            has[account] += size
            left -= size
        elif is_aged:
            continue  # the account saves for it
        enter(account)
    return np.array(has, dtype=np.int64)


def _parts(demand: AccountDemand, part: int) -> Iterator[tuple[int, int, bool]]:
    """Devices that an account gets at a time, how many it keeps of those it has, whether a job is aged."""
    kept = sum(demand.running)
    yield from ((size, kept, True) for size in demand.aged)
    yield from ((size, kept, False) for size in demand.running)
    yield from ((size, 0, False) for size in demand.waiting)
    yield from ((part, 0, False) for _ in range(demand.growth // part))
    yield demand.growth % part, 0, False


#: Below, time is the work that a machine has done for all tasks together: nothing depends on how fast it is.
def served_equally(left: FloatArray, work: float) -> FloatArray:
    """(V,) what each gets of `work`, equal parts, but none more than is `left` (V,) of it."""
    order = np.argsort(left, kind="stable")
    served = np.zeros(len(left))
    for place, task in enumerate(order.tolist()):
        served[task] = min(float(left[task]), work / (len(left) - place))
        work -= served[task]
    return served


def fair_ends(left: FloatArray) -> FloatArray:
    """(V,) work until each task ends if all get equal parts and none arrives.

    References: Friedman and Henderson, "Fairness and efficiency in web server protocols", 2003: to serve by
        these ends makes no task later than equal parts would.
    """
    ends: FloatArray = np.minimum(left[:, None], left[None, :]).sum(axis=1)
    return ends


def urgent(left: FloatArray, until: FloatArray, slowest: FloatArray, leak: float, margin: float) -> IntArray:
    """Tasks that must be served now so that all end in time, the first due first; none: no need.

    Args:
        left: (V,) work of each.
        until: (V,) work of the machine by which it is due.
        slowest: (V,) least work of the machine in which one unit of this task can be done.
        leak: what each task that is not served gets, for each unit of one that is.
        margin: work of the machine until this is asked again.
    """
    order = np.argsort(until, kind="stable")
    later = np.arange(len(left))[::-1]
    together = np.cumsum(left[order]) * (1.0 + leak * later)
    spare = until[order] - np.maximum(together, (slowest * left)[order])
    short = np.flatnonzero(spare <= margin)
    return order[: short[-1] + 1] if len(short) else order[:0]
