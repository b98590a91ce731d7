"""Exactly the best options of many takers at once, where what each gains depends on its own option only."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray

#: In place of an option: nothing at all.
NO_OPTION = -1
#: Values that are closer than so many times the largest one are equal.
SAME_SHARE = 1e-15


class Best(NamedTuple):
    """The optimum of a multiple-choice knapsack problem."""

    option: IntArray  #: (J,) index of each taker's option; NO_OPTION for none, and where there is no answer
    value: float  #: sum of its values; -inf: there is no answer, for what must be had exceeds the devices

    @property
    def is_possible(self) -> bool:
        """There is an answer."""
        return self.value > -np.inf


def best_options(
    starts: IntArray,
    devices: IntArray,
    value: FloatArray,
    nothing: FloatArray,
    num_devices: int,
    order: IntArray | None = None,
) -> Best:
    """The option of each taker with which the sum of values is the largest that the devices allow.

    The multiple-choice knapsack problem: maximise sum_j V_j(n_j) subject to sum_j n_j <= `num_devices`.
    A price of a device makes takers independent of each other. What each takes at the best price, filled
    greedily, is a first answer, and the price a bound; options that lose more than the gap between the two
    are in no better answer. Plain dynamic programming divides the devices among the others, which are few.

    Args:
        starts: (J + 1,) a taker's options are those from starts[row] to starts[row + 1].
        devices: (O,) whole numbers > 0, ascending within a taker.
        value: (O,) any numbers; -inf: the taker may not have this option.
        nothing: (J,) value of having no option; -inf: the taker must have one.
        order: (J,) rows, those first that win ties; None: as they come.

    Complexity: O(O) for each price that is tried, and O(O N) for the options O and devices N that are left.

    References: Kellerer, Pferschy, Pisinger, "Knapsack Problems", 2004, sections 11.2 (relaxation), 11.4
        (reduction by bounds) and 11.5 (dynamic programming).
    """
    num = len(nothing)
    no_answer = Best(np.full(num, NO_OPTION, dtype=np.int64), -np.inf)
    if not num:
        return Best(no_answer.option, 0.0)
    choices = _choices(starts, devices, value, nothing, num_devices)
    least = choices.first(choices.worth > -np.inf)
    if len(least) < num or choices.devices[least].sum() > num_devices:
        return no_answer
    chosen, price = _at_best_price(choices, least, num_devices)
    if price > 0.0:
        _improve(choices, chosen, price, num_devices, np.arange(num) if order is None else order)
    option = chosen - choices.starts - 1 + starts[:-1]
    return Best(np.where(chosen == choices.starts, NO_OPTION, option), float(choices.worth[chosen].sum()))


class _TakerOptions(NamedTuple):
    """What takers can choose: nothing, then their options."""

    starts: IntArray  #: (J,) of each taker: nothing
    ends: IntArray  #: (J,)
    row: IntArray  #: (C,)
    devices: IntArray  #: (C,)
    worth: FloatArray  #: (C,) -inf: it cannot be had
    same: float  #: values that differ by no more are equal

    def first(self, is_one: BoolArray) -> IntArray:
        """(R,) of each taker that has any such choice (C,), the first one."""
        places = np.flatnonzero(is_one)
        first: IntArray = places[np.flatnonzero(np.diff(self.row[places], prepend=-1))]
        return first

    def losses(self, price: float) -> FloatArray:
        """(C,) what each choice loses at a price of a device beside its taker's best one."""
        net = self.worth - price * self.devices
        losses: FloatArray = np.maximum.reduceat(net, self.starts)[self.row] - net
        return losses


def _choices(
    starts: IntArray, devices: IntArray, value: FloatArray, nothing: FloatArray, num_devices: int
) -> _TakerOptions:
    num = np.arange(len(nothing))
    all_devices = np.insert(devices, starts[:-1], 0)
    worth = np.insert(value.astype(np.float64), starts[:-1], nothing)
    worth[all_devices > num_devices] = -np.inf
    scale = float(np.abs(worth[worth > -np.inf]).max(initial=0.0))
    row = np.repeat(num, np.diff(starts) + 1)
    return _TakerOptions(starts[:-1] + num, starts[1:] + num + 1, row, all_devices, worth, SAME_SHARE * scale)


