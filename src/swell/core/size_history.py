"""The sizes that a job has had, and for how long workers have stayed with it."""

from __future__ import annotations

import msgspec

#: Each time that workers are taken, what was before counts for so much: the last few times matter.
MEMORY_SHARE = 0.8


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


class HoldTime(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Time of training, and how often workers were taken in it, the more recent the more it counts.

    Their ratio is the most likely mean of times that end by chance, those that have not ended included.
    """

    since_s: float = 0.0  #: trained since workers were last taken
    before_s: float = 0.0  #: faded sum of such times before
    num_taken: float = 0.0  #: faded count

    @property
    def total_s(self) -> float:
        return self.since_s + self.before_s

    def train(self, elapsed_s: float) -> None:
        self.since_s += elapsed_s

    def take(self) -> None:
        """Some of the job's workers, or all, were given to others or lost."""
        self.before_s = MEMORY_SHARE * self.before_s + self.since_s
        self.num_taken = MEMORY_SHARE * self.num_taken + 1.0
        self.since_s = 0.0

    def add(self, ended: HoldTime) -> None:
        """Remember a job that has ended, and those before it a little less."""
        self.before_s = MEMORY_SHARE * self.before_s + ended.total_s
        self.num_taken = MEMORY_SHARE * self.num_taken + ended.num_taken
