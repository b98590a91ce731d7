"""The script's dataset, with the random numbers of each sample bound to the sample.

A sample may be loaded by any worker of the gang, or by one of its loader's processes: whatever the dataset
draws for it, a crop or a flip, is set by seed, epoch and sample alone. Where a script's own sampler says the
order, and may give a sample more than once, its place in the epoch is taken for the sample.

A loss is a mean over the rows that are there, so a worker counts by its rows and not by its samples, of which
a `collate_fn` may leave some out, such as those that could not be read. A batch is looked at where its sizes
tell nothing else; only where one is not what it was so far, samples are collated one by one to see which.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    default_collate,
    get_worker_info,
)
from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map

from swell.train.data.epoch_order import LoaderError
from swell.train.data.random_streams import STREAMS, Purpose, mix, seed_streams
from swell.train.data.sample_schedule import Pass

_CPU = torch.device("cpu")
#: A stream is set to this. If the next number is not the one that then comes first, somebody has drawn.
_CANARY = 20_260_105 * (2**31 + 1)
#: Types of tensors whose rows can be taken by a list of their numbers.
_NUMBERS = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16}
_NUMBERS |= {torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128}
_SET_PARENT_DEATH_SIGNAL = 1  #: PR_SET_PDEATHSIG of Linux's prctl(2)
#: The number of a round of tickets, and a pass whose batch is wanted; None: there is nothing to do. A new
#: round makes those before it void.
Ticket = tuple[int, Pass | None]
#: Parts of a batch that are looked at, and how deep they may lie in others.
MAX_PARTS, MAX_NESTED = 16, 3
#: Samples that are tried where a batch has none, and how many are wanted: a batch norm needs two.
MAX_SPARES, NUM_SPARES = 64, 2


class TicketResult(NamedTuple):
    """What a ticket got."""

    round: int
    batch: Any = None
    num_dropped: int = 0  #: samples that the collate_fn has left out
    num_found: int | None = None  #: of a stream that ends: samples that there are for the step; no batch
    origin: dict[str, Any] | None = None  #: a stream's own account of the place after the step


class CoveringDataset(Dataset[Any]):
    """What a DataLoader is given in place of the script's dataset: it makes the batch of a `Ticket`."""

    def __init__(self, loader: DataLoader[Any], seed: int, current: torch.Tensor | None) -> None:
        """`current`: () int64, in memory that all processes share: the round that counts; None: any."""
        self.dataset: Any = loader.dataset
        self._seed = seed
        self._current = current
        self._collates_plainly = loader.collate_fn is default_collate  # which draws nothing, and drops none
        self._collate = CountingCollate(loader.collate_fn, loader.dataset)

    def __getitem__(self, ticket: Ticket) -> TicketResult:
        number, part = ticket
        if part is None or (self._current is not None and number < int(self._current)):
            return TicketResult(number)
        return self._serve(number, part)

    def _serve(self, number: int, part: Pass) -> TicketResult:
        raise NotImplementedError

    def _serving(self, number: int, part: Pass, samples: list[Any], spares: Any = None) -> TicketResult:
        """`spares`: see `CountingCollate`."""
        if self._collates_plainly:
            return TicketResult(number, default_collate(samples))
        seed_streams(_CPU, self._seed, Purpose.COLLATE, part.step, part.first)
        num_dropped, batch = self._collate(samples, spares)
        return TicketResult(number, batch, num_dropped)


def traits_of(dataset: Any) -> list[Any]:
    """Return what a dataset holds, at a glance: the same as before if it has not been changed.

    Of a large thing it is seen which one it is, and of what length, and not whether a part of it has changed.
    """
    traits: list[Any] = []
    for name, value in getattr(dataset, "__dict__", {}).items():
        if isinstance(value, bool | int | float | str | None):
            traits.append((name, value))
        elif isinstance(value, Dataset):
            traits.append((name, traits_of(value)))
        elif isinstance(value, torch.Tensor) and not value.is_inference():
            traits.append((name, id(value), value._version))
        else:
            is_container = isinstance(value, list | dict | set)
            traits.append((name, id(value), len(value) if is_container else 0))
    return traits


