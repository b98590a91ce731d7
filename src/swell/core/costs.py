"""What a change of a gang costs: measured, and until then expected from what others measured."""

from __future__ import annotations

import msgspec
import numpy as np

from swell.core.record import JobRecord
from swell.model.snapshot import FloatArray

#: A pause copies the job's state once; loopback and memory do about this much.
STATE_BYTES_PER_S = 1e9
#: Weight of the newest of several measurements.
NEWEST_SHARE = 0.3


class ChangeCosts(msgspec.Struct, kw_only=True):
    """Expected pauses and start times of this installation: first guesses, replaced by what it measures."""

    pause_s: float = 0.1  #: of a resize, beyond copying the state
    start_s: float = 1.0  #: from a launch to the first step, where no profile says

    def learn_pause(self, record: JobRecord, pause_s: float) -> None:
        beyond_s = max(
            0.0, pause_s - (record.profile.state_bytes if record.profile else 0) / STATE_BYTES_PER_S
        )
        self.pause_s += NEWEST_SHARE * (beyond_s - self.pause_s)

    def learn_start(self, start_s: float) -> None:
        self.start_s += NEWEST_SHARE * (start_s - self.start_s)

    def resize_s(self, own_pause_s: FloatArray, state_bytes: FloatArray) -> FloatArray:
        """(J,) expected pause of each job's next resize: its own latest ones, else this installation's.

        Args:
            own_pause_s: (J,) NaN where a job has had none.
        """
        expected_s: FloatArray = self.pause_s + state_bytes / STATE_BYTES_PER_S
        return np.where(np.isnan(own_pause_s), expected_s, own_pause_s)

    def launch_s(self, own_start_s: FloatArray) -> FloatArray:
        """(J,) expected time from a launch to the first step. `own_start_s`: as profiled, else 0."""
        start_s: FloatArray = np.maximum(self.start_s, own_start_s)
        return start_s
