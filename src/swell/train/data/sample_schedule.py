"""Which samples each step sees and which worker computes them: a function of the place and the batch.

The order of samples depends on seed and epoch, never on the number of workers. A step takes the next samples
of that order, as many as its batch has, and the workers cut them into contiguous, nearly equal slices.
So a job sees the same batches whatever sizes it goes through, and each sample once an epoch whatever batches
it goes through: the last step of an epoch takes what is left.

A course with shards cuts twice: a step's samples into shards, always as many of a batch, and the shards among
the workers. Then what goes through the model together does not depend on the number of workers either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch

from swell.train.data.epoch_order import EpochOrder, EpochSampler
from swell.train.data.place import UNBOUNDED, Place, num_steps_in, place_after, step_size
from swell.train.data.seeds import mix


@dataclass(frozen=True, slots=True)
class Pass:
    """Samples that go through the model together: a worker's whole share of a step, or a part of it."""

    step: int
    epoch: int
    first: int  #: place of the first sample among those of the step
    indices: list[int]  #: samples to compute, never empty: see `StepCut`. Of a stream: places in the step
    num_local: int  #: samples that count; 0 when the one in `indices` is borrowed
    num_global: int  #: samples of this step on all workers
    weight: float | None = None  #: of its loss and gradients in the step's sum; None: that of its samples
    drawn_from: int | None = None  #: place in the epoch of the first sample, if a script's sampler drew them
    num_dropped: int = 0  #: samples of `num_local` that the script's collate_fn has left out

    @property
    def weight_share(self) -> float:
        """Its weight in the mean over the step's samples."""
        return self.num_local / self.num_global

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

    def without(self, num_dropped: int) -> Pass:
        """Return this pass without so many of its samples; one that is borrowed counts for nothing anyway."""
        return replace(self, num_dropped=min(num_dropped, self.num_local))


@dataclass(frozen=True, slots=True)
class Share:
    """One worker's part of one step's batch, in one pass or several."""

    passes: tuple[Pass, ...]
    shards: range = range(0)  #: those of the step that it holds, one a pass; empty without shards
    num_shards: int = 0  #: of the step, on all workers; 0 without shards
    claim: SampleClaim | None = None  #: of a stream; the share is as it is if the step has all it wants
    is_weighted: bool = False  #: the step's sum is to be divided by the sum of the passes' weights
    num_clips: int = 0  #: calls by which the script clips the sum
    order: int = 0  #: digest of the epoch's order, if a script's sampler drew it
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
        if self.claim is None:
            return self.order % 1021 + self.turn
        return mix(self.claim.epoch, self.claim.start, self.num_global) % 1021 + self.turn

    @property
    def habits(self) -> int:
        """What the script does in a step and must do on all workers alike, as a small number."""
        return 2 * self.num_clips + self.is_weighted

    def divisor(self, sum_of_words: float) -> float:
        """Return by what the sum of a step is to be divided; 0: all of its passes are empty."""
        if self.is_weighted:
            return sum_of_words
        if self.passes[0].weight is None:
            return 1.0 - sum_of_words / self.num_global
        return float(sum_of_words > 0.0)

    def without(self, number: int, num_dropped: int) -> Share:
        """Return this share without so many samples of one of its passes."""
        passes = list(self.passes)
        passes[number] = passes[number].without(num_dropped)
        return replace(self, passes=tuple(passes))

    def summed(self) -> Share:
        """This share of a step whose loss is a sum over samples: each pass counts as it is."""
        return replace(self, passes=tuple(replace(part, weight=1.0) for part in self.passes))

    def weighted(self, last: Pass) -> Share:
        """This share of a step whose passes have weights, with its last pass, which has got its own."""
        return replace(self, passes=(*self.passes[:-1], last), is_weighted=True)


