"""What really follows an epoch: for a while no step is made, however many workers there are."""

from __future__ import annotations

import math
from typing import NamedTuple

#: Of a second: so little is nothing, for times are sums.
LEAST_S = 1e-9


class TrainedSteps(NamedTuple):
    """How far a job is."""

    steps: float  #: done
    left_s: float  #: to pass before the next step begins, where an epoch has just ended
    num_passed: int = 0  #: ends of epochs that are over, with what follows them


class EpochEnds(NamedTuple):
    """`time_s` follows every `num_steps` steps, those of the job's end too.

    All is worked out at once, not epoch by epoch: a log has millions of them.
    """

    time_s: float
    num_steps: int

    def advance(
        self, place: TrainedSteps, elapsed_s: float, rate_per_s: float, end_step: int
    ) -> TrainedSteps:
        """Where a job is that has gone on for so long, at most to what follows its last step.

        `num_passed` counts those of this time.
        """
        steps, left_s, _ = place
        if rate_per_s <= 0.0 or elapsed_s <= 0.0:
            return TrainedSteps(steps, left_s)
        num_passed = 0
        if left_s > 0.0:
            if elapsed_s < left_s - LEAST_S:
                return TrainedSteps(steps, left_s - elapsed_s)
            elapsed_s, num_passed = max(0.0, elapsed_s - left_s), 1
        next_end = self._next_end(steps)
        to_end_s = (next_end - steps) / rate_per_s
        reached = steps + elapsed_s * rate_per_s
        if next_end > end_step or (elapsed_s < to_end_s and reached < next_end):  # rounded: it is at the end
            return TrainedSteps(min(reached, float(end_step)), 0.0, num_passed)
        elapsed_s = max(0.0, elapsed_s - to_end_s)
        epoch_s = self.time_s + self.num_steps / rate_per_s
        num_whole = min(int((elapsed_s + LEAST_S) // epoch_s), (end_step - next_end) // self.num_steps)
        steps, elapsed_s = next_end + num_whole * self.num_steps, max(0.0, elapsed_s - num_whole * epoch_s)
        num_passed += num_whole
        if elapsed_s < self.time_s - LEAST_S:
            return TrainedSteps(float(steps), self.time_s - elapsed_s, num_passed)
        rest_s = max(0.0, elapsed_s - self.time_s)
        return TrainedSteps(min(steps + rest_s * rate_per_s, float(end_step)), 0.0, num_passed + 1)

    def until_s(self, place: TrainedSteps, steps: float, rate_per_s: float) -> float:
        """Seconds until so many steps are done; what follows the epoch that they end is not in it."""
        if steps <= place.steps:
            return 0.0
        num_between = math.ceil(steps / self.num_steps) - self._next_end(place.steps) // self.num_steps
        return place.left_s + (steps - place.steps) / rate_per_s + max(0, num_between) * self.time_s

    def until_end_s(self, place: TrainedSteps, end_step: int, rate_per_s: float) -> float:
        """Seconds until a job is over, with what follows its last step."""
        if place.steps >= end_step:
            return place.left_s
        last_s = 0.0 if end_step % self.num_steps else self.time_s
        return self.until_s(place, float(end_step), rate_per_s) + last_s

    def told_at(self, place: TrainedSteps) -> float:
        """Steps at which a report is next made: with the first steps of an epoch, not before they begin."""
        begun = self._next_end(place.steps) - self.num_steps
        is_told = begun == 0 or self.num_steps == 1 or (not place.left_s and place.steps >= begun + 1.0)
        return place.steps if is_told else begun + 1.01

    def total_s(self, num_steps: int) -> float:
        """Seconds that the ends of epochs take in a whole job of so many steps."""
        return num_steps // self.num_steps * self.time_s

    def _next_end(self, steps: float) -> int:
        """The first end of an epoch beyond these steps."""
        return (math.floor(steps / self.num_steps) + 1) * self.num_steps
