"""Checkpoints of a simulated gang: when they are due, what they take, and what is lost without one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from swell.checkpoint_interval import FIRST_S


@dataclass(slots=True)
class WastedTime:
    """Device-seconds of all gangs that brought no training."""

    unsaved_device_s: float = 0.0  #: of training that was lost with its gang
    saving_device_s: float = 0.0  #: in which training stood still for checkpoints
    unnoticed_device_s: float = 0.0  #: on devices that were gone, until the head heard of that


@dataclass(slots=True)
class CheckpointCycle:
    """Training, a checkpoint, training: as workers do it, by the clock.

    The first checkpoint comes early. Training stands still while one is written.
    """

    rested_since_s: float  #: the end of the last save, or when the gang formed
    interval_s: float
    save_s: float
    saved_s: float | None = None  #: what was trained by then is in the newest checkpoint; None: there is none

    @property
    def training_share(self) -> float:
        """Share of the time in which training goes on, in the long run."""
        return 1.0 / (1.0 + self.save_s / self.interval_s)

    def advance(self, now_s: float) -> None:
        """Make the checkpoints that are whole by now."""
        if math.isinf(self.interval_s):
            return
        if self.saved_s is None:
            first_s = self.rested_since_s + min(self.interval_s, FIRST_S)
            if first_s + self.save_s > now_s:
                return
            self.saved_s, self.rested_since_s = first_s, first_s + self.save_s
        period_s = self.interval_s + self.save_s
        num = int((now_s - self.rested_since_s) // period_s)
        if num > 0:
            self.rested_since_s += num * period_s
            self.saved_s = self.rested_since_s - self.save_s

    def change_interval(self, interval_s: float, now_s: float) -> None:
        """The next checkpoint is due by this interval."""
        self.advance(now_s)
        self.interval_s = interval_s
