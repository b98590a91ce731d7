"""Who gains most from what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray


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
    worth: FloatArray,
    num_levels: IntArray,
    held: IntArray,
    rank: IntArray,
    left: int,
    own: SeparatePart | None = None,
    groups: TakerGroups | None = None,
    reach: int = 1,
) -> tuple[IntArray, int]:
    """Raise takers to a higher level, the largest return per device first, while `left` lasts.

    A taker goes to the level with the largest return of those that fit, and on from there. None is taken
    that is worth less than the one before.

    Args:
        level: (J,) to start from; 0 is nothing.
        devices: (J, L) of levels 1, 2, ..., ascending; the first `num_levels` of a row count.
        worth: (J, L + 1) of levels 0, 1, 2, ..., in device-seconds: what a second at it saves later.
        held: (J,) the level a taker has now: among equals those come first that only return to it.
        rank: (J,) breaks the remaining ties, lowest first.
        own: which of what is left some takers may not have; None: all may have all.
        groups: who may have how much together, changed by what they take; None: all may have all.
        reach: levels that a step may go up at once; more than 1 helps where a curve bends upwards.

    Returns: the levels, and the devices that no row could use.

    A return depends on the taker's own level only, so none goes stale in the heap; and `left` only
    falls, so a step that does not fit never will. With curves that bend downwards alone, and steps of one
    device, the answer is the best.

    References: ElasticFlow, section 4.2, Algorithm 2; Kellerer, Pferschy, Pisinger, "Knapsack Problems",
        2004, section 11.2 (steps along the upper hull, if a step may reach any level).
    Deviates: one size a step, not one device; the saving in later slots (lines 7-9 and 20-22,
        which fill again) in closed form: the extra work done now times its price.
    """
    level = np.array(level)
    own_left, is_bound = own or SeparatePart(left, np.zeros(len(level), dtype=bool))
    group_left, group = groups or one_group(len(level))
    queue = _Queue(level, held, rank)
    for row in range(len(level)):
        if _steps_up(queue, row, devices, worth, num_levels, left, reach):
            queue.rows[queue.num] = row
            queue.num += 1
    for place in range(queue.num // 2 - 1, -1, -1):
        _sink(queue, place)
    while left > 0 and queue.num > 0:  # line 12
        row = queue.rows[0]  # line 14
        most = min(own_left if is_bound[row] else left, group_left[group[row]])
        step = devices[row, queue.to[row] - 1] - (devices[row, level[row] - 1] if level[row] > 0 else 0)
        if step <= most:
            left -= step  # line 18
            group_left[group[row]] -= step
            own_left = min(own_left - step, left) if is_bound[row] else min(own_left, left)
            level[row] = queue.to[row]  # lines 16-17
            most -= step
        # Line 23: a higher level always ends sooner; lines 19-24.
        if not _steps_up(queue, row, devices, worth, num_levels, most, reach):
            queue.num -= 1
            queue.rows[0] = queue.rows[queue.num]
        _sink(queue, 0)
    return np.asarray(level), left


class _Queue:
    """A heap of takers, each with the step up that it would take next."""

    def __init__(self, level: IntArray, held: IntArray, rank: IntArray) -> None:
        self.level, self.held, self.rank = level, held, rank
        self.rows, self.num = np.empty(len(level), dtype=np.int64), 0  #: the first `num` count
        self.less = np.empty(len(level))  #: (J,) the return of the step, negative
        self.to = np.empty(len(level), dtype=np.int64)  #: (J,) the level after it


def _steps_up(
    queue: _Queue,
    row: int,
    devices: IntArray,
    worth: FloatArray,
    num_levels: IntArray,
    most: int,
    reach: int,
) -> bool:
    """Write the taker's next step; whether there is one that takes no more than `most`."""
    highest = min(queue.level[row] + reach, num_levels[row])
    less, to = _next_step(row, queue.level[row], highest, devices, worth, most)
    queue.less[row], queue.to[row] = less, to
    return to > queue.level[row]


def _sink(queue: _Queue, place: int) -> None:
    """Put the taker at this place of the heap below all that come before it."""
    row, below = queue.rows[place], 2 * place + 1
    while below < queue.num:
        if below + 1 < queue.num and _is_first(queue, queue.rows[below + 1], queue.rows[below]):
            below += 1
        if _is_first(queue, row, queue.rows[below]):
            break
        queue.rows[place] = queue.rows[below]
        place, below = below, 2 * below + 1
    queue.rows[place] = row


def _is_first(queue: _Queue, row: int, other: int) -> bool:
    if queue.less[row] != queue.less[other]:
        return queue.less[row] < queue.less[other]
    returns = queue.level[row] < queue.held[row]
    if returns != (queue.level[other] < queue.held[other]):
        return returns
    if queue.rank[row] != queue.rank[other]:
        return queue.rank[row] < queue.rank[other]
    return row < other


def _next_step(
    row: int, level: int, highest: int, devices: IntArray, worth: FloatArray, most: int
) -> tuple[float, int]:
    """Line 9: the largest sum a_i - sum x_i per device, and the level that has it; the lowest such level.

    `level` itself: no higher one takes up to `most` devices more and is worth no less. Returns are rounded,
    and negative so that the largest comes first.
    """
    below = devices[row, level - 1] if level > 0 else 0
    least, best = 0.0, level
    for to in range(level + 1, highest + 1):
        step = devices[row, to - 1] - below
        if step > most:
            break
        saved = worth[row, to] - worth[row, level]
        less = -(((saved - step) / step / SAME_RETURN + 0.5) // 1.0)
        if saved >= 0.0 and (best == level or less < least):
            least, best = less, to
    return least, best


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
    ordered = np.asarray(rows, dtype=np.int64)
    limits = np.minimum(num_levels[ordered], most)
    own_left, is_bound = own
    group_left, group = groups or one_group(len(level))
    for position in range(len(ordered)):
        row = ordered[position]
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
