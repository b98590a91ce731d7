"""How many steps a gang makes in how long, and the other way round."""

from __future__ import annotations

import math
from dataclasses import dataclass

from swell.sim.segments import Segment


@dataclass(frozen=True, slots=True)
class Pace:
    """After every `num_steps` steps of a job none is made for `between_s`; 0: it always goes on."""

    num_steps: int = 0
    between_s: float = 0.0

    def step_after(self, segment: Segment, trained_s: float) -> float:
        """Where the segment is after so long without its pause."""
        rate, start = segment.rate_per_s, segment.from_step
        rest_s = trained_s - segment.between_s
        if rest_s <= 0.0 or rate <= 0.0:
            return start
        if not self.num_steps:
            return start + rest_s * rate
        first_end = (math.floor(start / self.num_steps) + 1) * self.num_steps
        rest_s -= (first_end - start) / rate
        if rest_s <= 0.0:
            return first_end + rest_s * rate
        epochs, rest_s = divmod(rest_s, self.between_s + self.num_steps / rate)
        return first_end + epochs * self.num_steps + max(0.0, rest_s - self.between_s) * rate

    def time_s(self, segment: Segment, end_step: int) -> float:
        """Without its pause, until so many steps are done and what follows them is over."""
        start, time_s = segment.from_step, segment.between_s
        if start >= end_step:
            return time_s
        num_ends = (
            0 if not self.num_steps else end_step // self.num_steps - math.floor(start / self.num_steps)
        )
        return time_s + (end_step - start) / segment.rate_per_s + num_ends * self.between_s
