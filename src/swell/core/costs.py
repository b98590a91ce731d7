"""What a change of a gang costs, and how long it lasts: measured, and until then what others measured."""

from __future__ import annotations

import msgspec
import numpy as np

from swell.core.record import JobRecord
from swell.core.tenure import PRIOR_S, Tenure
from swell.model.snapshot import BoolArray, FloatArray, IntArray

#: A pause copies the job's state once; loopback and memory do about this much.
STATE_BYTES_PER_S = 1e9
#: Weight of the newest of several measurements.
NEWEST_SHARE = 0.3
#: The most that a pause has taken is believed again and again, by this share less with each shorter one.
FORGOTTEN_SHARE = 0.005


class ChangeCosts(msgspec.Struct, kw_only=True):
    """Expected pauses and start times of this installation: first guesses, replaced by what it measures."""

    pause_s: float = 0.1  #: of a resize, beyond copying the state
    restart_s: float = 5.0  #: of a resize where every process stops and starts, as far as that is seen
    most_pause_s: float = 0.1  #: `pause_s` of a resize that is dear, as promises have to expect
    most_restart_s: float = 5.0
    start_s: float = 1.0  #: from a launch to the first step, where no profile says
    order_s: float = 0.3  #: of a launch, beside what the script needs until it is ready to join
    crowding_share: float = 0.25  #: by how much each further worker that starts beside the first delays it
    tenure: Tenure = msgspec.field(default_factory=Tenure)  #: of jobs that have ended

    def learn_pause(self, record: JobRecord, pause_s: float) -> None:
        beyond_s = max(
            0.0, pause_s - (record.profile.state_bytes if record.profile else 0) / STATE_BYTES_PER_S
        )
        self.pause_s += NEWEST_SHARE * (beyond_s - self.pause_s)
        self.most_pause_s = _most(self.most_pause_s, beyond_s)

    def learn_restart(self, pause_s: float) -> None:
        self.restart_s += NEWEST_SHARE * (pause_s - self.restart_s)
        self.most_restart_s = _most(self.most_restart_s, pause_s)

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

    def resize_s(self, own_pause_s: FloatArray, state_bytes: FloatArray, is_restart: BoolArray) -> FloatArray:
        """(J,) time that each job's next resize is expected to take from its training.

        The mean of its own latest ones, else this installation's.

        Args:
            own_pause_s: (J,) NaN where a job has had none.
        """
        live_s = self.pause_s + state_bytes / STATE_BYTES_PER_S
        expected_s = np.where(is_restart, self.restart_s, live_s)
        return np.where(np.isnan(own_pause_s), expected_s, own_pause_s)

    def most_resize_s(
        self, own_pause_s: FloatArray, state_bytes: FloatArray, is_restart: BoolArray
    ) -> FloatArray:
        """(J,) time that each job's next resize may well take from its training.

        The most of this installation's lately, and of its own latest ones: the next may be to a larger size.

        Args:
            own_pause_s: (J,) NaN where a job has had none.
        """
        live_s = self.most_pause_s + state_bytes / STATE_BYTES_PER_S
        return np.fmax(np.where(is_restart, self.most_restart_s, live_s), own_pause_s)

    def wait_s(self, own_wait_s: FloatArray, start_cost_s: FloatArray, is_restart: BoolArray) -> FloatArray:
        """(J,) time for which each job is expected to train on at its old size when it is to grow.

        The mean of its own latest growths, else what a launch takes. All stand still where a job restarts.

        Args:
            own_wait_s: (J,) NaN where a job has not grown.
        """
        expected_s = np.where(np.isnan(own_wait_s), start_cost_s, own_wait_s)
        return np.where(is_restart, 0.0, expected_s)

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

    def launch_s(self, own_start_s: FloatArray, num_workers: IntArray) -> FloatArray:
        """(J,) expected time from a launch of so many workers to the first step.

        Args:
            own_start_s: (J,) of one worker alone, as profiled; 0 where there is no profile.
        """
        crowded_s = own_start_s * (1.0 + self.crowding_share * np.maximum(num_workers - 1, 0))
        return np.where(own_start_s > 0, self.order_s + crowded_s, self.start_s)


def _most(most_s: float, newest_s: float) -> float:
    return max(newest_s, most_s + FORGOTTEN_SHARE * (newest_s - most_s))
