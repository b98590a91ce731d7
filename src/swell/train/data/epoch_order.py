"""Epochs in the order of the script's own sampler, drawn once an epoch and then divided among the workers.

All workers draw the same, at any size and after any restart: what is drawn is a copy of the sampler as the
script has left it, and all generators that it draws from begin with the job's seed and the epoch.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sized
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count, islice
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import (
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from swell.train.data.random_streams import Purpose, borrowed_streams, mix

_CONTAINERS = (list, tuple)
#: Samplers that draw from torch alone, and as many in each epoch as they say.
_KNOWN = (RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)
#: A sampler that gives more samples than this, and than so many passes over the data, is taken to be endless.
MOST_DRAWN, MOST_PASSES = 2**20, 32


class LoaderError(TypeError):
    """This DataLoader cannot be cut into shares."""


@dataclass(frozen=True)
class EpochOrder:
    """The samples of one epoch, in the order in which a sampler gave them."""

    indices: npt.NDArray[Any]  #: (N,) int64, or objects where a dataset's keys are no numbers
    ends: npt.NDArray[np.int64]  #: (batches,) of a batch sampler: samples up to each batch's end; else (0,)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, places: slice) -> list[Any]:
        found: list[Any] = self.indices[places].tolist()
        return found

    @cached_property
    def digest(self) -> int:
        """A number below 2**32 that tells orders apart."""
        order = repr(self[:]).encode() if self.indices.dtype == object else self.indices.data
        return crc32(self.ends.data, crc32(order))

    def places(self, start: int, num: int, own_batch: int) -> range:
        """Places in the order of the samples that `num` from `start` on stand for, at least one.

        Of a batch sampler each batch stands for as many samples as the job's own batch has, whatever it has.
        """
        if not len(self.ends):
            return range(start, start + num)
        first, last = self._place(start, own_batch), self._place(start + num, own_batch)
        return range(min(first, last - 1), last) if last else range(1)

    def batch(self, number: int) -> range:
        """Places in the order of a batch of the batch sampler; it begins again after its last one."""
        number %= len(self.ends)
        return range(int(self.ends[number - 1]) if number else 0, int(self.ends[number]))

    def sizes(self) -> npt.NDArray[np.int64]:
        """Samples of each batch."""
        return np.diff(self.ends, prepend=0)

    def _place(self, start: int, own_batch: int) -> int:
        batch, offset = divmod(start, own_batch)
        begin = int(self.ends[batch - 1]) if batch else 0
        return begin + offset * (int(self.ends[batch]) - begin) // own_batch if offset else begin


class EpochSampler:
    """The script's sampler or batch sampler. The epoch under way is kept, as an array."""

    def __init__(self, sampler: Iterable[Any], gives_batches: bool, dataset: Any, seed: int) -> None:
        self._sampler = sampler
        self._gives_batches = gives_batches
        self._dataset = dataset
        self._seed = seed
        self._is_checked = type(sampler) in _KNOWN
        self._known: tuple[int, EpochOrder] | None = None
        # Samples or batches of every epoch.
        self._length = len(sampler) if self._is_checked and isinstance(sampler, Sized) else None

    @property
    def _named(self) -> str:
        kind = "batch sampler" if self._gives_batches else "sampler"
        return f"the loader's {kind}, a {type(self._sampler).__qualname__},"

    def order(self, epoch: int, digest: int | None = None) -> EpochOrder:
        """The samples of an epoch.

        Args:
            digest: of the order in which the epoch was begun, perhaps by other workers; None: it begins now.

        Raises:
            LoaderError: the sampler does not give the same whenever it is asked for the same epoch, or not as
                many in each epoch, or none.
        """
        known = self._known
        if known is None or known[0] != epoch or digest not in (None, known[1].digest):
            order = self._draw(epoch)
            self._check(epoch, order, digest)
            known = self._known = epoch, order
        return known[1]

    def length(self, own_batch: int) -> int:
        """Samples of an epoch. Each batch of a batch sampler counts as many as the job's own batch has."""
        if self._length is None:
            self.order(0)
        assert self._length is not None  # noqa: S101 - an order is checked
        return self._length * own_batch if self._gives_batches else self._length

    @cached_property
    def mean_batch(self) -> int:
        """Samples of a batch of the batch sampler: all the first ones have as many, or the rounded mean."""
        sizes = self.order(0).sizes()
        return int(sizes[0]) if _is_even(sizes) else max(1, round(float(sizes.mean())))

    def check_batch(self, batch: int) -> None:
        """Raises LoaderError if the job's own batch is not what the batch sampler makes."""
        if not self._gives_batches:
            return
        sizes = self.order(0).sizes()
        least, most = (sizes[0], sizes[0]) if _is_even(sizes) else (sizes.min(), sizes.max())
        if least <= batch <= most:
            return
        made = f"{most}" if least == most else f"{least} to {most}"
        raise LoaderError(
            f"{self._named} makes batches of {made} samples, and the job's global batch "
            f"is {batch}; the batches of a batch sampler are the steps: submit the job with `--global-batch "
            f"{self.mean_batch}`, or have the batch sampler make batches of {batch}"
        )

    # ------------------------------------------------------------------ drawing
    def _draw(self, epoch: int) -> EpochOrder:
        with borrowed_streams(self._seed, Purpose.ORDER, epoch):
            copying = _SamplerCopy(mix(self._seed, Purpose.ORDER, epoch), epoch, self._dataset)
            given, ends = iter(copying.copy(self._sampler)), list[int]()
            if self._gives_batches:
                given = chain.from_iterable(_counted(given, ends))
            indices = _array(islice(given, self._most + 1))
        if len(indices) > self._most:
            raise LoaderError(
                f"{self._named} gives more than {self._most} samples for an epoch; elastic() draws an "
                "epoch before it divides it: have the sampler end, say after as many samples as the "
                "dataset has"
            )
        return EpochOrder(indices, np.array(ends, dtype=np.int64))

    @property
    def _most(self) -> int:
        num_samples = len(self._dataset) if isinstance(self._dataset, Sized) else 0
        return max(MOST_DRAWN, MOST_PASSES * num_samples)

    def _check(self, epoch: int, order: EpochOrder, digest: int | None) -> None:
        if not self._is_checked and self._draw(epoch).digest != order.digest:
            raise LoaderError(
                f"{self._named} gives another order each time it is asked for epoch {epoch}, so that "
                "workers would not divide the same samples; have it draw from torch, `random` or "
                "numpy.random, or from a generator that is an attribute of it, and not change objects "
                "that it shares"
            )
        self._is_checked = True
        if digest not in (None, order.digest):
            raise LoaderError(
                f"{self._named} gives another order than the one in which epoch {epoch} was begun; what "
                "the script changes in it while it trains must be known to a new worker: give the sampler "
                "state_dict() and load_state_dict(), hand it to elastic(state={'sampler': sampler}), "
                "and change it between epochs"
            )
        length = len(order.ends if self._gives_batches else order)
        if self._length is None:
            self._length = length
        if not length or length != self._length:
            what = "batches" if self._gives_batches else "samples"
            raise LoaderError(
                f"{self._named} gives {length} {what} in epoch {epoch} and {self._length} in others; how "
                "long training takes is counted in epochs of one length: have it give as many in each, at "
                "least one"
            )


