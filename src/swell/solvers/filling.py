"""Progressive filling: takers, one after the other, take what they need of the free capacity over time."""

from __future__ import annotations

import numpy as np

from swell.arrays import IntArray
from swell.compiled import suited
from swell.solvers.profile import WIDTH, FreeSegments, Plans, Takers, fill_in_order

#: No grade is too bad.
ANY: IntArray = np.zeros(0, dtype=np.int64)


class FreeProfile:
    """Free devices over [0, inf), and whoever takes of them.

    Complexity: a taker's search visits each block of segments once a level, and n takers leave at most
    2n + 1 segments.
    References: ElasticFlow, section 4.1, Algorithm 1.
    """

    def __init__(self, num_devices: int, num_takers: int) -> None:
        """`num_takers`: how many there will be at most; with many, the loops are compiled."""
        self._num_takers = num_takers
        num_blocks = 2 + (2 * num_takers) // (WIDTH // 2)
        self.columns = columns = FreeSegments(
            starts_s=np.zeros((num_blocks, WIDTH)),
            free=np.zeros((num_blocks, WIDTH), dtype=np.int64),
            used=np.zeros(num_blocks, dtype=np.int64),
            least=np.zeros(num_blocks, dtype=np.int64),
            most=np.zeros(num_blocks, dtype=np.int64),
            order=np.zeros(num_blocks, dtype=np.int64),
            num_blocks=np.zeros(1, dtype=np.int64),
        )
        columns.num_blocks[0] = columns.used[0] = 1  # one segment, from now on
        columns.free[0, 0] = columns.least[0] = columns.most[0] = num_devices

    def copy(self) -> FreeProfile:
        """The same capacity, to try something on."""
        twin = object.__new__(FreeProfile)
        twin._num_takers = self._num_takers
        twin.columns = FreeSegments._make(column.copy() for column in self.columns)
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

    @property
    def num_free_now(self) -> int:
        """Devices that are free at time 0."""
        return int(self.columns.free[self.columns.order[0], 0])

    def free_device_s(self, until_s: float) -> float:
        """Device-seconds that are free from now until then."""
        columns = self.columns
        blocks = columns.order[: columns.num_blocks[0]]
        is_used = np.arange(WIDTH) < columns.used[blocks, None]
        starts_s = columns.starts_s[blocks][is_used]
        ends_s = np.minimum(np.append(starts_s[1:], np.inf), until_s)
        return float((columns.free[blocks][is_used] * np.maximum(ends_s - starts_s, 0.0)).sum())

    def fill(
        self,
        takers: Takers,
        plans: Plans,
        rows: IntArray,
        hold_s: float = 0.0,
        is_late_served: bool = False,
        worst: IntArray | None = None,
    ) -> int:
        """Each taker in order takes the first of its tries that fits; see `profile.fill_in_order`.

        Args:
            worst: (J,) grades; None: none is too bad.
        """
        if len(rows) == 0:
            return 0
        if worst is None:
            worst = ANY
        run = suited(fill_in_order, self._num_takers)
        return int(run(self.columns, takers, plans, rows, hold_s, worst, is_late_served))


def no_plans(num_takers: int) -> Plans:
    """Columns for plans that are yet to be made."""
    plans = Plans(
        grade=np.empty(num_takers, dtype=np.int64),
        top=np.zeros(num_takers, dtype=np.int64),
        now=np.zeros(num_takers, dtype=np.int64),
        keep=np.zeros(num_takers, dtype=np.int64),
        change_s=np.empty(num_takers),
        end_s=np.zeros(num_takers),
    )
    plans.grade.fill(-1)
    plans.change_s.fill(np.inf)
    return plans