def _at_best_price(choices: _TakerOptions, least: IntArray, num_devices: int) -> tuple[IntArray, float]:
    """(J,) choices that fit and are each the best at a price of a device, at which others are as good.

    0 is the price where devices suffice. Else it lies between choices with too many devices and choices that
    fit: a price at which both are worth the same, until none are worth more than they at it.
    """
    many, few = choices.first(choices.losses(0.0) == 0.0), least
    if choices.devices[many].sum() <= num_devices:
        return many, 0.0
    while True:
        num_many, num_few = int(choices.devices[many].sum()), int(choices.devices[few].sum())
        price = float((choices.worth[many] - choices.worth[few]).sum()) / (num_many - num_few)
        loss = choices.losses(price)
        chosen = choices.first(loss == 0.0)
        num = int(choices.devices[chosen].sum())
        if (loss[few] <= choices.same).all() or num in (num_many, num_few):
            return few, price
        many, few = (chosen, few) if num > num_devices else (many, chosen)


def _improve(
    choices: _TakerOptions, chosen: IntArray, price: float, num_devices: int, order: IntArray
) -> None:
    """Change choices (J,) that fit, and are each the best at a price, to the best ones that fit."""
    loss, same = choices.losses(price), choices.same
    _fill(choices, chosen, loss <= same, num_devices, order)
    left = num_devices - int(choices.devices[chosen].sum())
    # What is lost of the bound if one taker or none has another choice.
    still_left = left - (choices.devices - choices.devices[chosen][choices.row])
    gap = float(np.where(still_left >= 0, loss + price * still_left, np.inf).min())
    if gap <= same:
        return
    is_open = loss <= gap + same
    is_open[chosen] = True
    rows = order[np.bincount(choices.row[is_open], minlength=len(chosen))[order] > 1]
    own = [
        choices.starts[row] + np.flatnonzero(is_open[choices.starts[row] : choices.ends[row]]) for row in rows
    ]
    divided = _divide(choices, own, left + int(choices.devices[chosen[rows]].sum()))
    if choices.worth[divided].sum() > choices.worth[chosen[rows]].sum() + same:
        chosen[rows] = divided


def _fill(
    choices: _TakerOptions, chosen: IntArray, is_tied: BoolArray, num_devices: int, order: IntArray
) -> None:
    """Give takers, in order, the largest of their choices that are as good (C,), as far as devices last."""
    left = num_devices - int(choices.devices[chosen].sum())
    more = np.where(is_tied, choices.devices - choices.devices[chosen][choices.row], 0)
    can_grow = np.maximum.reduceat(more, choices.starts) > 0
    for row in order[can_grow[order]].tolist():
        own = slice(choices.starts[row], choices.ends[row])
        extra = np.where(more[own] <= left, more[own], 0)
        place = int(extra.argmax())
        if extra[place] > 0:
            chosen[row] = choices.starts[row] + place
            left -= int(extra[place])


def _divide(choices: _TakerOptions, own: list[IntArray], num_devices: int) -> IntArray:
    """(R,) the best of some choices of each taker, by plain dynamic programming; the first ones fit."""
    spare = num_devices - sum(int(choices.devices[places[0]]) for places in own)
    best, picks = np.zeros(spare + 1), []  # with so many spare devices or fewer
    for places in own:
        offers = np.full((len(places), spare + 1), -np.inf)
        for offer, extra, worth in zip(
            offers, choices.devices[places] - choices.devices[places[0]], choices.worth[places], strict=True
        ):
            offer[extra:] = best[: max(spare + 1 - extra, 0)] + worth
        picks.append(offers.argmax(axis=0))
        best = offers.max(axis=0)
    chosen = np.zeros(len(own), dtype=np.int64)
    for at in range(len(own) - 1, -1, -1):
        places = own[at]
        chosen[at] = places[picks[at][spare]]
        spare -= int(choices.devices[chosen[at]] - choices.devices[places[0]])
    return chosen