class _SamplerCopy:
    """Copies a sampler with all that drawing may change, so that drawing one epoch leaves others as they are.

    Copied are samplers within it, containers, arrays and tensors; its generators begin again, with a seed.
    Everything else is shared, above all the dataset.
    """

    def __init__(self, seed: int, epoch: int, dataset: Any) -> None:
        self._seed = seed
        self._epoch = epoch
        self._numbers = count()
        self._made = {id(dataset): dataset}  # by id of what was copied

    def copy(self, thing: Any) -> Any:
        """A copy of a sampler, or of what a sampler holds."""
        if id(thing) not in self._made:
            is_sampler = isinstance(thing, Sampler) or (
                len(self._made) == 1 and type(thing) not in _CONTAINERS
            )
            make = self._copy_sampler if is_sampler and hasattr(thing, "__dict__") else self._copy_value
            self._made[id(thing)] = make(thing)
        return self._made[id(thing)]

    def _copy_sampler(self, sampler: Any) -> Any:
        made = self._made[id(sampler)] = copy(sampler)
        for name, value in vars(sampler).items():
            object.__setattr__(made, name, self.copy(value))
        if isinstance(made, DistributedSampler):  # elastic() divides the epoch among workers
            made.num_replicas, made.rank = 1, 0
            made.num_samples = made.total_size = len(made.dataset)  # type: ignore[arg-type]
        if callable(getattr(made, "set_epoch", None)):
            made.set_epoch(self._epoch)
        return made

    def _copy_value(self, value: Any) -> Any:
        if isinstance(value, torch.Generator):
            return torch.Generator(value.device).manual_seed(self._next_seed())
        if type(value) is random.Random:
            return random.Random(self._next_seed())
        if isinstance(value, np.random.RandomState):
            return np.random.RandomState(self._next_seed() & 0xFFFFFFFF)
        if isinstance(value, np.random.Generator):
            return np.random.Generator(type(value.bit_generator)(self._next_seed()))
        if isinstance(value, torch.Tensor):
            return value.detach().clone()
        if isinstance(value, np.ndarray | set | bytearray):
            return value.copy()
        if type(value) is dict:
            return {key: self.copy(each) for key, each in value.items()}
        if type(value) in _CONTAINERS:
            has_parts = any(not isinstance(each, int | float | str) for each in value)
            return type(value)(map(self.copy, value)) if has_parts else type(value)(value)
        return copy(value) if hasattr(value, "popleft") else value

    def _next_seed(self) -> int:
        return mix(self._seed, next(self._numbers))


def _counted(batches: Iterator[Any], ends: list[int]) -> Iterator[list[Any]]:
    """Batches as they come; `ends` gets the number of samples up to the end of each. None is empty."""
    num = 0
    for batch in batches:
        samples = list(batch)
        if not samples:
            raise LoaderError(
                f"the loader's batch sampler makes batch {len(ends)} of no samples; leave it out"
            )
        num += len(samples)
        ends.append(num)
        yield samples


def _array(indices: Iterator[Any]) -> npt.NDArray[Any]:
    """What a sampler gives, without a Python object for each number."""
    first = next(indices, None)
    if first is None:
        return np.empty(0, dtype=np.int64)
    everything = chain([first], indices)
    if isinstance(first, int | np.integer):
        return np.fromiter(everything, dtype=np.int64)
    if isinstance(first, torch.Tensor):
        return np.fromiter(map(int, everything), dtype=np.int64)
    keys = list(everything)
    array = np.empty(len(keys), dtype=object)
    array[:] = keys
    return array


def _is_even(sizes: npt.NDArray[np.int64]) -> bool:
    """Whether all batches have as many samples, but for a last one that may have fewer."""
    return bool((sizes[:-1] == sizes[0]).all() and sizes[-1] <= sizes[0])
