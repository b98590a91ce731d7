"""How far a job is: advanced when somebody looks, corrected by reports."""

from __future__ import annotations

import msgspec


class LastReport(msgspec.Struct, frozen=True, kw_only=True):
    """What counts of a progress report of a gang."""

    at_s: float
    steps: int
    generation: int
    num_workers: int

    def is_of_gang(self, other: LastReport) -> bool:
        """Whether both are of the same workers."""
        return (self.generation, self.num_workers) == (other.generation, other.num_workers)


class JobProgress(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`done_steps` were finished at `as_of_s`; since then the job goes at `rate_per_s`."""

    total_steps: float | None = None  #: None: not known yet
    done_steps: float = 0.0
    as_of_s: float = 0.0
    rate_per_s: float = 0.0
    attained_device_s: float = 0.0
    phase_s: float = 0.0  #: what the ends of the epoch under way and of the job will take of the steps so far
    first_step: int = 0  #: that the gang began to train with
    reported: LastReport | None = None
    first_reported: LastReport | None = None  #: of the gang that made the report above, at its size
    phase_rate_per_s: float = 0.0  #: steps/s of the gang that `phase_s` was last told of

    def advance(self, at_s: float, num_devices: int) -> float:
        """Account for the time since `as_of_s`, spent on so many devices; returns its seconds."""
        elapsed_s = max(0.0, at_s - self.as_of_s)
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

    def believed_steps(self, at_s: float) -> float:
        """What plans count as done by then, if all goes on as it is believed to."""
        return self.counted_steps + self.rate_per_s * max(0.0, at_s - self.as_of_s)
