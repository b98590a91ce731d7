"""How far a job is, advanced when somebody looks and corrected by reports; and how long it kept its sizes."""

from __future__ import annotations

import msgspec

from swell.core.resizes import Mark

#: Each time that workers are taken, what was before counts for so much: the last few times matter.
MEMORY_SHARE = 0.8


class LastReport(msgspec.Struct, frozen=True, kw_only=True):
    """What counts of a progress report of a gang."""

    at_s: float
    steps: int
    generation: int
    num_workers: int

    def is_of_gang(self, other: LastReport) -> bool:
        """Whether both are of the same workers."""
        return (self.generation, self.num_workers) == (other.generation, other.num_workers)


class JobProgress(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """`done_steps` were finished at `as_of_s`; since then the job goes at `rate_per_s`, unless it pauses."""

    total_steps: float | None = None  #: None: not known yet
    done_steps: float = 0.0
    as_of_s: float = 0.0
    rate_per_s: float = 0.0
    attained_device_s: float = 0.0
    phase_s: float = 0.0  #: what the ends of the epoch under way and of the job will take of the steps so far
    #: Since when it does no work, for its gang has changed and has not reported since; None: it works.
    paused_since_s: float | None = None
    pauses: tuple[int, ...] = ()  #: workers after each change since then: they are waited out one by one
    first_step: int = 0  #: that the gang began to train with
    reported: LastReport | None = None
    #: When a gang that has not said how long a step takes began to train at its size, and where.
    unmeasured: Mark | None = None
    first_reported: LastReport | None = None  #: of the gang that made the report above, at its size
    phase_rate_per_s: float = 0.0  #: steps/s of the gang that `phase_s` was last told of

    def advance(self, at_s: float, num_devices: int) -> float:
        """Account for the time since `as_of_s`, spent on so many devices; returns its seconds."""
        elapsed_s = max(0.0, at_s - self.as_of_s)
        if self.paused_since_s is None:
            self.done_steps += elapsed_s * self.rate_per_s
        self.attained_device_s += elapsed_s * num_devices
        self.as_of_s = max(self.as_of_s, at_s)
        return elapsed_s

    @property
    def counted_steps(self) -> float:
        """What plans count as done at `as_of_s`.

        The rate spreads the time between two epochs, and that of the script's last lines, evenly over the
        steps, and it comes all at the end of an epoch, or of the job. So a job is less far than its steps
        say, the more so the nearer that end is. A job without a gang is as far as its last gang was.
        """
        return self.done_steps - self.phase_s * (self.rate_per_s or self.phase_rate_per_s)

    def pause(self, at_s: float, num_workers: int) -> None:
        """It has changed to so many workers, and does no work until it reports."""
        self.paused_since_s = at_s if self.paused_since_s is None else self.paused_since_s
        self.pauses = (*self.pauses, num_workers)

    def resume(self) -> None:
        """It works, or has no gang that could."""
        self.paused_since_s, self.pauses = None, ()

    @property
    def rate_now_per_s(self) -> float:
        """Steps/s since `as_of_s`: none while it pauses."""
        return self.rate_per_s if self.paused_since_s is None else 0.0

    def believed_steps(self, at_s: float) -> float:
        """What plans count as done by then, if all goes on as it is believed to."""
        return self.counted_steps + self.rate_now_per_s * max(0.0, at_s - self.as_of_s)


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
