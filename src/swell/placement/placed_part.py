"""What a job has in one place, and may have elsewhere instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec


class PlacedPart(msgspec.Struct, frozen=True, order=True):
    """What a job has of one node or island, or of several, and may have elsewhere instead."""

    num: int
    dearness: int  #: of moving it: 0 if it does not run yet, 1, or 2 if it may not go to borrowed nodes
    job: str


def cost_of(leaving: Sequence[PlacedPart]) -> tuple[int, int]:
    """The highest dearness of these, and how many run."""
    dearness = [part.dearness for part in leaving]
    return max(dearness, default=0), sum([dear > 0 for dear in dearness])


def fewest(parts: Iterable[PlacedPart], num: int) -> Sequence[PlacedPart] | None:
    """Fewest parts that have `num` devices together, of the lowest dearness possible; None: too few.

    The last part is the smallest that suffices.
    """
    for dearness in range(3):
        left = sorted([part for part in parts if part.dearness <= dearness])
        if sum([part.num for part in left]) >= num:
            break
    else:
        return None
    chosen = []
    while num > 0:
        chosen.append(next((part for part in left if part.num >= num), left[-1]))
        left.remove(chosen[-1])
        num -= chosen[-1].num
    return chosen
