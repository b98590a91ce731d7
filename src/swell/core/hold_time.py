"""How long workers stay with a job before some of them are taken away: what a growth has to pay in."""

from __future__ import annotations

import msgspec

#: Each time that workers are taken, what was before counts for so much: the last few times matter.
MEMORY_SHARE = 0.8
#: Until it is known better, workers are believed to be taken once in so long a time.
PRIOR_S = 600.0


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
