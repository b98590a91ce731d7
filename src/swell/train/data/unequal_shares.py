"""The division of a step's samples among workers by their speeds: all of them end at the same time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

#: Shares are changed only if the slowest worker is expected to need less time by more than this part of it.
LEAST_GAIN_SHARE = 0.03


class SpeedNote(NamedTuple):
    """What a worker tells the others of its own speed and room."""

    sample_s: float = 0.0  #: seconds per sample; 0: not known
    most: int = 0  #: samples that it has room for in a step; 0: those of an equal share


NOTHING_TOLD = SpeedNote()


def shares_of(
    speeds: Sequence[float], global_batch: int, least: int, most: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the whole samples of each worker with which the slowest one ends first; None: bounds leave none.

    The result is the same on all machines: it is made of single operations on floats, and sums of integers.

    Args:
        speeds: of each worker in samples per second, above 0.
        global_batch: samples of the step.
        least: samples of a worker at least.
        most: samples of each worker at most.
    """
    if len(speeds) * least > global_batch or sum(most) < global_batch or min(most) < least:
        return None

    def done_within(time_s: float) -> list[int]:
        return [min(max(least, int(time_s * each)), bound) for each, bound in zip(speeds, most, strict=True)]

    low_s, high_s = 0.0, (global_batch + 1) / min(speeds)
    for _ in range(64):  # halvings of the interval: more than a float has bits
        middle_s = (low_s + high_s) / 2.0
        if sum(done_within(middle_s)) <= global_batch:
            low_s = middle_s
        else:
            high_s = middle_s
    shares = done_within(low_s)
    for _ in range(global_batch - sum(shares)):
        open_ranks = [rank for rank, share in enumerate(shares) if share < most[rank]]
        shares[min(open_ranks, key=lambda rank: (shares[rank] + 1) / speeds[rank])] += 1
    return tuple(shares)


def balanced(
    present: Sequence[int], sample_s: Sequence[float], least: int, most: Sequence[int]
) -> tuple[int, ...]:
    """Return shares by measured times, or the present ones where others would not be faster by enough.

    Args:
        present: samples of each worker now.
        sample_s: measured seconds per sample of each worker; 0: not known, and taken for the mean.
        least, most: see `shares_of`.
    """
    known = [1.0 / each for each in sample_s if each > 0.0]
    if not known:
        return tuple(present)
    mean = math.fsum(known) / len(known)
    speeds = [1.0 / each if each > 0.0 else mean for each in sample_s]
    shares = shares_of(speeds, sum(present), least, most)
    if shares is None or _time_s(shares, speeds) >= _time_s(present, speeds) * (1.0 - LEAST_GAIN_SHARE):
        return tuple(present)
    return shares


def _time_s(shares: Sequence[int], speeds: Sequence[float]) -> float:
    return max(share / speed for share, speed in zip(shares, speeds, strict=True))


def places_of(shares: Sequence[int], rank: int, num_global: int, least: int) -> range | None:
    """Return the places of a worker in a step, also in one that has fewer samples than the shares together.

    None: there are no shares, or a worker would have fewer than `least` samples.
    """
    if not shares:
        return None
    whole = sum(shares)
    ends = [end * num_global // whole for end in accumulate(shares, initial=0)]
    if any(end - start < least for start, end in pairwise(ends)):
        return None
    return range(ends[rank], ends[rank + 1])
