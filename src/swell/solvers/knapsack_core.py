"""Closes the gap between an answer to a knapsack and its bound."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import part, suited
from swell.solvers.knapsack_relaxation import RelaxedOptions

#: Looks at partial answers.
MAX_WORK = 2_000_000
#: Rows of a table of partial answers: devices beyond the price's, the answer before, the candidate added.
EXTRA, BEFORE, PICK = 0, 1, 2
#: Losses that are closer than so many times the largest value are a tie: they are differences of values.
SAME_LOSS = 1e-15


class KnapsackProblem(NamedTuple):
    """The problem; see `best_options`."""

    starts: IntArray
    devices: IntArray
    value: FloatArray
    nothing: FloatArray


class _Candidates(NamedTuple):
    """Other options than the relaxed ones, which a better answer may have: some for each of some takers."""

    row: IntArray  #: (R,) takers, those first that lose least
    starts: IntArray  #: (R + 1,)
    option: IntArray  #: (C,)
    devices: IntArray  #: (C,) more than the relaxed option has
    loss: FloatArray  #: (C,) of value at the price, >= 0


def improve(choices: KnapsackProblem, relaxed: RelaxedOptions, order: IntArray, max_work: int) -> bool:
    """Change `relaxed.option` to the best answer; whether it is proven that there is none better.

    What is lost of the bound is each option's own loss, and the price of each device that stays free.
    """
    loss = np.empty(len(choices.devices))
    loss_of_nothing = np.empty(len(relaxed.option))
    chosen_devices = np.where(relaxed.option < 0, 0, choices.devices[relaxed.option])
    chosen_value = np.where(relaxed.option < 0, choices.nothing, choices.value[relaxed.option])
    surplus = chosen_value - relaxed.price * chosen_devices
    run = suited(_list_losses, len(choices.devices))
    scale, least, row, option = run(
        *choices, surplus, chosen_devices, relaxed.price, relaxed.left, order, loss, loss_of_nothing
    )
    tie = SAME_LOSS * scale
    candidates = _candidates(choices, relaxed, chosen_devices, loss, loss_of_nothing, least - tie, order)
    picked = np.full(len(candidates.row), -1, dtype=np.int64)
    search = suited(_search, len(choices.devices))
    is_proven = search(
        candidates.starts,
        candidates.devices,
        candidates.loss,
        relaxed.price,
        relaxed.left,
        least,
        tie,
        max_work,
        picked,
    )
    is_changed = picked >= 0
    if is_changed.any():
        relaxed.option[candidates.row[is_changed]] = candidates.option[picked[is_changed]]
    elif row >= 0:
        relaxed.option[row] = option
    return bool(is_proven)


def _candidates(
    choices: KnapsackProblem,
    relaxed: RelaxedOptions,
    chosen_devices: IntArray,
    loss: FloatArray,
    loss_of_nothing: FloatArray,
    gap: float,
    order: IntArray,
) -> _Candidates:
    """What may be in an answer that loses less than `gap`."""
    num = len(relaxed.option)
    places = np.empty((2, len(loss) + num), dtype=np.int64)
    all_losses = np.empty(places.shape[1])
    run = suited(_list_candidates, len(loss))
    count = run(choices.starts, loss, loss_of_nothing, relaxed.option, gap, places, all_losses)
    row, option, losses = places[0, :count], places[1, :count], all_losses[:count]
    devices = np.where(option < 0, 0, choices.devices[option]) - chosen_devices[row]
    rank = np.empty(num, dtype=np.int64)
    rank[order] = np.arange(num)
    least = np.full(num, np.inf)
    np.minimum.at(least, row, losses)
    by = np.lexsort((option, rank[row], least[row]))
    row, option, losses, devices = row[by], option[by], losses[by], devices[by]
    begins = np.flatnonzero(np.diff(row, prepend=-1) != 0)
    return _Candidates(row[begins], np.append(begins, len(row)), option, devices, losses)


def _list_losses(
    starts: IntArray,
    devices: IntArray,
    value: FloatArray,
    nothing: FloatArray,
    surplus: FloatArray,
    chosen_devices: IntArray,
    price: float,
    left: int,
    order: IntArray,
    loss: FloatArray,
    loss_of_nothing: FloatArray,
) -> tuple[float, float, int, int]:
    """Write what each option loses at the price.

    Returns: the largest value, and the least loss of an answer in which one taker has another option, with
        that taker and option; -1 for both if it is best that none has.
    """
    scale, least, least_row, least_option = 0.0, price * left, -1, -1
    for row in order:
        loss_of_nothing[row] = max(surplus[row] - nothing[row], 0.0)
        for option in range(starts[row], starts[row + 1]):
            lost = max(surplus[row] - (value[option] - price * devices[option]), 0.0)
            loss[option] = lost
            if lost == np.inf:
                continue
            scale = max(scale, abs(value[option]))
            still_left = left - (devices[option] - chosen_devices[row])
            if still_left >= 0 and lost + price * still_left < least:
                least, least_row, least_option = lost + price * still_left, row, option
    return scale, least, least_row, least_option


def _list_candidates(
    starts: IntArray,
    loss: FloatArray,
    loss_of_nothing: FloatArray,
    chosen: IntArray,
    gap: float,
    places: IntArray,
    losses: FloatArray,
) -> int:
    """Write taker, option and loss of each; how many they are."""
    count = 0
    for row in range(len(chosen)):
        if chosen[row] >= 0 and loss_of_nothing[row] < gap:
            places[0, count], places[1, count], losses[count] = row, -1, loss_of_nothing[row]
            count += 1
        for option in range(starts[row], starts[row + 1]):
            if option != chosen[row] and loss[option] < gap:
                places[0, count], places[1, count], losses[count] = row, option, loss[option]
                count += 1
    return count


def _search(
    starts: IntArray,
    devices: IntArray,
    loss: FloatArray,
    price: float,
    left: int,
    best_loss: float,
    tie: float,
    max_work: int,
    picked: IntArray,
) -> bool:
    """Dynamic programming over takers and the devices that they have more than at the price.

    A partial answer is a whole one, too: the takers that are still to come keep what they have. So each one
    that loses less than `best_loss` lowers the loss from which on others are dropped.

    Writes the candidate of each taker, -1 for what it has; -1 for all where none loses less than the
    `best_loss` that it began with. Returns: whether the best is proven.
    """
    num = len(starts) - 1
    up, down = np.zeros(num + 1, dtype=np.int64), np.zeros(num + 1, dtype=np.int64)
    for level in range(num - 1, -1, -1):
        most, least = 0, 0
        for candidate in range(starts[level], starts[level + 1]):
            most, least = max(most, devices[candidate]), min(least, devices[candidate])
        up[level], down[level] = up[level + 1] + most, down[level + 1] - least
    state, lost = np.empty((3, max_work + 2), dtype=np.int64), np.empty(max_work + 2)
    state[:, 0], lost[0] = -1, 0.0
    state[EXTRA, 0] = 0
    # One cell for each number of extra devices that a level may reach.
    cell, cell_lost = np.zeros((3, up[0] + down[0] + 1), dtype=np.int64), np.full(up[0] + down[0] + 1, np.inf)
    begin, end, best, work = 0, 1, 0, 0
    for level in range(num):
        candidates = range(starts[level], starts[level + 1])
        work += (end - begin) * (len(candidates) + 1)
        if work > max_work:
            break
        lowest, highest = cell_lost.size, -1
        for at in range(begin, end):
            for candidate in range(starts[level] - 1, starts[level + 1]):
                extra, sum_lost, pick = state[EXTRA, at], lost[at], -1
                if candidate >= starts[level]:
                    extra, sum_lost, pick = extra + devices[candidate], sum_lost + loss[candidate], candidate
                idle = max(left - extra - up[level + 1], 0)
                to = extra + down[0]
                is_too_much = extra - down[level + 1] > left or sum_lost + price * idle >= best_loss - tie
                if is_too_much or sum_lost >= cell_lost[to]:
                    continue
                cell_lost[to] = sum_lost
                cell[EXTRA, to], cell[BEFORE, to], cell[PICK, to] = extra, at, pick
                lowest, highest = min(lowest, to), max(highest, to)
        work += max(highest - lowest, 0)
        begin = end
        end = _collect(cell, cell_lost, lowest, highest, price, state, lost, begin)
        for at in range(begin, end):
            idle = left - state[EXTRA, at]
            if idle >= 0 and lost[at] + price * idle < best_loss - tie:
                best, best_loss = at, lost[at] + price * idle
    row = num - 1
    while best > 0:
        pick = state[PICK, best]
        if pick >= 0:
            while starts[row] > pick:
                row -= 1
            picked[row] = pick
        best = state[BEFORE, best]
    return work <= max_work


@part
def _collect(
    cell: IntArray,
    cell_lost: FloatArray,
    lowest: int,
    highest: int,
    price: float,
    state: IntArray,
    lost: FloatArray,
    end: int,
) -> int:
    """Empty the cells into the states from `end` on; those with fewer devices and more value drop others."""
    richest = -np.inf
    for at in range(lowest, highest + 1):
        value = price * cell[EXTRA, at] - cell_lost[at]
        if value > richest:  # -inf where the cell is empty
            richest = value
            state[:, end], lost[end] = cell[:, at], cell_lost[at]
            end += 1
        cell_lost[at] = np.inf
    return end
