"""When does each of several tasks end, if the first ones in a fixed order always take what they can use?

Changes take time: a task that starts, or goes on at another size, does no work for a while.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray

#: An end that is later by less is not later: sums are not exact.
NO_LATER_S = 1e-6


class Tasks(NamedTuple):
    """J tasks in columns. Levels are numbered from 1 by ascending size; level 0 is nothing."""

    devices: IntArray  #: (J, L) of levels 1, 2, ...; the first `num_levels` of a row count
    rates: FloatArray  #: (J, L) of work per second
    num_levels: IntArray  #: (J,)
    work: FloatArray  #: (J,) left to do
    held: IntArray  #: (J,) level that each has now
    pause_s: FloatArray  #: (J,) for which it does no work from now on, if it keeps its level
    fixed_s: FloatArray  #: (J,) for which its level cannot change
    start_s: FloatArray  #: (J, L) for which it does no work from a start at each level on
    change_s: FloatArray  #: (J, L) for which it does no work from a change to each level on


class OccupiedDevices(NamedTuple):
    """Devices that no task can have before some time."""

    devices: IntArray  #: (B,)
    until_s: FloatArray  #: (B,) from now


def ends_in_order(tasks: Tasks, rows: IntArray, num_devices: int, occupied: OccupiedDevices) -> FloatArray:
    """Ends in seconds from now of `rows`: in this order each has the highest of its levels that fits.

    Levels are dealt out again whenever a task ends. What is due to one but still held by another, whose level
    cannot change yet, is waited for. So no task delays one before it, save by its present level. One that
    fits nowhere ends at infinity.

    Complexity: O(n (m + k) L) for n rows, of which m run at a time and k do not fit on what these leave.
    """
    ends_s = np.full(len(rows), np.inf)
    _run(tasks, rows, num_devices, occupied, ends_s.copy(), ends_s)
    return ends_s


def ends_if_in_time(
    tasks: Tasks, rows: IntArray, num_devices: int, occupied: OccupiedDevices, latest_s: FloatArray
) -> FloatArray | None:
    """`ends_in_order`; None, and sooner, if one of `rows` ends later than its `latest_s` (n,)."""
    ends_s = np.full(len(rows), np.inf)
    is_in_time = _run(tasks, rows, num_devices, occupied, latest_s, ends_s)
    return ends_s if is_in_time else None


class _Turn(NamedTuple):
    """How far `rows` are: n places in order."""

    level: IntArray  #: (n,)
    due: IntArray  #: (n,) level that each is to have
    left: FloatArray  #: (n,) work
    pause_s: FloatArray  #: (n,) left of a pause
    fixed_s: FloatArray  #: (n,) its level cannot change before
    least: IntArray  #: (n,) devices of the smallest size from this place on
    after: IntArray  #: (n + 1,) the next place that has not ended; that of n is the first one
    before: IntArray  #: (n + 1,)
    queue: IntArray  #: (n,) places that are due a level, in order; the first so many count
    running: IntArray  #: (n,) places that have a level; the first so many count


def _run(
    tasks: Tasks,
    rows: IntArray,
    num_devices: int,
    occupied: OccupiedDevices,
    latest_s: FloatArray,
    ends_s: FloatArray,
) -> bool:
    """Write the ends; False as soon as one is too late."""
    num, clock_s = len(rows), 0.0
    turn = _first_turn(tasks, rows)
    num_running = _list_held(turn)
    while turn.after[num] < num and clock_s <= latest_s[turn.after[num]] + NO_LATER_S:
        num_due = _list_due(tasks, rows, turn, num_running, num_devices)
        free = num_devices - _num_occupied(occupied, clock_s)
        num_running = _deal(tasks, rows, turn, num_running, num_due, free, clock_s)
        next_s = _next_event_s(tasks, rows, turn, num_running, occupied, clock_s)
        if next_s == np.inf:
            break
        num_running = _train(tasks, rows, turn, num_running, clock_s, next_s, ends_s)
        clock_s = next_s
    return bool((ends_s <= latest_s + NO_LATER_S).all())


def _first_turn(tasks: Tasks, rows: IntArray) -> _Turn:
    num = len(rows)
    after, before = np.arange(1, num + 2), np.arange(-1, num)
    after[num], before[0] = 0, num
    least, smallest = np.empty(num, dtype=np.int64), np.iinfo(np.int64).max
    for place in range(num - 1, -1, -1):
        if tasks.num_levels[rows[place]] > 0:
            smallest = min(smallest, tasks.devices[rows[place], 0])
        least[place] = smallest
    return _Turn(
        level=tasks.held[rows],
        due=np.zeros(num, dtype=np.int64),
        left=tasks.work[rows],
        pause_s=tasks.pause_s[rows],
        fixed_s=tasks.fixed_s[rows],
        least=least,
        after=after,
        before=before,
        queue=np.empty(num, dtype=np.int64),
        running=np.empty(num, dtype=np.int64),
    )


def _list_held(turn: _Turn) -> int:
    """Write the places that have a level; returns how many."""
    num_running = 0
    for place in range(len(turn.level)):
        if turn.level[place] > 0:
            turn.running[num_running] = place
            num_running += 1
    return num_running


def _num_occupied(occupied: OccupiedDevices, clock_s: float) -> int:
    num = 0
    for at in range(len(occupied.devices)):
        if occupied.until_s[at] > clock_s:
            num += occupied.devices[at]
    return num


def _list_due(tasks: Tasks, rows: IntArray, turn: _Turn, num_running: int, left: int) -> int:
    """Write what is due: in order, to each the highest level that fits; returns to how many."""
    for place in turn.running[:num_running]:
        turn.due[place] = 0
    num_due, place = 0, turn.after[len(rows)]
    while place < len(rows) and left >= turn.least[place]:
        level = tasks.num_levels[rows[place]]
        while level > 0 and tasks.devices[rows[place], level - 1] > left:
            level -= 1
        if level > 0:
            turn.due[place] = level
            turn.queue[num_due] = place
            num_due += 1
            left -= tasks.devices[rows[place], level - 1]
        place = turn.after[place]
    return num_due


def _deal(
    tasks: Tasks, rows: IntArray, turn: _Turn, num_running: int, num_due: int, free: int, clock_s: float
) -> int:
    """Give what is due as far as it can be had, growths before starts; returns how many have a level."""
    num_on = 0
    for place in turn.running[:num_running]:
        if turn.fixed_s[place] <= clock_s and turn.due[place] < turn.level[place]:
            _change(tasks, rows, turn, place, turn.due[place])
        if turn.level[place] > 0:
            free -= tasks.devices[rows[place], turn.level[place] - 1]
            turn.running[num_on] = place
            num_on += 1
    for place in turn.queue[:num_due]:
        level, due, row = turn.level[place], turn.due[place], rows[place]
        if turn.fixed_s[place] <= clock_s and 0 < level < due:
            more = tasks.devices[row, due - 1] - tasks.devices[row, level - 1]
            if more <= free:
                _change(tasks, rows, turn, place, due)
                free -= more
    for place in turn.queue[:num_due]:
        num_devices = tasks.devices[rows[place], turn.due[place] - 1]
        if turn.level[place] == 0 and num_devices <= free:
            _change(tasks, rows, turn, place, turn.due[place])
            free -= num_devices
            turn.running[num_on] = place
            num_on += 1
    return num_on


def _change(tasks: Tasks, rows: IntArray, turn: _Turn, place: int, level: int) -> None:
    if turn.level[place] == 0:
        turn.pause_s[place] = tasks.start_s[rows[place], level - 1]
    elif level > 0:
        turn.pause_s[place] += tasks.change_s[rows[place], level - 1]
    turn.level[place] = level


def _next_event_s(
    tasks: Tasks, rows: IntArray, turn: _Turn, num_running: int, occupied: OccupiedDevices, clock_s: float
) -> float:
    """When the next task ends, or devices can be had that could not; inf if neither will be."""
    next_s = np.inf
    for place in turn.running[:num_running]:
        rate = tasks.rates[rows[place], turn.level[place] - 1]
        next_s = min(next_s, clock_s + turn.pause_s[place] + turn.left[place] / rate)
        if turn.fixed_s[place] > clock_s:
            next_s = min(next_s, turn.fixed_s[place])
    for until_s in occupied.until_s:
        if until_s > clock_s:
            next_s = min(next_s, until_s)
    return next_s


def _train(
    tasks: Tasks,
    rows: IntArray,
    turn: _Turn,
    num_running: int,
    clock_s: float,
    next_s: float,
    ends_s: FloatArray,
) -> int:
    """Let time pass; writes the ends and returns how many run on."""
    num_on, step_s = 0, next_s - clock_s
    for place in turn.running[:num_running]:
        rate = tasks.rates[rows[place], turn.level[place] - 1]
        if clock_s + turn.pause_s[place] + turn.left[place] / rate <= next_s:
            ends_s[place] = next_s
            turn.after[turn.before[place]] = turn.after[place]
            turn.before[turn.after[place]] = turn.before[place]
        else:
            turn.left[place] -= rate * max(step_s - turn.pause_s[place], 0.0)
            turn.pause_s[place] = max(turn.pause_s[place] - step_s, 0.0)
            turn.running[num_on] = place
            num_on += 1
    return num_on
