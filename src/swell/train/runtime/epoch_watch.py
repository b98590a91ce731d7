"""Which epochs have ended, and how long the script took between each and the next."""

from __future__ import annotations

from swell.train.data.stream_schedule import AnyCourse, StreamSchedule
from swell.train.runtime.meter import Meter
from swell.wire.messages import EndedEpochs


class EpochWatch:
    """Epochs that have ended for one worker; `meter` measures the time between them."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._told = 0  # epochs before this one were told of
        self._begun = 0  # the epoch of the latest step that has begun, or is to

    def note_end(self, begun: int) -> None:
        """The script is told that the epoch before this one is over."""
        self._begun = begun

    def skip_to(self, epoch: int) -> None:
        """The state is of another place of the run: epochs before it were others' to tell of."""
        self._meter.take_between_s()
        self._told = self._begun = epoch

    def take(self, course: AnyCourse) -> EndedEpochs | None:
        """What was not told yet, after a step of the latest epoch; None: no epoch has ended."""
        if self._begun <= self._told:
            return None
        num_epochs, self._told = self._begun - self._told, self._begun
        time_s = self._meter.take_between_s()
        return EndedEpochs(
            time_s=time_s, num_steps=num_epochs * steps_per_epoch(course), num_epochs=num_epochs
        )


def steps_per_epoch(course: AnyCourse) -> int:
    """Steps of an epoch at the own batch, at least 1.

    For a stream of unknown length it is the mean of the epochs that are over.
    """
    if course.steps_per_epoch is not None:
        return course.steps_per_epoch
    if isinstance(course, StreamSchedule) and course.place.epoch:
        return max(1, round(course.place.steps_before / course.place.epoch))
    return 1
