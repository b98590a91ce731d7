"""The linear relaxation of the multiple-choice knapsack: a price of a device, and whole options at it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import part, suited
from swell.solvers.knapsack_hulls import Hulls


class RelaxedOptions(NamedTuple):
    """Options that are each the best at a price, and fit."""

    option: IntArray  #: (J,) no other option of the taker is worth more after `price` a device; -1: none
    price: float  #: the multiplier of the devices; 0 if there are enough of them
    left: int  #: devices that these options leave; price * left is what the optimum may be worth more


def relax(hulls: Hulls, order: IntArray, num_devices: int) -> RelaxedOptions | None:
    """None if what must be had exceeds the devices.

    The price is found by halving, so steps of hulls need no sorting: each round looks only at the corners
    whose slope is not decided yet.

    References: Kellerer, Pferschy, Pisinger, 2004, section 11.2: steps of all hulls in order of their slope,
        up to the first that does not fit; Dyer, 1984, Zemel, 1984: the same without sorting.
    """
    left = num_devices - int(hulls.devices[hulls.starts].sum())
    if left < 0:
        return None
    highest = hulls.ends - 1
    wanted = int(hulls.devices[highest].sum() - hulls.devices[hulls.starts].sum())
    if wanted <= left:
        return RelaxedOptions(hulls.option[highest], 0.0, left - wanted)
    corner = np.zeros(len(order), dtype=np.int64)
    run = suited(_fill, len(hulls.option))
    price, left = run(hulls.starts, hulls.ends, hulls.devices, hulls.slope, order, left, corner)
    return RelaxedOptions(hulls.option[corner], price, int(left))


def _fill(
    starts: IntArray,
    ends: IntArray,
    devices: IntArray,
    slope: FloatArray,
    order: IntArray,
    left: int,
    corner: IntArray,
) -> tuple[float, int]:
    """Write the corner of each taker; the price, and what is left of the `left` devices."""
    # Corners with a slope above `high` are taken, those up to `low` are not: `sure` and `most` of each taker.
    sure, most = starts.copy(), ends - 1
    low, high = 0.0, 0.0
    for row in range(len(starts)):
        if ends[row] > starts[row] + 1:
            high = max(high, slope[starts[row] + 1])
    while _num_open(sure, most) > 1:
        price = low + (high - low) / 2.0
        if price <= low or price >= high:
            break  # all have one slope: ties
        last = np.empty_like(sure)
        wanted = 0
        for row in range(len(starts)):
            last[row] = _last_above(price, slope, sure[row], most[row])
            wanted += devices[last[row]] - devices[starts[row]]
        if wanted > left:
            low, most = price, last
        else:
            high, sure = price, last
    price = 0.0
    for row in range(len(starts)):
        left -= devices[sure[row]] - devices[starts[row]]
        if most[row] > sure[row]:
            price = max(price, slope[sure[row] + 1])
    for row in order:
        corner[row] = sure[row]
        while corner[row] < most[row] and devices[corner[row] + 1] - devices[corner[row]] <= left:
            left -= devices[corner[row] + 1] - devices[corner[row]]
            corner[row] += 1
    return price, left


@part
def _num_open(sure: IntArray, most: IntArray) -> int:
    """Corners of which it is not known yet whether they are taken."""
    num_open = 0
    for row in range(len(sure)):
        num_open += most[row] - sure[row]
    return num_open


@part
def _last_above(price: float, slope: FloatArray, below: int, above: int) -> int:
    """The last corner whose slope is more than the price; that at `below` is taken."""
    while below < above:
        middle = (below + above + 1) // 2
        if slope[middle] > price:
            below = middle
        else:
            above = middle - 1
    return below