@dataclass(frozen=True, slots=True)
class StepCut:
    """How the samples of a step are cut among the workers, and which of the parts a worker has."""

    rank: int
    num_workers: int
    own_batch: int  #: samples of a step of the job's own batch
    num_shards: int | None = None  #: of such a step
    max_local_batch: int | None = None  #: samples that a pass may have at most, if there is a bound
    has_even_passes: bool = False  #: all workers make as many, of which the first may be borrowed
    #: Samples of a worker, and of a shard: where there are too few for all, some have none.
    least_samples: int = 1

    def share(self, num_global: int, part: Callable[[range, range], Pass]) -> Share:
        """What the worker computes of a step of so many samples.

        Counts of the workers differ by at most one, or one shard. A worker with nothing to do computes
        borrowed samples that count for nothing, so that its model runs and its all-reduce takes part.

        Args:
            part: makes a pass, of its places among the step's samples, and of those that are computed.
        """
        places, shards, num_shards = _places(self, num_global)
        return Share(tuple([part(*each) for each in places]), shards, num_shards)

    def places(self, num_global: int) -> tuple[list[tuple[range, range]], range, int]:
        """What `share` gives to `part` for each pass, the shards of the worker, and how many there are."""
        most_parts = max(1, num_global // self.least_samples)
        if self.num_shards is None:
            num_parts = min(self.num_workers, most_parts)
            own = cut(num_parts, self.num_workers, self.rank)  # one part, or none
            places = cut(num_global, num_parts, own.start)[: None if own else 0]
            most = -(-num_global // num_parts) if self.has_even_passes else len(places)
            num_passes = 1 if self.max_local_batch is None else -(-most // self.max_local_batch)
            shards, num_shards = range(0), 0
            parts = _slices(places, max(1, num_passes))
        else:
            num_shards = min(_shards_in(num_global, self.num_shards, self.own_batch), most_parts)
            shards = cut(num_shards, self.num_workers, self.rank)
            parts = [cut(num_global, num_shards, shard) for shard in shards]
            if not parts:
                first = cut(num_global, num_shards, shards.start).start
                parts = [range(first, first)]
        pairs = [(each, each or borrowed(each.start, self.least_samples, num_global)) for each in parts]
        return pairs, shards, num_shards


@lru_cache(maxsize=4)  # nearly all steps of a run are cut alike
def _places(cut: StepCut, num_global: int) -> tuple[list[tuple[range, range]], range, int]:
    return cut.places(num_global)


@dataclass(frozen=True, slots=True)
class SampleClaim:
    """What a worker wants of a stream for one step. It is sent to the loader's processes."""

    step: int
    epoch: int
    start: int  #: samples of the epoch before this step
    num_wanted: int  #: that the step has
    cut: StepCut
    drops_last: bool

    def num_taken(self, num_found: int) -> int:
        """Samples that the step takes, of those that the stream had for it."""
        if num_found == self.num_wanted or not self.drops_last:
            return num_found
        return num_found // self.cut.own_batch * self.cut.own_batch

    def share(self, num_global: int) -> Share:
        """This worker's part, now that the step is known to have so many samples, at least one."""

        def part(places: range, computed: range) -> Pass:
            return Pass(self.step, self.epoch, places.start, list(computed), len(places), num_global)

        return replace(self.cut.share(num_global, part), claim=self)


class Schedule:
    """What the schedules of a dataset and of a stream have in common: how their steps are cut."""

    global_batch: int  #: samples of a step of the own batch
    drops_last: bool  #: leave out what an epoch has beyond whole own batches, as the loader asked
    num_shards: int | None  #: of a step of the own batch; fewer in one that has fewer samples
    total_steps: int  #: of the own batch, until the end
    has_even_passes: bool  #: all workers make as many in a step
    least_samples: int  #: of a pass, as far as a step has so many
    place: Place
    batch: int  #: samples of the coming steps

    def __post_init__(self) -> None:
        check_shards(self.global_batch, self.num_shards, None)
        self.batch = self.global_batch

    @property
    def epoch(self) -> int:
        return self.place.epoch

    def state_dict(self) -> dict[str, Any]:
        """Return the state dict of `place`, which is all that a checkpoint keeps of the course."""
        return self.place.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `place` from its state dict."""
        self.place.load_state_dict(state)

    def check_passes(self, max_local_batch: int | None) -> None:
        """Raises ValueError if a shard has more samples than a pass may have, of whatever batch it is."""
        check_shards(self.global_batch, self.num_shards, max_local_batch)

    def cut_of(self, rank: int, num_workers: int, max_local_batch: int | None) -> StepCut:
        """How steps are cut for a worker. Raises ValueError: as `check_passes`."""
        if self.num_shards is not None:
            self.check_passes(max_local_batch)
        return StepCut(
            rank,
            num_workers,
            self.global_batch,
            self.num_shards,
            max_local_batch,
            self.has_even_passes,
            self.least_samples,
        )


@dataclass
class SampleSchedule(Schedule):
    """The batches of a whole training run, in order. Steps are counted in two ways.

    Those of the *own batch* measure how far the run is: an epoch has `steps_per_epoch`, whatever batches it
    is trained with. The number of a step counts updates. With the own batch all along the two are the same.
    """

    num_samples: int  #: of an epoch: those in the dataset, or `sampler.length`
    global_batch: int
    is_shuffled: bool
    drops_last: bool
    seed: int = 0
    num_shards: int | None = None
    total_steps: int = UNBOUNDED
    has_even_passes: bool = False
    least_samples: int = 1
    place: Place = field(default_factory=Place)
    sampler: EpochSampler | None = None  #: the script's own, which says the order
    loads_ahead: bool = False  #: beyond the end of an epoch
    steps_per_epoch: int = field(init=False)  #: of the own batch
    samples_per_epoch: int = field(init=False)  #: that are trained on in an epoch

    def __post_init__(self) -> None:
        if self.num_samples < self.global_batch:
            raise ValueError(
                f"the dataset has {self.num_samples} samples and a batch takes {self.global_batch}, so "
                "no step would ever have its batch; make the batch smaller, or give more data"
            )
        super().__post_init__()
        whole, rest = divmod(self.num_samples, self.global_batch)
        self.steps_per_epoch = whole if self.drops_last or not rest else whole + 1
        self.samples_per_epoch = min(self.num_samples, self.steps_per_epoch * self.global_batch)

    # ------------------------------------------------------------------ how far the run is
    @property
    def own_steps(self) -> int:
        """Whole steps of the own batch that are done."""
        return self.place.epoch * self.steps_per_epoch + self.place.start // self.global_batch

    @property
    def samples(self) -> int:
        """That were trained on since the run began."""
        return self.place.epoch * self.samples_per_epoch + self.place.start

    @property
    def end_step(self) -> int:
        """The number of the first step that there is not, if the batch stays what it is."""
        if self.total_steps >= UNBOUNDED:
            return UNBOUNDED
        end_epoch, own_steps = divmod(self.total_steps, self.steps_per_epoch)
        rest = own_steps * self.global_batch - self.place.start
        if self.place.epoch < end_epoch:
            num_between = end_epoch - self.place.epoch - 1
            per_epoch = num_steps_in(self.samples_per_epoch, self.batch)
            to_end_of_epoch = num_steps_in(self.samples_per_epoch - self.place.start, self.batch)
            last = num_steps_in(own_steps * self.global_batch, self.batch)
            return self.place.step + to_end_of_epoch + num_between * per_epoch + last
        return self.place.step + num_steps_in(max(0, rest), self.batch)

    def finish_step(self, share: Share) -> None:
        """The step that begins at the place is done."""
        place = self.place
        place.start += step_size(self._end_of(place.epoch) - place.start, self.batch, self.drops_last)
        place.step, place.order = place.step + 1, share.order or None
        if place.start >= self.samples_per_epoch:
            self.end_epoch()

    def end_epoch(self) -> None:
        self.place.epoch, self.place.start, self.place.order = self.place.epoch + 1, 0, None

    # ------------------------------------------------------------------ what a step has
    def share(self, step: int, rank: int, num_workers: int, max_local_batch: int | None = None) -> Share:
        """What worker `rank` of `num_workers` computes in a step, from the one at the place on.

        Args:
            max_local_batch: samples that a pass may have at most, if there is a bound.

        Raises:
            ValueError: a shard has more samples than that.
        """
        epoch, start, num_global = self._reach(step)
        order = self._order(epoch)
        if is_drawn := isinstance(order, EpochOrder):
            places = order.places(start, num_global, self.global_batch)
            start, num_global = places.start, len(places)

        def part(places: range, computed: range) -> Pass:
            indices = list(order[start + computed.start : start + computed.stop])
            drawn_from = start + computed.start if is_drawn else None
            return Pass(step, epoch, places.start, indices, len(places), num_global, drawn_from=drawn_from)

        share = self.cut_of(rank, num_workers, max_local_batch).share(num_global, part)
        return replace(share, order=order.digest) if isinstance(order, EpochOrder) else share

    def trial_pass(self, step: int, places: range, size: int) -> Pass:
        """Make a pass of a trial run, in which each step has `size` samples of the first epoch."""
        if self.sampler is None:
            indices = [(step * size + place) % self.num_samples for place in places]
            return Pass(step, 0, places.start, indices, len(places), size)
        order = self.sampler.order(0)
        among = order.batch(step) if order.ends is not None else range(len(order))
        first = 0 if order.ends is not None else step * size
        drawn = [among[(first + place) % len(among)] for place in places]
        indices = order.indices[drawn].tolist()
        return Pass(step, 0, places.start, indices, len(places), size, drawn_from=drawn[0])

    def loading_end(self) -> int:
        """The number of the first step that cannot be loaded ahead.

        A sampler is drawn when its epoch begins, as a loader does, and a loader without `persistent_workers`
        starts its processes then: the script may change sampler and dataset between epochs.
        """
        if self.sampler is None and self.loads_ahead:
            return self.end_step
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
        if ahead:
            start += place_after(end - start, self.batch, self.drops_last, ahead)
        return epoch, start, step_size(end - start, self.batch, self.drops_last)

    def _end_of(self, epoch: int) -> int:
        """Samples of an epoch that the run trains on: fewer in one in which it ends."""
        own_steps = self.total_steps - epoch * self.steps_per_epoch
        return min(self.samples_per_epoch, own_steps * self.global_batch)

    def _order(self, epoch: int) -> Sequence[int] | EpochOrder:
        if self.sampler is not None:
            return self.sampler.order(epoch, self.place.order if epoch == self.place.epoch else None)
        return _shuffled(self.num_samples, self.seed, epoch) if self.is_shuffled else range(self.num_samples)


def borrowed(start: int, num: int, num_global: int) -> range:
    """Return places of samples that another worker computes as well."""
    first = max(0, min(start, num_global - num))
    return range(first, min(first + num, num_global))


def _shards_in(num_samples: int, num_shards: int, own_batch: int) -> int:
    """Shards of a step of so many samples, none of them larger than those of the own batch."""
    return num_shards if num_samples <= own_batch else -(-num_samples * num_shards // own_batch)


def check_shards(global_batch: int, num_shards: int | None, max_local_batch: int | None) -> None:
    """Raises ValueError if a step cannot be cut into so many shards, or a shard has too many samples."""
    if num_shards is None:
        return
    if not 1 <= num_shards <= global_batch:
        raise ValueError(
            f"shards={num_shards} of a batch of {global_batch} samples cannot be; each shard "
            f"needs a sample: give elastic() shards=1 to shards={global_batch}"
        )
    largest = -(-global_batch // num_shards)
    if max_local_batch is not None and largest > max_local_batch:
        raise ValueError(
            f"a shard has {largest} samples and a device has room for {max_local_batch}; a shard is "
            "never cut, for that would change the sums: give elastic() "
            f"shards={-(-global_batch // max_local_batch)} or more"
        )


def cut(num_things: int, num_parts: int, part: int) -> range:
    """One of the contiguous, nearly equal parts into which things are cut."""
    return range(part * num_things // num_parts, (part + 1) * num_things // num_parts)


def default_shards(global_batch: int) -> int:
    """The default number of shards, which up to eight workers can share.

    It is the largest power of two up to 8 and up to the batch.
    """
    return 1 << (min(8, global_batch).bit_length() - 1)


def slices(places: range, max_size: int | None) -> list[range]:
    """Nearly equal slices of at most `max_size`, at least one."""
    return _slices(places, 1 if max_size is None else max(1, -(-len(places) // max_size)))


def _slices(places: range, num_slices: int) -> list[range]:
    parts = (cut(len(places), num_slices, number) for number in range(num_slices))
    return [range(places.start + part.start, places.start + part.stop) for part in parts]


def tighter(*bounds: int | None) -> int | None:
    """The smallest of some bounds, of which None is no bound."""
    return min((bound for bound in bounds if bound is not None), default=None)


@lru_cache(maxsize=2)  # prefetching looks one epoch ahead
def _shuffled(num_samples: int, seed: int, epoch: int) -> list[int]:
    generator = torch.Generator().manual_seed(mix(seed, epoch))
    order: list[int] = torch.randperm(num_samples, generator=generator).tolist()
    return order
