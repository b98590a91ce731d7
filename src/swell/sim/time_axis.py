"""Axes of time: how far they go, their units, and their ticks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

#: An end so many times later than the one before it is cut off.
LONG = 1.5
#: At most so large a share of all ends is.
MOST_SHARE = 0.1
#: Room after the last end that is shown.
ROOM = 1.08

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0


class TimeUnit(NamedTuple):
    name: str
    seconds: float


UNITS = (
    TimeUnit("days", DAY_S),
    TimeUnit("hours", HOUR_S),
    TimeUnit("minutes", MINUTE_S),
    TimeUnit("seconds", 1.0),
)
#: Of a unit are at least so many on an axis.
LEAST_UNITS = 4
#: Ticks of a logarithmic axis, and those of one on which fewer than `FEW` of them are.
LOG_TICKS = {
    1.0: "1 s",
    10.0: "10 s",
    MINUTE_S: "1 min",
    10 * MINUTE_S: "10 min",
    HOUR_S: "1 h",
    10 * HOUR_S: "10 h",
    100 * HOUR_S: "100 h",
    1000 * HOUR_S: "1,000 h",
}
FINE_LOG_TICKS = {
    **{float(num): f"{num} s" for num in (1, 2, 5, 10, 20, 30)},
    **{num * MINUTE_S: f"{num} min" for num in (1, 2, 5, 10, 20, 30)},
    **{num * scale * HOUR_S: f"{num * scale:,} h" for scale in (1, 10, 100, 1000) for num in (1, 2, 5)},
}
FEW = 3
#: Of the most that is shown: beyond this share an axis with 0 is logarithmic.
LINEAR_SHARE = 1 / 60


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


def unit_of(length_s: float) -> TimeUnit:
    """Return the unit in which an axis of this length is labelled."""
    return next((unit for unit in UNITS if length_s >= LEAST_UNITS * unit.seconds), UNITS[-1])


def log_ticks(least_s: float, most_s: float) -> dict[float, str]:
    """Where a logarithmic axis of time has which labels."""
    for ticks in (LOG_TICKS, FINE_LOG_TICKS):
        found = {at_s: text for at_s, text in ticks.items() if least_s <= at_s <= most_s}
        if len(found) >= FEW:
            return found
    return found or {least_s: spoken(least_s)}


def linear_until(most_s: float) -> float:
    """Up to which tick of a logarithmic axis one with 0 is linear."""
    return max([1.0, *(at_s for at_s in LOG_TICKS if at_s <= LINEAR_SHARE * most_s)])


def spoken(length_s: float) -> str:
    """`1.5 hours`"""
    unit = unit_of(length_s)
    return f"{length_s / unit.seconds:.3g} {unit.name}"