class Samples(CoveringDataset):
    """Makes batches of a dataset whose samples have numbers.

    Setting three generators for each sample takes longer than a small dataset takes to find it. So those that
    the dataset does not draw from are not set. That it does not is checked in each pass, and a pass in which
    it is found to draw from one more is loaded again.
    """

    def __init__(self, loader: DataLoader[Any], seed: int, current: torch.Tensor | None) -> None:
        super().__init__(loader, seed, current)
        self._drawn: list[int] = []  # streams that the dataset is known to draw from
        self._is_probed = False
        self._is_plain = type(loader.dataset) is TensorDataset  # draws nothing
        is_stacked = self._collates_plainly and default_collate_fn_map[torch.Tensor] is collate_tensor_fn
        #: A batch is taken of these at once; without any it is taken sample by sample.
        self._tensors = self.dataset.tensors if self._is_plain and is_stacked else ()
        if not all(map(_has_rows, self._tensors)):
            self._tensors = ()

    def _serve(self, number: int, part: Pass) -> TicketResult:
        if self._tensors and type(part.indices[0]) is int:
            chosen = torch.tensor(part.indices)
            return TicketResult(number, [tensor[chosen] for tensor in self._tensors])
        samples = self._read(part.indices) if self._is_plain else self._read_alike(part)
        return self._serving(number, part, samples)

    def _read_alike(self, part: Pass) -> list[Any]:
        if not self._is_probed:  # one sample is soon loaded twice, and of most datasets it tells all
            self._load(part, part.indices[:1])
            self._is_probed = True
        samples = None
        while samples is None:
            samples = self._load(part, part.indices)
        return samples

    def _load(self, part: Pass, indices: list[int]) -> list[Any] | None:
        """None if the dataset drew from a stream that was not set for each sample."""
        watched = [number for number in range(len(STREAMS)) if number not in self._drawn]
        for number in watched:
            STREAMS[number].seed(_CANARY)
        samples = self._fetch(part, indices)
        found = [number for number in watched if STREAMS[number].draw() != _first_draw(number)]
        self._drawn += found
        return None if found else samples

    def _fetch(self, part: Pass, indices: list[int]) -> list[Any]:
        if not self._drawn:
            return self._read(indices)
        samples = []
        for offset, index in enumerate(indices):
            # A sampler may draw a sample several times an epoch, each time with random numbers of its own.
            number = index if part.drawn_from is None else part.drawn_from + offset
            seed = mix(self._seed, Purpose.SAMPLE, part.epoch, number)
            for number in self._drawn:
                STREAMS[number].seed(seed)
            samples += self._read([index])
        return samples

    def _read(self, indices: list[int]) -> list[Any]:
        fetch = getattr(self.dataset, "__getitems__", None)
        if fetch:
            samples = list(fetch(indices))
            if len(samples) != len(indices):
                raise LoaderError(
                    f"__getitems__ of the dataset, a {type(self.dataset).__name__}, gives {len(samples)} "
                    f"samples for {len(indices)}, and workers count by their samples; have it give None for "
                    "those that are missing, and leave these out in a collate_fn"
                )
            return samples
        return [self.dataset[index] for index in indices]


def _has_rows(tensor: torch.Tensor) -> bool:
    """Whether many of its rows at once are the same, in layout too, as one by one and then stacked."""
    is_plain = type(tensor) is torch.Tensor and tensor.dtype in _NUMBERS and tensor.layout == torch.strided
    return is_plain and not tensor.is_nested and tensor.is_contiguous()


@cache
def _first_draw(number: int) -> float:
    """The number that a stream gives first when it is set to the canary. Leaves it there."""
    STREAMS[number].seed(_CANARY)
    return STREAMS[number].draw()


