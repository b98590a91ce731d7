"""Progressive filling: one after the other, takers take what their plans need of the free capacity."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from swell.arrays import BoolArray, FloatArray, IntArray
from swell.solvers.profile.courses import PlanRows, rows_of
from swell.solvers.profile.fill import GroupRows, fill_in_order, pay_in_order, take_beyond
from swell.solvers.profile.plans import (
    MOST_SEGMENTS,
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
#: No grade is too bad.
ANY: IntArray = np.zeros(0, dtype=np.int64)


class FreeProfile:
    """Free devices over [0, inf), and what takers have of them.

    Complexity: a taker's search visits each block of segments once a level.
    References: ElasticFlow, section 4.1, Algorithm 1.
    """

    def __init__(self, num_devices: int, num_takers: int) -> None:
        """`num_takers`: about how many there will be."""
        self.columns = columns = no_segments(4 + PAY_ROOM + num_takers // BLOCK_TAKERS)
        columns.num_blocks[0] = columns.used[0] = 1  # one segment, from now on
        columns.free[0, 0] = columns.least[0] = columns.most[0] = num_devices

    def copy(self) -> FreeProfile:
        """The same capacity, to try something on."""
        twin = object.__new__(FreeProfile)
        twin.columns = FreeSegments._make(map(np.ndarray.copy, self.columns))
        return twin

    def raised(self, num_devices: int) -> FreeProfile:
        """A copy with so many more devices at all times."""
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
        twin = object.__new__(FreeProfile)
        twin.columns = no_segments(num_segments // (WIDTH // 2) + 8 * MOST_SEGMENTS)
        write_least(Blocks(self.columns), Blocks(other.columns), Blocks(twin.columns))
        return twin

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

    def take_now(self, num_devices: IntArray, until_s: FloatArray) -> None:
        """So many (n,) are not free from now until (n,) then."""
        serve(
            len(until_s),
            lambda rest: take_now(Blocks(self.columns), num_devices[rest], until_s[rest]),
            [self],
            STRETCH_ROOM,
        )

    def take_what_is_free(self, num_devices: IntArray, until_s: FloatArray) -> BoolArray:
        """(n,) whether so many (n,) are free from now until (n,) then; if so, they are taken."""
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
        worst: IntArray | None = None,
    ) -> int:
        """Each taker in order takes what its plan needs; see `fill_in_order`.

        Args:
            how: one for all, or (n,) one for each of `rows`.
            worst: (J,) grades; None: none is too bad.

        Returns: how many of `rows` were served: fewer than all only if the next one's grade is too bad.
        """
        return fill([self], lambda: NO_GROUPS, takers, plans, rows, how, is_late_served, worst, TAKE_ROOM)

    def pay(self, takers: Takers, plans: Plans, others: Plans, rows: IntArray, levels: IntArray) -> BoolArray:
        """(n,) who of `rows` could go to these (n,) levels, if need be by `others`; see `pay_in_order`."""
        is_paid, told = np.zeros(len(rows), dtype=bool), (rows_of(takers), PlanRows(plans), PlanRows(others))
        serve(
            len(rows),
            lambda rest: pay_in_order(Blocks(self.columns), *told, rows[rest], levels[rest], is_paid[rest]),
            [self],
            PAY_ROOM,
        )
        return is_paid

    def take_beyond(self, takers: Takers, others: Plans, plans: Plans, rows: IntArray) -> None:
        """Each takes what its other plan needs beyond its own; see `pay`."""
        told = rows_of(takers), PlanRows(others), PlanRows(plans)
        serve(
            len(rows),
            lambda rest: take_beyond(Blocks(self.columns), *told, rows[rest]),
            [self],
            PAY_ROOM,
        )

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


def fill(
    profiles: Sequence[FreeProfile],
    groups: Callable[[], GroupedSegments],
    takers: Takers,
    plans: Plans,
    rows: IntArray,
    how: IntArray | int,
    is_late_served: bool,
    worst: IntArray | None,
    room: int,
) -> int:
    """`fill_in_order` of the first profile, with more room in all of them as often as one lacks it.

    Args:
        groups: of the others, as they are then.
        room: see `serve`.
    """
    bad, told = ANY if worst is None else worst, (rows_of(takers), PlanRows(plans))
    ways = np.empty(len(rows), dtype=np.int64)
    ways[:] = how

    def fill_more(rest: slice) -> int:
        free, of_groups = Blocks(profiles[0].columns), GroupRows(groups())
        return fill_in_order(free, of_groups, *told, rows[rest], ways[rest], bad, is_late_served)

    return serve(len(rows), fill_more, profiles, room)


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


NO_GROUPS = GroupedSegments((), ANY, np.zeros(0, dtype=bool), no_segments(0))


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
