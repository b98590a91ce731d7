"""Which samples each step sees and which worker computes them: a function of the place and the batch.

The order of samples depends on seed and epoch, never on the number of workers. A step takes the next samples
of that order, as many as its batch has, and the workers cut them into contiguous slices: nearly equal
ones, or by `shares`, which follow the speeds of the workers.
So a job sees the same batches whatever sizes it goes through, and each sample once an epoch whatever batches
it goes through: the last step of an epoch takes what is left.

A course with shards cuts twice: a step's samples into shards, always as many of a batch, and the shards among
the workers. Then what goes through the model together does not depend on the number of workers either.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch

from swell.train.data.epoch_order import EpochOrder, EpochSampler
from swell.train.data.place import UNBOUNDED, Place, num_steps_in
from swell.train.data.random_streams import mix
from swell.train.data.unequal_shares import places_of


@dataclass(frozen=True, slots=True)
class Pass:
    """Samples that go through the model together: a worker's whole share of a step, or a part of it."""

    step: int
    epoch: int
    first: int  #: place of the first sample among those of the step
    #: Samples to compute, never empty: see `SampleSchedule.share`. Of a stream: places in the step.
    indices: list[int]
    num_local: int  #: samples that count; 0 when the one in `indices` is borrowed
    num_global: int  #: samples of this step on all workers
    weight: float | None = None  #: of its loss and gradients in the step's sum; None: that of its samples
    #: Place in the epoch of the first of `indices`, if a script's sampler drew them, or of a stream.
    drawn_from: int | None = None
    num_dropped: int = 0  #: samples of `num_local` that the script's collate_fn has left out

    @property
    def factor(self) -> float:
        """The number that its loss and gradients are multiplied by before they are summed."""
        if self.weight is None:
            return (self.num_local - self.num_dropped) / self.num_global
        return self.weight if self.num_dropped < self.num_local else 0.0

    @property
    def word(self) -> float:
        """What is summed over a step's passes to know by what to divide: see `Share.divisor`."""
        return float(self.num_dropped) if self.weight is None else self.factor


@dataclass(frozen=True, slots=True)
class Share:
    """One worker's part of one step's batch, in one pass or several."""

    passes: tuple[Pass, ...]
    shards: range = range(0)  #: those of the step that it holds, one a pass; empty without shards
    num_shards: int = 0  #: of the step, on all workers; 0 without shards
    is_weighted: bool = False  #: the step's sum is to be divided by the sum of the passes' weights
    order: int = 0  #: digest of the epoch's order if a script's sampler drew it; of a stream, of the place
    unit: int = 0  #: of a stream: an epoch's last step has a multiple of so many samples; 0: of a dataset
    origin: dict[str, Any] | None = None  #: a stream's own account of the place after the step
    turn: int = 0  #: tells the steps of a batch apart, if several optimizers step in it

    @property
    def num_local(self) -> int:
        """Samples that count."""
        return sum(part.num_local for part in self.passes)

    @property
    def num_global(self) -> int:
        """Samples of the step on all workers."""
        return self.passes[0].num_global

    @property
    def mark(self) -> int:
        """A small number that tells places of a stream and drawn orders apart, the same on all workers.

        It tells the steps of several optimizers apart, too. 0 where there is nothing to tell.
        """
        return self.order % 1021 + self.turn

    def divisor(self, sum_of_words: float) -> float:
        """Return by what the sum of a step is to be divided; 0: all of its passes are empty."""
        if self.is_weighted:
            return sum_of_words
        if self.passes[0].weight is None:
            return 1.0 - sum_of_words / self.passes[0].num_global
        return float(sum_of_words > 0.0)

    def without(self, number: int, num_dropped: int) -> Share:
        """Return this share without so many samples of one of its passes."""
        passes, part = list(self.passes), self.passes[number]
        # One that is borrowed counts for nothing anyway.
        passes[number] = replace(part, num_dropped=min(num_dropped, part.num_local))
        return replace(self, passes=tuple(passes))

    def summed(self) -> Share:
        """This share of a step whose loss is a sum over samples: each pass counts as it is."""
        return replace(self, passes=tuple(replace(part, weight=1.0) for part in self.passes))

    def weighted(self, last: Pass) -> Share:
        """This share of a step whose passes have weights, with its last pass, which has got its own."""
        return replace(self, passes=(*self.passes[:-1], last), is_weighted=True)


