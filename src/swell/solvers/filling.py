"""Progressive filling: one after the other, takers take what their plans need of the free capacity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.solvers.profile.courses import PlanRows, TakerRows, rows_of
from swell.solvers.profile.fill import GroupRows, fill_in_order, pay_in_order, take_beyond
from swell.solvers.profile.plans import (
    GROUP_ROOM,
    MOST_SEGMENTS,
    NO_GROUP,
    PAY_ROOM,
    STRETCH_ROOM,
    TAKE_ROOM,
    FreeSegments,
    GroupedSegments,
    Plans,
    Takers,
)
from swell.solvers.profile.segments import Blocks, take_now, take_what_is_free, write_least

WIDTH = 32  #: segments a block has at most

#: Takers for which there is a block from the start: a block has the changes of about twice as many.
BLOCK_TAKERS = 8
EMPTY: IntArray = np.zeros(0, dtype=np.int64)
NONE_EXEMPT: BoolArray = np.zeros(0, dtype=bool)


class FreeProfile:
    """Free devices over [0, inf), what takers have of them, and how much groups of takers may have together.

    What a group may have is a profile of its own. Who is in one takes of both: free for it is the least of
    both at each time.

    Complexity: a taker's search visits each block of segments once a level. A taker in a group takes one pass
        over the segments of both profiles more.
    References: ElasticFlow, section 4.1, Algorithm 1.
    """

    def __init__(
        self, num_devices: int, num_takers: int, group: IntArray = EMPTY, of_group: Iterable[FreeProfile] = ()
    ) -> None:
        """So many devices are free for ever.

        Args:
            num_takers: about how many there will be.
            group: (J,) where the profile of each taker's group is in `of_group`, or NO_GROUP; empty: no taker
                is in any.
        """
        self.columns = columns = no_segments(4 + PAY_ROOM + num_takers // BLOCK_TAKERS)
        columns.num_blocks[0] = columns.used[0] = 1  # one segment, from now on
        columns.free[0, 0] = columns.least[0] = columns.most[0] = num_devices
        self._of_group = list(of_group)
        self._group = group if self._of_group else EMPTY

    def copy(self) -> FreeProfile:
        """The same capacity, to try something on."""
        twin = object.__new__(FreeProfile)
        twin.columns = FreeSegments._make(map(np.ndarray.copy, self.columns))
        twin._of_group = [profile.copy() for profile in self._of_group]
        twin._group = self._group
        return twin

    def raised(self, num_devices: int) -> FreeProfile:
        """A copy with so many more devices at all times, but none more for a group."""
        twin = self.copy()
        columns = twin.columns
        blocks = columns.order[: columns.num_blocks[0]]
        columns.free[blocks] += num_devices
        columns.least[blocks] += num_devices
        columns.most[blocks] += num_devices
        return twin

    def least_with(self, other: FreeProfile) -> FreeProfile:
        """What is free in both, to plan for a few takers."""
        num_segments = self._num_segments + other._num_segments
        least = FreeProfile(0, 0)
        least.columns = no_segments(num_segments // (WIDTH // 2) + 8 * MOST_SEGMENTS)
        write_least(Blocks(self.columns), Blocks(other.columns), Blocks(least.columns))
        return least

    @property
    def _num_segments(self) -> int:
        columns = self.columns
        return int(columns.used[columns.order[: columns.num_blocks[0]]].sum())

    def _segments(self) -> tuple[FloatArray, IntArray]:
        """(S,) times from which on (S,) devices are free."""
        columns = self.columns
        blocks = columns.order[: columns.num_blocks[0]]
        is_used = np.arange(WIDTH) < columns.used[blocks, None]
        return columns.starts_s[blocks][is_used], columns.free[blocks][is_used]

    @property
    def num_free_now(self) -> int:
        """Devices that are free at time 0."""
        return int(self.columns.free[self.columns.order[0], 0])

    def free_device_s(self, until_s: float) -> float:
        """Device-seconds that are free from now until then."""
        starts_s, free = self._segments()
        ends_s = np.minimum([*starts_s[1:], np.inf], until_s)
        return float((free * np.maximum(ends_s - starts_s, 0.0)).sum())

    def free_device_s_of_group(self, taker: int, until_s: float) -> float:
        """Device-seconds of the taker's group that are free from now until then; inf if it is in none."""
        group = int(self._group[taker]) if self._of_group else NO_GROUP
        return math.inf if group == NO_GROUP else self._of_group[group].free_device_s(until_s)

    def in_groups(self, rows: IntArray) -> BoolArray:
        """(n,) who is in a group."""
        if not self._of_group:
            return np.zeros(len(rows), dtype=bool)
        is_in: BoolArray = self._group[rows] != NO_GROUP
        return is_in

    def take_now(self, num_devices: IntArray, until_s: FloatArray) -> None:
        """So many (n,) are not free from now until (n,) then; what groups may have stays as it is."""
        serve(
            len(until_s),
            lambda rest: take_now(Blocks(self.columns), num_devices[rest], until_s[rest]),
            [self],
            STRETCH_ROOM,
        )

    def take_of_groups(self, num_devices: IntArray, until_s: FloatArray, rows: IntArray) -> None:
        """So many (n,) of what their groups may have are not free from now until (n,) then."""
        for group, profile in enumerate(self._of_group):
            is_own = self._group[rows] == group
            profile.take_now(num_devices[is_own], until_s[is_own])

    def take_what_is_free(self, num_devices: IntArray, until_s: FloatArray, rows: IntArray) -> BoolArray:
        """(n,) whether so many (n,) are free for each from now until (n,) then; if so, they are taken."""
        is_free = np.zeros(len(rows), dtype=bool)
        for run, own in self._runs(rows):
            profile = self if own is None else self.least_with(own)
            is_free[run] = profile._take_free(num_devices[run], until_s[run])
            if own is not None and is_free[run].all():
                self.take_now(num_devices[run], until_s[run])
                own.take_now(num_devices[run], until_s[run])
        return is_free

    def _take_free(self, num_devices: IntArray, until_s: FloatArray) -> BoolArray:
        """The same without regard to groups."""
        is_free = np.zeros(len(num_devices), dtype=bool)
        serve(
            len(is_free),
            lambda rest: take_what_is_free(
                Blocks(self.columns), num_devices[rest], until_s[rest], is_free[rest]
            ),
            [self],
            STRETCH_ROOM,
        )
        return is_free

    def fill(
        self,
        takers: Takers,
        plans: Plans,
        rows: IntArray,
        how: IntArray | int,
        is_late_served: bool = False,
        worst: IntArray = EMPTY,
        exempt: BoolArray = NONE_EXEMPT,
    ) -> int:
        """Each taker in order takes what its plan needs; see `fill_in_order`.

        Args:
            how: one for all, or (n,) one for each of `rows`.
            worst: (J,) grades; empty: none is too bad.
            exempt: (J,) takers that may have more than is free for their group; empty: none.

        Returns: how many of `rows` were served: fewer than all only if the next one's grade is too bad.
        """
        told, profiles = (rows_of(takers), PlanRows(plans)), [self, *self._of_group]
        ways = np.empty(len(rows), dtype=np.int64)
        ways[:] = how

        def fill_more(rest: slice) -> int:
            groups = NO_GROUPS
            if self._of_group:
                own = [profile.columns for profile in self._of_group]
                most = len(self.columns.order) + max(len(columns.order) for columns in own)
                groups = GroupedSegments(own, self._group, exempt, no_segments(2 * most + GROUP_ROOM))
            free, of_groups = Blocks(self.columns), GroupRows(groups)
            return fill_in_order(free, of_groups, *told, rows[rest], ways[rest], worst, is_late_served)

        return serve(len(rows), fill_more, profiles, GROUP_ROOM if self._of_group else TAKE_ROOM)

    def pay(self, takers: Takers, plans: Plans, others: Plans, rows: IntArray, levels: IntArray) -> BoolArray:
        """(n,) who of `rows` could go to these (n,) levels, if need be by `others`; see `pay_in_order`."""
        is_paid, told = np.zeros(len(rows), dtype=bool), (rows_of(takers), PlanRows(plans), PlanRows(others))
        for run, own in self._runs(rows):
            profile = self if own is None else self.least_with(own)
            profile._pay(*told, rows[run], levels[run], is_paid[run])
            for one in () if own is None else (self, own):
                one._take_beyond(*told, rows[run])
        return is_paid

    def _pay(
        self,
        takers: TakerRows,
        plans: PlanRows,
        others: PlanRows,
        rows: IntArray,
        levels: IntArray,
        is_paid: BoolArray,
    ) -> None:
        """Write the answers, without regard to groups."""

        def pay(rest: slice) -> int:
            free = Blocks(self.columns)
            return pay_in_order(free, takers, plans, others, rows[rest], levels[rest], is_paid[rest])

        serve(len(rows), pay, [self], PAY_ROOM)

    def _take_beyond(self, takers: TakerRows, plans: PlanRows, others: PlanRows, rows: IntArray) -> None:
        """Each takes what its other plan needs beyond its own; see `pay`."""
        serve(
            len(rows),
            lambda rest: take_beyond(Blocks(self.columns), takers, others, plans, rows[rest]),
            [self],
            PAY_ROOM,
        )

    def _runs(self, rows: IntArray) -> Iterator[tuple[slice, FreeProfile | None]]:
        """Neighbours that are in no group, together; others one by one, with the profile of the group."""
        groups, first = self._group[rows].tolist() if self._of_group else [NO_GROUP] * len(rows), 0
        while first < len(rows):
            end = first + 1
            while groups[first] == NO_GROUP and end < len(rows) and groups[end] == NO_GROUP:
                end += 1
            yield slice(first, end), None if groups[first] == NO_GROUP else self._of_group[groups[first]]
            first = end

    def has_room(self, num_more: int) -> bool:
        """Whether there is room for `num_more` blocks more."""
        return bool(self.columns.num_blocks[0] + num_more <= self.columns.order.size)

    def make_room(self, num_more: int) -> None:
        """Make room for `num_more` blocks more; if it is lacking, the capacity at least doubles."""
        if not self.has_room(num_more):
            self._grow(max(num_more, len(self.columns.order)))

    def _grow(self, more: int) -> None:
        old = self.columns
        self.columns = FreeSegments(
            starts_s=np.pad(old.starts_s, ((0, more), (0, 0))),
            free=np.pad(old.free, ((0, more), (0, 0))),
            used=np.pad(old.used, (0, more)),
            least=np.pad(old.least, (0, more)),
            most=np.pad(old.most, (0, more)),
            order=np.pad(old.order, (0, more)),
            num_blocks=old.num_blocks,
        )


