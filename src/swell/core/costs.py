"""What a change of a gang costs, and how long it lasts: measured, and until then what others measured."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from swell.arrays import FloatArray, IntArray
from swell.compiled import suited
from swell.core.cost_table import STATE_BYTES_PER_S, CostTable
from swell.core.hold_time import PRIOR_S, HoldTime
from swell.core.record import JobRecord

#: Weight of the newest of several measurements.
NEWEST_SHARE = 0.3


class ExpectedCosts(NamedTuple):
    """What is expected of the next change of each job."""

    resize_s: FloatArray  #: (J,) time that a resize takes from its training
    wait_s: FloatArray  #: (J,) for which it trains on at its old size before a growth; 0 of a restart
    start_s: FloatArray  #: (J,) from a launch at its largest size to the first step
    growth_s: FloatArray  #: (J,) as `resize_s`, of a growth only
    shrink_s: FloatArray  #: (J,) the same of a shrink


class ChangeCosts(msgspec.Struct, kw_only=True):
    """Expected pauses and start times of this installation: first guesses, replaced by what it measures."""

    pause_s: float = 0.1  #: of a resize, beyond copying the state
    restart_s: float = 5.0  #: of a resize where every process stops and starts, as far as that is seen
    start_s: float = 1.0  #: from a launch to the first step, where no profile says
    order_s: float = 0.3  #: of a launch, beside what the script needs until it is ready to join
    crowding_share: float = 0.25  #: by how much each further worker that starts beside the first delays it
    tenure: HoldTime = msgspec.field(default_factory=HoldTime)  #: of jobs that have ended
    upper: CostTable = msgspec.field(default_factory=CostTable)  #: by kind of job and size

    def learn_pause(self, record: JobRecord, pause_s: float) -> None:
        copied_bytes = record.profile.most_copied_bytes if record.profile else 0
        beyond_s = max(0.0, pause_s - copied_bytes / STATE_BYTES_PER_S)
        self.pause_s += NEWEST_SHARE * (beyond_s - self.pause_s)

    def learn_restart(self, pause_s: float) -> None:
        self.restart_s += NEWEST_SHARE * (pause_s - self.restart_s)

    def learn_start(self, record: JobRecord, start_s: float) -> None:
        """A launch took so long until the first step: orders and forks, and scripts side by side."""
        self.start_s += NEWEST_SHARE * (start_s - self.start_s)
        alone_s = record.profile.start_s if record.profile else 0.0
        if alone_s <= 0:
            return
        if record.num_workers == 1:
            self.order_s += NEWEST_SHARE * (max(0.0, start_s - alone_s) - self.order_s)
        elif record.num_workers > 1:
            delay_share = ((start_s - self.order_s) / alone_s - 1.0) / (record.num_workers - 1)
            self.crowding_share += NEWEST_SHARE * (min(1.0, max(0.0, delay_share)) - self.crowding_share)

    def expected(
        self,
        own_pause_s: FloatArray,
        own_wait_s: FloatArray,
        own_growth_s: FloatArray,
        own_shrink_s: FloatArray,
        own_start_s: FloatArray,
        copied_bytes: FloatArray,
        is_restart: IntArray,
        most_workers: IntArray,
    ) -> ExpectedCosts:
        """What each job's next change costs.

        Args:
            own_pause_s: (J,) mean of its own latest ones; NaN before the first.
            own_wait_s: (J,) the same of its growths.
            own_growth_s, own_shrink_s: (J,) mean of its own of each kind, or as profiled; else NaN.
            own_start_s: (J,) of one worker alone, as profiled; 0 where there is no profile.
            most_workers: (J,) the largest size that it may have: to start that takes longest.
        """
        columns = ExpectedCosts(*np.empty((5, len(own_pause_s))))
        suited(_expect, len(own_pause_s))(
            own_pause_s,
            own_wait_s,
            own_growth_s,
            own_shrink_s,
            own_start_s,
            copied_bytes,
            is_restart,
            most_workers,
            (self.pause_s, self.restart_s),
            (self.start_s, self.order_s, self.crowding_share),
            columns,
        )
        return columns

    def hold_s(self, trained_s: FloatArray, num_taken: FloatArray) -> FloatArray:
        """(J,) time that workers given to each job now are expected to stay with it.

        Its own tenure, to which that of all jobs adds one observation.

        Args:
            trained_s, num_taken: (J,) of each job that has not ended.
        """
        trained_by_all_s = self.tenure.total_s + float(trained_s.sum())
        of_all_s = (PRIOR_S + trained_by_all_s) / (1.0 + self.tenure.num_taken + float(num_taken.sum()))
        expected_s: FloatArray = (of_all_s + trained_s) / (1.0 + num_taken)
        return expected_s


def _expect(
    own_pause_s: FloatArray,
    own_wait_s: FloatArray,
    own_growth_s: FloatArray,
    own_shrink_s: FloatArray,
    own_start_s: FloatArray,
    copied_bytes: FloatArray,
    is_restart: IntArray,
    most_workers: IntArray,
    pauses_s: tuple[float, float],
    starts: tuple[float, float, float],
    columns: ExpectedCosts,
) -> None:
    """Write the columns: a job's own measurements, else this installation's."""
    pause_s, restart_s = pauses_s
    start_s, order_s, crowding_share = starts
    for row in range(len(own_pause_s)):
        mean_s = restart_s if is_restart[row] else pause_s + copied_bytes[row] / STATE_BYTES_PER_S
        has_paused = own_pause_s[row] == own_pause_s[row]  # it is no NaN
        columns.resize_s[row] = own_pause_s[row] if has_paused else mean_s
        resize_s = columns.resize_s[row]
        columns.growth_s[row] = own_growth_s[row] if own_growth_s[row] == own_growth_s[row] else resize_s
        columns.shrink_s[row] = own_shrink_s[row] if own_shrink_s[row] == own_shrink_s[row] else resize_s
        alone_s = own_start_s[row]
        crowded_s = alone_s * (1.0 + crowding_share * max(most_workers[row] - 1, 0))
        launch_s = order_s + crowded_s if alone_s > 0 else start_s
        columns.start_s[row] = launch_s
        has_grown = own_wait_s[row] == own_wait_s[row]
        wait_s = own_wait_s[row] if has_grown else launch_s
        columns.wait_s[row] = 0.0 if is_restart[row] else wait_s
