"""What a trial run tells its script of how far training is.

Its steps are tried: many of them update nothing, their batches are of any size, and they are more than a
short job has. A script that asks is told what it would be in a job, so that it does what it will do there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ShownCounts:
    """The counts of a run as its script sees them: those of the first steps of a job, again and again."""

    batch: int  #: samples of a step of the job
    most: int  #: steps, after which the first one comes again: fewer than an epoch has, or the job
    steps: int = 0
    is_tried: bool = False  #: the step that the script has just made is one, although it has updated nothing

    @property
    def updates(self) -> int:
        return self.steps

    @property
    def samples(self) -> int:
        return self.steps * self.batch

    def begin_step(self, is_again: bool) -> None:
        """The script asks for a batch. `is_again`: of the first step, whatever has come before."""
        self.is_tried = False
        if is_again or self.steps >= self.most:
            self.steps = 0
