"""Who gains most from what is left."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.compiled import part, suited


class SeparatePart(NamedTuple):
    """A part of what is left, which is all that some takers may have; others take the rest first."""

    left: int
    is_bound: BoolArray  #: (J,) takers that may have this part only


class TakerGroups(NamedTuple):
    """Takers that may have only so much together, whatever else is left."""

    left: IntArray  #: (G,) for each group; less than nothing where it has more than that already
    of: IntArray  #: (J,) the group of each taker


def one_group(num_takers: int) -> TakerGroups:
    """All may have all."""
    return TakerGroups(np.full(1, ENDLESS), np.zeros(num_takers, dtype=np.int64))


#: Devices that no takers use up.
ENDLESS = 1 << 40
#: Returns closer than this are a tie, which `rank` and `held` break: rounding must not move devices.
SAME_RETURN = 1e-9


def boost(
    level: IntArray,
    devices: IntArray,
    rates: FloatArray,
    num_levels: IntArray,
    price: FloatArray,
    held: IntArray,
    rank: IntArray,
    left: int,
    own: SeparatePart | None = None,
    groups: TakerGroups | None = None,
) -> tuple[IntArray, int]:
    """Raise takers one level at a time, the largest return per device first, while `left` lasts.

    Args:
        level: (J,) to start from; 0 is nothing.
        devices, rates: (J, L) of levels 1, 2, ...; the first `num_levels` of a row count.
        price: (J,) device-seconds that one unit of work costs later, at the taker's filling level.
        held: (J,) the level a taker has now: among equals those come first that only return to it.
        rank: (J,) breaks the remaining ties, lowest first.
        own: which of what is left some takers may not have; None: all may have all.
        groups: who may have how much together, changed by what they take; None: all may have all.

    Returns: the levels, and the devices that no row could use.

    A return depends on the taker's own level only, so none goes stale in the heap; and `left` only
    falls, so a step that does not fit never will.

    References: ElasticFlow, section 4.2, Algorithm 2.
    Deviates: one size a step, not one device; the saving in later slots (lines 7-9 and 20-22, which
        fill again) in closed form: the extra work done now times its price.
    """
    level = level.copy()
    run = suited(_boost, len(level))
    own = own or SeparatePart(left, np.zeros(len(level), dtype=bool))
    groups = groups or one_group(len(level))
    return level, int(run(level, devices, rates, num_levels, price, held, rank, left, *own, *groups))


def _boost(
    level: IntArray,
    devices: IntArray,
    rates: FloatArray,
    num_levels: IntArray,
    price: FloatArray,
    held: IntArray,
    rank: IntArray,
    left: int,
    own_left: int,
    is_bound: BoolArray,
    group_left: IntArray,
    group: IntArray,
) -> int:
    queue = [
        (_return(row, level, devices, rates, price), level[row] >= held[row], rank[row], row)
        for row in range(len(level))
        if level[row] < num_levels[row] and _step(row, level, devices) <= left
    ]
    heapq.heapify(queue)
    while left > 0 and len(queue) > 0:  # line 12
        row = heapq.heappop(queue)[3]  # line 14
        most = min(own_left if is_bound[row] else left, group_left[group[row]])
        if _step(row, level, devices) > most:
            continue
        left -= _step(row, level, devices)  # line 18
        group_left[group[row]] -= _step(row, level, devices)
        own_left = min(own_left - _step(row, level, devices), left) if is_bound[row] else min(own_left, left)
        level[row] += 1  # lines 16-17
        if level[row] < num_levels[row]:  # line 23: a higher level always ends sooner
            again = (_return(row, level, devices, rates, price), level[row] >= held[row], rank[row], row)
            heapq.heappush(queue, again)  # lines 19-24
    return left


@part
def _step(row: int, level: IntArray, devices: IntArray) -> int:
    """Devices that the next level takes in addition."""
    below = devices[row, level[row] - 1] if level[row] > 0 else 0
    return devices[row, level[row]] - below  # type: ignore[no-any-return]


@part
def _return(row: int, level: IntArray, devices: IntArray, rates: FloatArray, price: FloatArray) -> float:
    """Line 9: sum a_i - sum x_i, per device; rounded, and negative so that the largest comes first."""
    faster = rates[row, level[row]] - (rates[row, level[row] - 1] if level[row] > 0 else 0.0)
    step = _step(row, level, devices)
    gain = (faster * price[row] - step) / step
    return -float(np.floor(gain / SAME_RETURN + 0.5))


def raise_in_order(
    level: IntArray,
    devices: IntArray,
    num_levels: IntArray,
    rows: Sequence[int] | IntArray,
    most: int | IntArray,
    left: int,
) -> int:
    """Raise `rows`, in this order, as far as `left` allows and to level `most` at the highest.

    Args:
        most: one for all, or (n,) one for each of `rows`.

    Changes `level` (J,) in place; returns what is left.
    """
    own = SeparatePart(left, np.zeros(len(level), dtype=bool))
    return raise_within(level, devices, num_levels, rows, most, left, own)[0]


def raise_within(
    level: IntArray,
    devices: IntArray,
    num_levels: IntArray,
    rows: Sequence[int] | IntArray,
    most: int | IntArray,
    left: int,
    own: SeparatePart,
    groups: TakerGroups | None = None,
) -> tuple[int, int]:
    """`raise_in_order` where some takers may not have all of what is left; also returns what they may."""
    rows = np.asarray(rows, dtype=np.int64)
    limits = np.minimum(num_levels[rows], most)
    run = suited(_raise, len(rows))
    groups = groups or one_group(len(level))
    left, own_left = run(level, devices, rows, limits, left, own.left, own.is_bound, *groups)
    return int(left), int(own_left)


def _raise(
    level: IntArray,
    devices: IntArray,
    rows: IntArray,
    limits: IntArray,
    left: int,
    own_left: int,
    is_bound: BoolArray,
    group_left: IntArray,
    group: IntArray,
) -> tuple[int, int]:
    for position in range(len(rows)):
        row = rows[position]
        current = devices[row, level[row] - 1] if level[row] > 0 else 0
        for higher in range(limits[position], level[row], -1):
            more = devices[row, higher - 1] - current
            if more <= min(own_left if is_bound[row] else left, group_left[group[row]]):
                level[row] = higher
                left -= more
                group_left[group[row]] -= more
                own_left = min(own_left - more, left) if is_bound[row] else min(own_left, left)
                break
    return left, own_left


def serve_in_order(
    level: IntArray, devices: IntArray, num_levels: IntArray, rows: IntArray, left: int
) -> int:
    """Raise `rows`, in this order, as far as `left` allows, until one gets nothing: no row overtakes it.

    One that has no level is passed over. Changes `level` (J,), all 0, in place; returns what is left.
    """
    return int(suited(_serve, len(rows))(level, devices, num_levels, rows, left))


def _serve(level: IntArray, devices: IntArray, num_levels: IntArray, rows: IntArray, left: int) -> int:
    for position in range(len(rows)):
        row = rows[position]
        higher = num_levels[row]
        if higher == 0:
            continue
        while higher > 0 and devices[row, higher - 1] > left:
            higher -= 1
        if higher == 0:
            break
        level[row] = higher
        left -= devices[row, higher - 1]
    return left
