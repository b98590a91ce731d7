"""How often the replicas of a gang's workers differed, and when its owner is told of it."""

from __future__ import annotations

from swell.wire.messages import Drifted

#: Topic of the warning.
DRIFT = "drift"


class DriftCount:
    """Count of how often the replicas of one gang differed.

    It is reported the first time, each time that it has doubled, and at the end.
    """

    def __init__(self) -> None:
        self._num = 0
        self._num_told = 0
        self._num_healed = 0
        self._first_step = 0
        self._latest: Drifted | None = None

    def note(self, said: Drifted) -> str:
        """What to tell now; empty if nothing."""
        if self._latest is None:
            self._first_step = said.first_step
        self._latest = said
        self._num += said.num
        self._num_healed += said.num if said.is_healed else 0
        return self.rest() if self._num >= 2 * self._num_told else ""

    def rest(self) -> str:
        """What has not been told; empty if nothing."""
        if self._latest is None or self._num == self._num_told:
            return ""
        self._num_told = self._num
        return f"{self._times(self._latest)}: {self._latest.message}"

    def _times(self, latest: Drifted) -> str:
        healed = "healed each time, all took rank 0's state" if self._num_healed else "not healed"
        if 0 < self._num_healed < self._num:
            healed = f"healed {self._num_healed} of these times"
        if self._num == 1:
            healed = "healed, all took rank 0's state" if self._num_healed else "not healed"
            return f"the workers' replicas differed in step {latest.last_step} ({healed})"
        steps = f"first in step {self._first_step} and last in step {latest.last_step}"
        return f"the workers' replicas differed {self._num} times, {steps} ({healed})"
