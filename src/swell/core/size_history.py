"""The sizes that a job has had."""

from __future__ import annotations

import msgspec


class SizeHistory(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    changes: tuple[tuple[float, int], ...] = ()  #: (from when in head time, workers)
    most_workers: int = 0
    num_changes: int = 0  #: to another number of workers, since the first

    @property
    def latest(self) -> int:
        """Workers since the latest change; 0 before the first."""
        return self.changes[-1][1] if self.changes else 0

    def note(self, at_s: float, num_workers: int) -> None:
        """It has so many from now on."""
        if not self.changes or self.changes[-1][1] != num_workers:
            self.num_changes += bool(self.changes) and num_workers > 0
            self.most_workers = max(self.most_workers, num_workers)
            self.changes += ((at_s, num_workers),)
