"""Who takes, and what plans take of what is free: columns, and what their numbers mean."""

from __future__ import annotations

from typing import NamedTuple

from swell.arrays import BoolArray, FloatArray, IntArray

INF = float("inf")
#: Work smaller than this share of the whole counts as done: sums of segments are not exact.
TOLERANCE_SHARE = 1e-9
#: Where that fits, a plan is made for more work than there is: for what the highest rate does in this time.
#: Else the rounding of a sum of times could put its end a moment behind the start of another plan, which
#: would have to be made again for that, and so on.
SPARE_S = 0.0001
#: Times that differ by less are the same: they are sums of others.
SAME_TIME_S = 1e-6
MOST_SEGMENTS = 16  #: a plan has at most so many
#: Stretches of one free level that are told apart; behind them the least that is free counts.
MOST_RUNS = 512
MOMENT_S = 0.05  #: no plan has a step up sooner than this

#: How a taker is planned.
AS_PLANNED, LATE, EARLY, AS_BELIEVED = 0, 1, 2, 3
#: How well its plan does its work in time: with the margin, if all goes as believed, or not.
MARGIN, JUST, BROKEN = 0, 1, 2


#: In a column of groups: of none.
NO_GROUP = -1


class Takers(NamedTuple):
    """J takers: work that is to be done by a time, and what changes cost."""

    devices: IntArray  #: (J, L) ascending
    rates: FloatArray  #: (J, L) work per second, with the margin, strictly ascending
    believed_rates: FloatArray  #: (J, L) the same as believed, no lower
    start_s: FloatArray  #: (J, L) from nothing to a level
    resize_s: FloatArray  #: (J, L) to a level from another one
    num_levels: IntArray  #: (J,) the first so many of a row count
    held: IntArray  #: (J,) level that a taker has; -1 if what it has is between two levels
    idle_s: FloatArray  #: (J,) for which it does no work from now on, for a change is under way
    #: (J,) who cannot have another level than the held one before `idle_s`; until then its devices are not
    #: free in the profile: they are given back when it has its turn
    is_bound: BoolArray
    work: FloatArray  #: (J, 2) with the margin, and at the believed rates
    until_s: FloatArray  #: (J,)


class Plans(NamedTuple):
    """What takers take: segment i of a plan lasts until the next one begins, the last one until its end."""

    grade: IntArray  #: (J,) MARGIN, JUST or BROKEN; -1 for those that had no turn
    num: IntArray  #: (J,) segments; 0: there is no plan
    starts_s: FloatArray  #: (J, MOST_SEGMENTS) the first is 0
    levels: IntArray  #: (J, MOST_SEGMENTS)
    end_s: FloatArray  #: (J,) when the last of the taken capacity is given back
    now: IntArray  #: (J,) level at time 0
    top: IntArray  #: (J,) the highest level
    change_s: FloatArray  #: (J,) when the level first differs from that of now; the end if it never does