def begin_process(own: Callable[[int], None] | None, number: int) -> None:
    """A loader's `worker_init_fn`: the script's own, for which the dataset is the script's own too.

    A stream that cuts itself up among the loader's processes is told of one: each of them reads all of it.
    The kernel ends the process with the worker that started it. By itself a loader's process notices within
    seconds that its parent was killed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    info = get_worker_info()
    if info is not None and isinstance(info.dataset, CoveringDataset):
        told: dict[str, Any] = {"dataset": info.dataset.dataset}
        if isinstance(info.dataset.dataset, IterableDataset):
            told |= {"id": 0, "num_workers": 1}
        for name, value in told.items():
            object.__setattr__(info, name, value)  # its own way refuses changes
    if own is not None:
        own(number)


class CountingCollate:
    """A loader's own collate_fn, with the number of samples that it leaves out."""

    def __init__(self, collate: Callable[[list[Any]], Any], dataset: Any = None) -> None:
        """`dataset`: has samples by number to take in place of those that are all left out."""
        self._collate = collate
        self._dataset = dataset
        #: Parts of a batch that have a row for each sample, as far as is known. Empty: none has.
        self._parts: set[Any] | None = None

    def __call__(self, samples: list[Any], spares: Iterable[Any] | None = None) -> tuple[int, Any]:
        """How many samples the collate_fn has left out, and the batch: of other ones, if that were all.

        `spares`: to be collated where all samples are left out; None: the dataset's.
        """
        spares = self._spares() if spares is None else spares
        try:
            batch = self._collate(samples)
        except Exception:
            if any(map(self._is_kept, samples)) or (spare := self._spare(spares)) is None:
                raise
            return len(samples), spare
        num_dropped = self._num_dropped(samples, batch)
        if num_dropped == len(samples):
            spare = self._spare(spares)
            batch = batch if spare is None else spare
        return num_dropped, batch

    def _num_dropped(self, samples: Sequence[Any], batch: Any) -> int:
        sizes, num = sizes_of(batch), len(samples)
        whole = {part for part, size in sizes.items() if size == num}
        if whole and (self._parts is None or self._parts <= whole):
            self._parts = self._parts or whole
            return 0
        num_none = sum(sample is None for sample in samples)
        if self._parts == set() and not num_none:
            return 0
        num_kept = sum(map(self._is_kept, samples))
        rows = {part for part, size in sizes.items() if size == num_kept}
        if _is_empty(batch) and not num_kept:
            return num
        if 0 < num_kept < num and (rows or num_kept == num - num_none):
            self._parts = rows & (self._parts or rows)
            return num - num_kept
        self._parts = whole & (self._parts or whole)  # what is of another length has no row for each sample
        return 0

    def _is_kept(self, sample: Any) -> bool:
        """Tell whether a batch of this sample alone has anything in it."""
        try:
            return not _is_empty(self._collate([sample]))
        except Exception:  # noqa: BLE001 - of the script's own, to which one sample may be too few
            return False

    def _spare(self, spares: Iterable[Any]) -> Any:
        """Return a batch of other samples, which counts for nothing; None if there is none."""
        chosen = list(islice(filter(self._is_kept, islice(spares, MAX_SPARES)), NUM_SPARES))
        return self._collate(chosen) if chosen else None

    def _spares(self) -> Iterator[Any]:
        for number in range(len(self._dataset)):
            try:
                yield self._dataset[number]
            except (IndexError, KeyError, TypeError):  # its keys are no numbers
                return


def sizes_of(batch: Any) -> dict[Any, int]:
    """Lengths of a batch and of its parts, by their names or places; of the batch itself by ()."""
    sizes = {(): _length(batch), **dict(islice(_sizes_within(batch), MAX_PARTS))}
    return {name: size for name, size in sizes.items() if size >= 0}


def _sizes_within(batch: Any, around: tuple[Any, ...] = ()) -> Iterator[tuple[Any, int]]:
    """Yield the lengths of the parts of a batch, and where one has none those of its own parts."""
    for name, part in _parts_of(batch):
        size = _length(part)
        yield (*around, name), size
        if size < 0 and len(around) < MAX_NESTED:
            yield from _sizes_within(part, (*around, name))


def _parts_of(batch: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(batch, torch.Tensor):
        return ()
    if isinstance(batch, Mapping):
        return batch.items()
    if isinstance(batch, list | tuple):
        return enumerate(batch)
    names: Iterable[str] = getattr(batch, "__dict__", {}) or getattr(type(batch), "__slots__", ())
    return ((name, getattr(batch, name, None)) for name in names)


def _length(part: Any) -> int:
    """Return the length of a part of a batch; -1 if it has none."""
    if isinstance(part, torch.Tensor | np.ndarray):
        return len(part) if part.ndim else -1
    return len(part) if isinstance(part, list | tuple) else -1


def _is_empty(batch: Any) -> bool:
    if batch is None:
        return True
    sizes = sizes_of(batch)
    parts = [size for name, size in sizes.items() if name != ()] or [*sizes.values()]
    return bool(parts) and not any(parts)
