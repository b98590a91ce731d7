"""Which devices jobs hold, for readers that look again and again."""

from __future__ import annotations

from collections.abc import Sequence

#: Changes that are remembered, at least; then as many as there are jobs.
LEAST_REMEMBERED = 1024


class HeldDevices(dict[str, tuple[str, ...]]):
    """Job -> its devices, of jobs that hold any. It tells which have changed since a reader last looked."""

    def __init__(self) -> None:
        super().__init__()
        self._changed: list[str] = []
        self._num_forgotten = 0

    @property
    def num_changes(self) -> int:
        """So far."""
        return self._num_forgotten + len(self._changed)

    def put(self, job_id: str, devices: tuple[str, ...]) -> None:
        """The job has these from now on; no devices: it holds nothing."""
        if devices is self.get(job_id, ()):
            return
        if devices:
            self[job_id] = devices
        else:
            self.pop(job_id, None)
        self._changed.append(job_id)
        if len(self._changed) > 2 * max(LEAST_REMEMBERED, len(self)):
            num = len(self._changed) // 2
            del self._changed[:num]
            self._num_forgotten += num

    def changed_since(self, num_changes: int) -> Sequence[str] | None:
        """Jobs of the changes after so many, one more than once perhaps; None: that is not known any more."""
        first = num_changes - self._num_forgotten
        return self._changed[first:] if first >= 0 else None
