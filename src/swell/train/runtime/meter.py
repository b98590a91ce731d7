"""How long steps take, how long a change of the gang held them up, and pacing."""

from __future__ import annotations

import time

from swell.script_facts import BetweenSteps
from swell.train.data.sample_schedule import SampleSchedule, Share

#: Weight of the newest step in the running mean of the part of a step that waits for others.
REST_GAIN_SHARE = 0.2


class Meter:
    """Times of one worker's steps and epochs. A step begins when its batch is asked for, and ends updated.

    They are by a clock that stands still while the script is between two epochs.
    """

    def __init__(self, pace_per_s: float | None) -> None:
        self.step_s = 0.0  #: of the step that ended last
        self.pause_s: float | None = None  #: set by a first step; None in a worker that just joined
        self._pace_per_s = pace_per_s
        self._away_s = 0.0  # all that the script has spent between epochs
        self._told_away_s = 0.0  # of it, before the last call of `take_between`
        self._told_epoch = 0  # epochs before this one were told of
        self._begun_epoch = 0  # that of the latest step that has begun, or is to
        self._begun_s = time.monotonic()
        self._reduced_s = self._begun_s
        self._ended_s: float | None = None
        self._rest_s: float | None = None  # running mean of a steady step's all-reduce and update
        self._changing_s: float | None = None  # the change of the gang that is under way costs time since
        self._is_first = True  # of its generation
        self.is_begun = False  #: a step may begin, and none has ended since
        self._mean_from_s = self._begun_s
        self._num_steps = 0

    def begin_change(self) -> None:
        """The gang stops here to change."""
        if self._ended_s is not None and self._changing_s is None:
            self._changing_s = time.monotonic() - self._away_s

    def begin_break(self) -> None:
        """The gang broke: all since the last whole step is lost."""
        if self._changing_s is None:
            self._changing_s = self._ended_s
        self.is_begun = False

    def begin_generation(self) -> None:
        self._is_first = True

    def come_back(self) -> None:
        """The script wants a batch, and had been told that an epoch is over: it comes from what follows."""
        self._away_s = time.monotonic() - self._begun_s
        self.is_begun = False

    def begin_step(self) -> None:
        """A step begins; or the script is told that the epoch is over, and `come_back` comes first."""
        self._begun_s, self.is_begun = time.monotonic() - self._away_s, True

    def begin_reduce(self, share: Share) -> None:
        """The gradients are there; a paced device holds them back for as long as their samples take it."""
        if self._pace_per_s is not None:
            early_s = self._begun_s + share.num_local / self._pace_per_s - (time.monotonic() - self._away_s)
            if early_s > 0:
                time.sleep(early_s)
        if self._reduced_s <= self._begun_s:  # of several sums of a batch the first
            self._reduced_s = time.monotonic() - self._away_s

    @property
    def compute_s(self) -> float:
        """Seconds of the latest step until its gradients were there, before it waited for others."""
        return self._reduced_s - self._begun_s

    def end_step(self) -> bool:
        """The update is applied. True if this was its generation's first step, which no mean counts.

        After a first step `pause_s` is what the change of the gang took from training: the time from
        where it stopped to the end of this step, less what this step would have taken without a
        change, which is its own computing and the waiting of an ordinary step.
        """
        self._ended_s, self.is_begun = time.monotonic() - self._away_s, False
        self.step_s = self._ended_s - self._begun_s
        rest_s = self._ended_s - self._reduced_s
        usual_s = rest_s if self._rest_s is None else self._rest_s
        if not self._is_first:
            self._rest_s = usual_s + REST_GAIN_SHARE * (rest_s - usual_s)
            self._num_steps += 1
            return False
        self.pause_s = None
        if self._changing_s is not None:
            steady_s = self.compute_s + min(rest_s, usual_s)
            self.pause_s = max(0.0, self._ended_s - self._changing_s - steady_s)
        self._is_first, self._changing_s = False, None
        self._mean_from_s, self._num_steps = self._ended_s, 0
        return True

    def take_mean_step_s(self) -> float | None:
        """Mean seconds a step since the last call or the generation's first step; None if there was none."""
        if self._num_steps == 0 or self._ended_s is None:
            return None
        mean_s = (self._ended_s - self._mean_from_s) / self._num_steps
        self._mean_from_s, self._num_steps = self._ended_s, 0
        return mean_s

    # ------------------------------------------------------------------ epochs
    def end_epoch(self, epoch: int) -> None:
        """The script is told that the epoch before this one is over."""
        self._begun_epoch = epoch
        self.begin_step()

    def skip_to(self, epoch: int) -> None:
        """The state is of another place of the run: epochs before it were others' to tell of."""
        self._told_away_s = self._away_s
        self._told_epoch = self._begun_epoch = epoch

    def take_between(self, course: SampleSchedule) -> BetweenSteps | None:
        """Epochs that were not told of yet, after a step of the latest one; None: none has ended.

        For a stream of unknown length each had as many steps as the mean of those that are over.
        """
        num_epochs = self._begun_epoch - self._told_epoch
        if num_epochs <= 0:
            return None
        per_epoch = course.steps_per_epoch or round(course.place.steps_before / max(1, course.epoch))
        time_s = self._away_s - self._told_away_s
        self.skip_to(self._begun_epoch)
        num_steps = num_epochs * max(1, per_epoch)
        return BetweenSteps(time_s=time_s, num_steps=num_steps, num_epochs=num_epochs)
