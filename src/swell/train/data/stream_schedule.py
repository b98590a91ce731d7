"""The course of a stream: samples that come in an order and have no numbers, and may never end.

Every worker reads the whole stream and keeps what is its own. So all know, without a word between them, how
many samples a step has and where an epoch ends, as long as the stream gives all of them the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from swell.train.data.sample_schedule import Course, SampleClaim, Share, check_shards

#: `Task.total_steps` of a run that ends with an epoch, after as many steps as that turns out to have.
UNBOUNDED = 2**62


class StreamError(RuntimeError):
    """The stream does not give what a step needs, or not the same to all workers."""


@dataclass(slots=True)
class StreamPlace:
    """Where the next step begins. It travels with the state."""

    epoch: int = 0
    start: int = 0  #: samples of the epoch that were trained on
    step: int = 0  #: that begins here
    origin: dict[str, Any] | None = None  #: the stream's own account of this place, if it gives one

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


@dataclass(frozen=True)
class StreamCourse:
    """As `Course`, for a stream."""

    global_batch: int  #: samples a step
    drops_last: bool  #: leave out the short batch at the end of an epoch, as the loader asked
    num_shards: int | None = None  #: of a step; fewer in one that has fewer samples
    length: int | None = None  #: samples of an epoch, as far as the dataset says; used for forecasts only
    place: StreamPlace = field(default_factory=StreamPlace)
    pending: dict[str, Any] = field(default_factory=dict)  #: `origin` of the place after the step under way

    def __post_init__(self) -> None:
        check_shards(self.global_batch, self.num_shards, None)

    @property
    def samples_per_epoch(self) -> int:
        """0: not known."""
        if self.length is None or not self.drops_last:
            return self.length or 0
        return self.length // self.global_batch * self.global_batch

    @property
    def steps_per_epoch(self) -> int | None:
        return -(-self.samples_per_epoch // self.global_batch) or None

    def epoch_at(self, step: int) -> int:
        return self.place.epoch

    def check_passes(self, max_local_batch: int | None) -> None:
        """Raises ValueError if a shard has more samples than a pass may have."""
        check_shards(self.global_batch, self.num_shards, max_local_batch)

    def share(self, step: int, rank: int, num_workers: int, max_local_batch: int | None = None) -> Share:
        """As it is if the stream has all that the step wants; its `claim` finds out."""
        self.check_passes(max_local_batch)
        return self._claim(step, rank, num_workers, max_local_batch).share(self.global_batch)

    def trial_share(self, step: int, size: int, num_shards: int, max_local_batch: int | None) -> Share:
        """Of a worker that has all of a step of `size` samples, in so many shards; 0: without any."""
        claim = self._claim(step, 0, 1, max_local_batch, size)
        return replace(claim, num_shards=num_shards or None).share(size)

    def finish_step(self, share: Share) -> None:
        """A step is done."""
        place = self.place
        place.start += share.num_global
        place.step += 1
        place.origin = self.pending.get("origin")

    def end_epoch(self) -> None:
        """The stream has no more for this epoch."""
        self.place.epoch += 1
        self.place.start, self.place.origin = 0, None

    def _claim(
        self, step: int, rank: int, num_workers: int, max_local_batch: int | None, size: int | None = None
    ) -> SampleClaim:
        size = size or self.global_batch
        start = self.place.start + (step - self.place.step) * size
        return SampleClaim(
            step, self.place.epoch, start, size, rank, num_workers, self.num_shards, max_local_batch
        )


AnyCourse = Course | StreamCourse
