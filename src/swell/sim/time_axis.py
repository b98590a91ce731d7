"""How far an axis of time goes."""

from __future__ import annotations

from collections.abc import Iterable

#: An end so many times later than the one before it is cut off.
LONG = 1.5
#: At most so large a share of all ends is.
MOST_SHARE = 0.1
#: Room after the last end that is shown.
ROOM = 1.08


def shown_until(ends: Iterable[float]) -> float:
    """The end of the axis: the last one of all, unless few are much later than the others. 0 for none."""
    ordered = sorted(ends)
    if not ordered:
        return 0.0
    for number in range(max(1, int(MOST_SHARE * len(ordered))), 0, -1):
        rest, late = ordered[:-number], ordered[-number:]
        if rest and late[0] > LONG * ROOM * rest[-1] > 0.0:
            return ROOM * rest[-1]
    return ordered[-1]
