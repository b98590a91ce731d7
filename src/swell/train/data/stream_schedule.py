"""The course of a stream: samples that come in an order and have no numbers, and may never end.

Every worker reads the whole stream and keeps what is its own. So all know, without a word between them, how
many samples a step has and where an epoch ends, as long as the stream gives all of them the same.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

from swell.train.data.place import UNBOUNDED, Place
from swell.train.data.sample_schedule import SampleClaim, SampleSchedule, Schedule, Share, StepCut


class StreamError(RuntimeError):
    """The stream does not give what a step needs, or not the same to all workers."""


@dataclass(slots=True)
class StreamPlace(Place):
    """A run's place in a stream. How long an epoch was is known once it is over."""

    origin: dict[str, Any] | None = None  #: the stream's own account of a place up to here, if it gives one
    steps_before: int = 0  #: of the own batch, in the epochs before
    samples_before: int = 0  #: in the epochs before


@dataclass
class StreamSchedule(Schedule):
    """The batches of a whole training run on a stream, in order; see `SampleSchedule`."""

    global_batch: int
    drops_last: bool
    num_shards: int | None = None
    length: int | None = None  #: samples of an epoch, as far as the dataset says; used for forecasts only
    place: StreamPlace = field(default_factory=StreamPlace)
    pending: dict[str, Any] = field(default_factory=dict)  #: `origin` of the place after the step under way
    total_steps: int = UNBOUNDED
    has_even_passes: bool = False
    least_samples: int = 1
    is_length_told: bool = False  #: that `length` is wrong, or it is not to be told

    @property
    def samples_per_epoch(self) -> int:
        """0: not known."""
        if self.length is None or not self.drops_last:
            return self.length or 0
        return self.length // self.global_batch * self.global_batch

    @property
    def steps_per_epoch(self) -> int | None:
        """Steps of an epoch at the own batch; None if the stream's length is not known."""
        return -(-self.samples_per_epoch // self.global_batch) or None

    # ------------------------------------------------------------------ how far the run is
    @property
    def own_steps(self) -> int:
        """Whole steps of the own batch that are done."""
        return self.place.steps_before + self.place.start // self.global_batch

    @property
    def samples(self) -> int:
        """That were trained on since the run began."""
        return self.place.samples_before + self.place.start

    @property
    def end_step(self) -> int:
        """The number of the first step that there is not, if the epoch and the batch go on so long."""
        if self.total_steps >= UNBOUNDED:
            return UNBOUNDED
        return self.place.step + -(-(self._end - self.place.start) // self.batch)

    def loading_end(self) -> int:
        """The number of the first step that cannot be loaded ahead."""
        return self.end_step

    def finish_step(self, share: Share) -> None:
        """A step is done. One that got less than it wanted was the epoch's last."""
        place = self.place
        place.start += share.num_global
        place.step += 1
        place.origin = self.pending.get("origin") or place.origin
        if share.claim is not None and share.num_global < share.claim.num_wanted:
            self.end_epoch()

    def end_epoch(self) -> None:
        """The stream has no more for this epoch."""
        place = self.place
        num_steps = -(-place.start // self.global_batch)
        known = self.steps_per_epoch
        is_off = known is not None and abs(known - num_steps) > self.drops_last
        if is_off and not self.is_length_told:
            self.is_length_told = True
            warnings.warn(
                f"epoch {place.epoch} of the stream had {place.start} samples, and len() of its dataset is "
                f"{self.length}; training follows the stream, but run.total_steps, run.progress and when "
                "the job is expected to end are wrong: have __len__ tell how many samples __iter__ gives",
                stacklevel=2,
            )
        place.steps_before += num_steps
        place.samples_before += place.start
        place.epoch += 1
        place.start, place.origin = 0, None

    # ------------------------------------------------------------------ what a step has
    def share(self, step: int, rank: int, num_workers: int, max_local_batch: int | None = None) -> Share:
        """The share of worker `rank` in a step if the stream has all samples that the step wants.

        Whether it has is found out with the share's `claim`.
        """
        claim = self._claim(step, self.cut_of(rank, num_workers, max_local_batch))
        return claim.share(claim.num_wanted)

    def trial_share(self, step: int, size: int, num_shards: int, max_local_batch: int | None) -> Share:
        """The share of a worker that computes all of a step of `size` samples alone, in a trial run.

        A short step is left out, because it would be taken for a quick one.

        Args:
            num_shards: into which the step is divided; 0: none.
        """
        shards = num_shards or None
        cut = StepCut(0, 1, size, shards, max_local_batch, self.has_even_passes, self.least_samples)
        return replace(self._claim(step, cut, size), drops_last=True).share(size)

    @property
    def _end(self) -> int:
        """Samples of the present epoch that the run trains on if that is long enough."""
        return (self.total_steps - self.place.steps_before) * self.global_batch

    def _claim(self, step: int, cut: StepCut, size: int | None = None) -> SampleClaim:
        """What a worker wants of the stream for a step of `size` samples, by default the current batch."""
        batch = size or self.batch
        start = self.place.start + (step - self.place.step) * batch
        return SampleClaim(step, self.place.epoch, start, min(batch, self._end - start), cut, self.drops_last)


AnyCourse = SampleSchedule | StreamSchedule