def serve(num: int, run: Callable[[slice], int], profiles: Sequence[FreeProfile], room: int) -> int:
    """Serve so many takers in order, with more room as often as it lacks.

    Args:
        run: serves those of a slice; returns how many it served before one that it would not serve, or for
            which a profile had less than this room.
        room: blocks.

    Returns: how many were served; fewer than all only if one was not in spite of the room.
    """
    num_served = 0
    while num_served < num:
        for profile in profiles:
            profile.make_room(room)
        num_served += int(run(slice(num_served, None)))
        if num_served < num and all(profile.has_room(room) for profile in profiles):
            break
    return num_served


def no_segments(num_blocks: int) -> FreeSegments:
    """Empty blocks."""
    return FreeSegments(
        starts_s=np.zeros((num_blocks, WIDTH)),
        free=np.zeros((num_blocks, WIDTH), dtype=np.int64),
        used=np.zeros(num_blocks, dtype=np.int64),
        least=np.zeros(num_blocks, dtype=np.int64),
        most=np.zeros(num_blocks, dtype=np.int64),
        order=np.zeros(num_blocks, dtype=np.int64),
        num_blocks=np.zeros(1, dtype=np.int64),
    )


NO_GROUPS = GroupedSegments((), EMPTY, NONE_EXEMPT, no_segments(0))


def no_plans(num_takers: int) -> Plans:
    """Columns for plans that are yet to be made."""
    plans = Plans(
        grade=np.zeros(num_takers, dtype=np.int64),
        num=np.zeros(num_takers, dtype=np.int64),
        starts_s=np.zeros((num_takers, MOST_SEGMENTS)),
        levels=np.zeros((num_takers, MOST_SEGMENTS), dtype=np.int64),
        end_s=np.zeros(num_takers),
        now=np.zeros(num_takers, dtype=np.int64),
        top=np.zeros(num_takers, dtype=np.int64),
        change_s=np.zeros(num_takers),
    )
    plans.grade.fill(-1)
    plans.change_s.fill(np.inf)
    return plans


def copy_of(plans: Plans) -> Plans:
    """Return a copy of the plans, for a trial that may be discarded."""
    return Plans._make(map(np.ndarray.copy, plans))
