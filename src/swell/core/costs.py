"""What a change of a gang costs: measured, and until then expected from what others measured."""

from __future__ import annotations

import msgspec

from swell.core.record import JobRecord

#: A pause copies the job's state once; loopback and memory do about this much.
STATE_BYTES_PER_S = 1e9
#: Weight of the newest of several measurements.
NEWEST_SHARE = 0.3


class ChangeCosts(msgspec.Struct, kw_only=True):
    """Expected pauses and start times of this installation: first guesses, replaced by what it measures."""

    pause_s: float = 0.1  #: of a resize, beyond copying the state
    start_s: float = 1.0  #: from a launch to the first step, where no profile says

    def learn_pause(self, record: JobRecord, pause_s: float) -> None:
        state_bytes = record.profile.state_bytes if record.profile else 0
        beyond_s = max(0.0, pause_s - state_bytes / STATE_BYTES_PER_S)
        self.pause_s += NEWEST_SHARE * (beyond_s - self.pause_s)

    def learn_start(self, start_s: float) -> None:
        self.start_s += NEWEST_SHARE * (start_s - self.start_s)

    def resize_s(self, record: JobRecord) -> float:
        """Expected pause of the job's next resize: its own latest ones, else this installation's."""
        if record.pauses:
            return sum(record.pauses) / len(record.pauses)
        state_bytes = record.profile.state_bytes if record.profile else 0
        return self.pause_s + state_bytes / STATE_BYTES_PER_S

    def launch_s(self, record: JobRecord) -> float:
        """Expected time from a launch to the first step."""
        return max(self.start_s, record.profile.start_s if record.profile else 0.0)