class StreamError(RuntimeError):
    """The stream does not give what a step needs, or not the same to all workers."""


@dataclass
class SampleSchedule:
    """The batches of a whole training run, in order. Steps are counted in two ways.

    Those of the *own batch* measure how far the run is: an epoch has `steps_per_epoch`, whatever batches it
    is trained with. The number of a step counts updates. With the own batch all along the two are the same.

    The samples of a stream come in an order and have no numbers, and reading finds where an epoch ends. Each
    worker reads all of it, so all find the same without a word between them.
    """

    num_samples: int  #: of an epoch: of the dataset, or `sampler.length`; of a stream what it says, or 0
    global_batch: int  #: samples of a step of the own batch
    is_shuffled: bool
    drops_last: bool  #: leave out what an epoch has beyond whole own batches, as the loader asked
    seed: int = 0
    num_shards: int | None = None  #: of a step of the own batch; fewer in one that has fewer samples
    total_steps: int = UNBOUNDED  #: of the own batch, until the end
    least_samples: int = 1  #: of a pass, as far as a step has so many
    #: Processes of each worker that share its samples out, in as many passes each, and which one this is.
    num_parts: int = 1
    part: int = 0
    num_passes: int = 0  #: that each worker makes in a step; 0: as many as it needs
    #: Samples of each worker in a step of `batch` samples, by rank; empty: nearly equal parts.
    shares: tuple[int, ...] = ()
    place: Place = field(default_factory=Place)
    sampler: EpochSampler | None = None  #: the script's own, which says the order
    is_stream: bool = False
    is_length_told: bool = False  #: that `num_samples` of a stream is wrong, or it is not to be told
    batch: int = field(init=False)  #: samples of the coming steps
    steps_per_epoch: int = field(init=False)  #: of the own batch; 0: not known
    samples_per_epoch: int = field(init=False)  #: that are trained on in an epoch; 0: not known
    #: Epoch, place and batch of a stream's step that lacks samples, and those that it has.
    _short_step: tuple[int, int, int, int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.num_samples < self.global_batch and not self.is_stream:
            raise ValueError(
                f"the dataset has {self.num_samples} samples and a batch takes {self.global_batch}, so "
                "no step would ever have its batch; make the batch smaller, or give more data"
            )
        self.check_passes(None)
        self.batch = self.global_batch
        whole, rest = divmod(self.num_samples, self.global_batch)
        self.steps_per_epoch = whole if self.drops_last or not rest else whole + 1
        self.samples_per_epoch = min(self.num_samples, self.steps_per_epoch * self.global_batch)

    # ------------------------------------------------------------------ how far the run is
    @property
    def epoch(self) -> int:
        return self.place.epoch

    @property
    def own_steps(self) -> int:
        """Whole steps of the own batch that are done."""
        return self.place.steps_before + self.place.start // self.global_batch

    @property
    def samples(self) -> int:
        """That were trained on since the run began."""
        return self.place.samples_before + self.place.start

    @property
    def is_at_last_step(self) -> bool:
        """Whether the run ends with the coming step, if a stream goes on so long."""
        steps_left = self.total_steps - self.place.steps_before  # from the beginning of the epoch
        if steps_left > self.steps_per_epoch and not self.is_stream:
            return False
        return self._end_of(self.place.epoch) - self.place.start <= self.batch

    def state_dict(self) -> dict[str, Any]:
        """Return the state dict of `place`, which is all that a checkpoint keeps of the course."""
        return self.place.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `place` from its state dict, also from a run with another own batch."""
        place = self.place
        place.load_state_dict(state)
        if not self.is_stream:
            place.steps_before = place.epoch * self.steps_per_epoch
            place.samples_before = place.epoch * self.samples_per_epoch

    def finish_step(self, share: Share) -> None:
        """The step that begins at the place is done."""
        place = self.place
        if self.is_stream:
            size, is_over = share.num_global, self._is_short(place.start)
        else:  # a batch of a batch sampler counts as the own batch
            size = min(self._end_of(place.epoch) - place.start, self.batch)
            is_over = place.start + size >= self.samples_per_epoch
        place.step, place.start, place.order = place.step + 1, place.start + size, share.order or None
        place.origin = share.origin or place.origin
        if is_over:
            self.end_epoch()

    def end_epoch(self) -> None:
        place = self.place
        num_steps = num_steps_in(place.start, self.global_batch)
        if self.is_stream and self.num_samples:
            self._check_length(num_steps)
        place.steps_before += num_steps
        place.samples_before += place.start
        place.epoch, place.start, place.order, place.origin = place.epoch + 1, 0, None, None

    def _check_length(self, num_steps: int) -> None:
        is_off = abs(self.steps_per_epoch - num_steps) > self.drops_last
        if is_off and not self.is_length_told:
            self.is_length_told = True
            warnings.warn(
                f"epoch {self.epoch} of the stream had {self.place.start} samples, and len() of its dataset "
                f"is {self.num_samples}; training follows the stream, but run.total_steps, run.progress and "
                "when the job is expected to end are wrong: have __len__ tell how many samples __iter__ "
                "gives",
                stacklevel=2,
            )

    # ------------------------------------------------------------------ what a step has
    @property
    def least_share(self) -> int:
        """Samples of a worker in a step, if it has any."""
        return self.least_samples * max(1, self.num_passes)

    def share(self, step: int, rank: int, num_workers: int, max_local_batch: int | None = None) -> Share:
        """What worker `rank` of `num_workers` computes in a step, from the one at the place on.

        Of a stream it is so if that has all samples that the step wants; see `note_end`.

        Args:
            max_local_batch: samples that a pass may have at most, if there is a bound.

        Raises:
            ValueError: a shard has more samples than that.
        """
        epoch, start, num_global = self._reach(step)
        order = self._order(epoch)
        if is_drawn := isinstance(order, EpochOrder):
            drawn = order.places(start, num_global, self.global_batch)
            start, num_global = drawn.start, len(drawn)

        def part(places: range) -> Pass:
            computed = places
            if not places:  # borrowed from another worker
                begin = max(0, min(places.start, num_global - self.least_samples))
                computed = range(begin, min(begin + self.least_samples, num_global))
            first = start + computed.start
            indices = list(computed if order is None else order[first : start + computed.stop])
            drawn_from = first if is_drawn or order is None else None
            return Pass(step, epoch, places.start, indices, len(places), num_global, drawn_from=drawn_from)

        parts, shards, num_shards = self._cut(num_global, rank, num_workers, max_local_batch)
        digest = order.digest if isinstance(order, EpochOrder) else 0
        unit = 0
        if order is None:
            digest, unit = mix(epoch, start, num_global), self.global_batch if self.drops_last else 1
        return Share(tuple(map(part, parts)), shards, num_shards, order=digest, unit=unit)

    def _cut(
        self, num_global: int, rank: int, num_workers: int, max_local_batch: int | None
    ) -> tuple[list[range], range, int]:
        """The parts of a step of so many samples that a worker computes, one a pass.

        Without `shares` the counts of the workers differ by at most one, or one shard. A worker with nothing
        to do has an empty part: it computes borrowed samples that count for nothing, so that its all-reduce
        takes part.

        Returns:
            For each pass its places among the step's samples; the worker's shards; and how many the step has.
        """
        most_parts = max(1, num_global // self.least_share)
        if self.num_shards is None:
            num_processes = num_workers * self.num_parts
            num_parts = min(num_processes, most_parts)
            places = places_of(self.shares, rank, num_global, self.least_share)
            if places is None:
                own = cut(num_parts, num_processes, rank * self.num_parts + self.part)  # one part, or none
                places = cut(num_global, num_parts, own.start)[: None if own else 0]
            if self.num_passes:
                return self._counted_passes(places, max_local_batch), range(0), 0
            most = len(places) if self.num_parts == 1 else -(-num_global // num_parts)
            return slices(places, most, max_local_batch), range(0), 0
        self.check_passes(max_local_batch)
        # Of a larger batch no shard is larger than those of the own batch.
        wanted = max(self.num_shards, -(-num_global * self.num_shards // self.global_batch))
        num_shards = min(wanted, most_parts)
        shards = cut(num_shards, num_workers, rank)
        parts = [cut(num_global, num_shards, shard) for shard in shards]
        return parts or [cut(num_global, num_shards, shards.start)[:0]], shards, num_shards

    def _counted_passes(self, places: range, max_local_batch: int | None) -> list[range]:
        passes = slices(places, self.num_passes, 1)
        if max_local_batch is not None and max(map(len, passes)) > max_local_batch:
            raise ValueError(
                f"a device has room for {max_local_batch} samples, and this worker's part of a batch that "
                f"the script accumulates has {max(map(len, passes))}: ask for more workers, or have it "
                "accumulate more batches of fewer samples"
            )
        return passes

    def check_passes(self, max_local_batch: int | None) -> None:
        """Raises ValueError if a step cannot be cut into its shards, or one is larger than a pass may be."""
        own_batch, num_shards = self.global_batch, self.num_shards
        if num_shards is None:
            return
        if not 1 <= num_shards <= own_batch:
            raise ValueError(
                f"shards={num_shards} of a batch of {own_batch} samples cannot be; each shard "
                f"needs a sample: give elastic() shards=1 to shards={own_batch}"
            )
        largest = -(-own_batch // num_shards)
        if max_local_batch is not None and largest > max_local_batch:
            raise ValueError(
                f"a shard has {largest} samples and a device has room for {max_local_batch}; a shard is "
                "never cut, for that would change the sums: give elastic() "
                f"shards={-(-own_batch // max_local_batch)} or more"
            )

    def trial_share(
        self, step: int, places: range, size: int, num_shards: int, max_local_batch: int | None
    ) -> Share:
        """The share of a worker that computes these places of a step of `size` samples, in a trial run.

        A short step of a stream is left out, because it would be taken for a quick one.

        Args:
            num_shards: into which the places are divided; 0: none.
        """
        num_parts = min(self.num_parts, max(1, len(places) // self.least_samples))
        own = slices(places, num_parts, 1)[min(self.part, num_parts - 1)]
        most = -(-len(places) // self.num_parts)
        parts = slices(places, num_shards, 1) if num_shards else slices(own, most, max_local_batch)
        passes = tuple(self.trial_pass(step, part, size) for part in parts)
        return Share(passes, range(num_shards), num_shards, unit=size if self.is_stream else 0)

    def trial_pass(self, step: int, places: range, size: int) -> Pass:
        """Make a pass of a trial run, in which each step has `size` samples of the first epoch."""
        if self.is_stream:
            start = self.place.start + (step - self.place.step) * size
            first, own = start + places.start, list(places)
            return Pass(step, self.epoch, places.start, own, len(places), size, drawn_from=first)
        if self.sampler is None:
            # Of samples that come in a shuffled order these are spread over all of them.
            first, width = (step, max(1, self.num_samples // size)) if self.is_shuffled else (step * size, 1)
            indices = [(first + place * width) % self.num_samples for place in places]
            return Pass(step, 0, places.start, indices, len(places), size)
        order = self.sampler.order(0)
        has_batches = len(order.ends) > 0
        first, among = (0, order.batch(step)) if has_batches else (step * size, range(len(order)))
        drawn = [among[(first + place) % len(among)] for place in places]
        indices = order.indices[drawn].tolist()
        return Pass(step, 0, places.start, indices, len(places), size, drawn_from=drawn[0])

    def note_end(self, share: Share, num_found: int) -> int:
        """The coming step of a stream has only so many samples: the epoch ends. Returns those that it takes.

        From here on its shares are of these; if they are none, there is no such step.

        Raises:
            StreamError: the epoch has fewer samples than a batch.
        """
        place, num_taken = self.place, num_found // share.unit * share.unit
        least = min(share.num_global, self.global_batch)
        if place.start == 0 and (num_found < least or not num_taken):
            raise StreamError(
                f"epoch {place.epoch} of the stream has {num_found} samples and a batch takes "
                f"{share.num_global}; make the batch smaller, or give more data"
            )
        if num_taken:
            self._short_step = place.epoch, place.start, self.batch, num_taken
        return num_taken

    @property
    def loading_end(self) -> int:
        """The number of the first step that cannot be loaded ahead.

        A sampler is drawn when its epoch begins, as a loader does, and a loader without `persistent_workers`
        starts its processes then: the script may change sampler and dataset between epochs.
        """
        rest = self._end_of(self.place.epoch) - self.place.start
        return self.place.step + num_steps_in(rest, self.batch)

    def _reach(self, step: int) -> tuple[int, int, int]:
        """Return the epoch of a step at the current batch, the epoch's samples before it, and its own."""
        epoch, start, ahead = self.place.epoch, self.place.start, step - self.place.step
        end = self._end_of(epoch)
        num_steps = num_steps_in(end - start, self.batch)
        if ahead >= num_steps:
            whole, ahead = divmod(ahead - num_steps, num_steps_in(self.samples_per_epoch, self.batch))
            epoch, start = epoch + 1 + whole, 0
            end = self._end_of(epoch)
        start = min(end, start + ahead * self.batch)
        if self._short_step is not None and self._is_short(start):
            return epoch, start, self._short_step[-1]
        return epoch, start, min(end - start, self.batch)

    def _is_short(self, start: int) -> bool:
        """Whether a stream's step that begins there lacks samples, as far as that was found."""
        return self._short_step is not None and self._short_step[:-1] == (self.epoch, start, self.batch)

    def _end_of(self, epoch: int) -> int:
        """Samples of an epoch that the run trains on: fewer in one in which it ends."""
        own_steps = self.total_steps - self.place.steps_before
        if self.is_stream:
            return own_steps * self.global_batch
        own_steps -= (epoch - self.place.epoch) * self.steps_per_epoch
        return min(self.samples_per_epoch, own_steps * self.global_batch)

    def _order(self, epoch: int) -> Sequence[int] | EpochOrder | None:
        """The samples of an epoch; None of a stream, whose samples have no numbers."""
        if self.is_stream:
            return None
        if self.sampler is not None:
            return self.sampler.order(epoch, self.place.order if epoch == self.place.epoch else None)
        return _shuffled(self.num_samples, self.seed, epoch) if self.is_shuffled else range(self.num_samples)


def cut(num_things: int, num_parts: int, part: int) -> range:
    """One of the contiguous, nearly equal parts into which things are cut."""
    return range(part * num_things // num_parts, (part + 1) * num_things // num_parts)


def default_shards(global_batch: int) -> int:
    """The default number of shards, which up to eight workers can share.

    It is the largest power of two up to 8 and up to the batch.
    """
    return 1 << (min(8, global_batch).bit_length() - 1)


def slices(places: range, most: int, max_size: int | None) -> list[range]:
    """Nearly equal slices, as many as `most` places need if a slice has at most `max_size`; at least one."""
    num_slices = 1 if max_size is None else -(-most // max_size)
    if num_slices <= 1:
        return [places]
    parts = (cut(len(places), num_slices, number) for number in range(num_slices))
    return [places[part.start : part.stop] for part in parts]


def tighter(*bounds: int | None) -> int | None:
    """The smallest of some bounds, of which None is no bound."""
    return min((bound for bound in bounds if bound is not None), default=None)


@lru_cache(maxsize=2)  # prefetching looks one epoch ahead
def _shuffled(num_samples: int, seed: int, epoch: int) -> list[int]:
    generator = torch.Generator().manual_seed(mix(seed, epoch))
    order: list[int] = torch.randperm(num_samples, generator=generator).tolist()
    return order
