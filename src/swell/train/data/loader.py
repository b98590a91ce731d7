"""The user's DataLoader, with our order of samples put in place of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from swell.train.data.dropped_samples import CountingCollate
from swell.train.data.epoch_order import EpochSampler, LoaderError
from swell.train.data.loader_cleanup import LoaderCleanup
from swell.train.data.sample_schedule import Pass, Share
from swell.train.data.samples import OwnDatasetInit, Samples, traits_of
from swell.train.data.seeds import mix


def check_loader(loader: Any) -> DataLoader[Any]:
    """The loader, if what it loads can be divided among workers. Raises LoaderError."""
    if not isinstance(loader, DataLoader):
        raise LoaderError(
            f"elastic() was given a {type(loader).__qualname__} as loader; give it a torch DataLoader"
        )
    if loader.batch_sampler is None:
        raise LoaderError(
            "the loader makes no batches (batch_size=None); elastic() decides who computes which samples: "
            "give the loader batch_size=..., the global batch"
        )
    return loader


def is_stream(loader: DataLoader[Any]) -> bool:
    return isinstance(loader.dataset, IterableDataset)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a loader makes batches of its samples."""

    batch: int  #: samples of a batch; of batches of its own making, their mean
    drops_last: bool
    is_shuffled: bool
    sampler: EpochSampler | None  #: the script's own; None: shuffled, or in sequence


def sampling_of(loader: DataLoader[Any], seed: int) -> Sampling:
    """How a loader makes batches. Raises LoaderError if its sampler cannot be drawn for all workers."""
    batches: Any = loader.batch_sampler
    if type(batches) is not BatchSampler:
        sampler = EpochSampler(batches, True, loader.dataset, seed)
        return Sampling(sampler.mean_batch, False, False, sampler)
    own = None
    if not (is_stream(loader) or _is_plain(batches.sampler)):
        own = EpochSampler(batches.sampler, False, loader.dataset, seed)
    is_shuffled = own is None and type(batches.sampler) is RandomSampler
    return Sampling(batches.batch_size, batches.drop_last, is_shuffled, own)


def _is_plain(sampler: Any) -> bool:
    if type(sampler) is RandomSampler:
        return not sampler.replacement and sampler._num_samples is None
    return type(sampler) is SequentialSampler


class Feed:
    """Batches of this worker's passes, one after the other, loaded ahead by the loader's own processes."""

    def __init__(
        self, loader: DataLoader[Any], device: torch.device, seed: int, length: int | None = None
    ) -> None:
        """`length`: samples of the dataset, where an epoch is all of them; None: a sampler says which."""
        self._loader = loader
        self._length = length
        self._traits = traits_of(loader.dataset)
        self._samples = Samples(loader, seed)
        self._device = device
        self._seed = seed
        self._batches: Iterator[Any] = iter(())
        self._is_counting = False  # each batch comes with the number of samples that it lacks
        self.num_dropped = 0  #: samples that the collate_fn has left out of the batch that is out
        self._next: tuple[int, object] | None = None  # (step, edition) of the batches that come next
        self._end = 0  # the step before which loading ends
        self._latest: tuple[int, object, Share] | None = None  # (step, edition, share)

    def open(
        self, step: int, share_of: Callable[[int], Share], end: Callable[[], int], edition: object
    ) -> tuple[Share, Iterator[Any]] | None:
        """This worker's share of a step, and the batches of its passes; see `draw`."""
        return self._share(step, share_of, edition), self.draw(step, share_of, end, edition)

    def _share(self, step: int, share_of: Callable[[int], Share], edition: object) -> Share:
        """The share of a step is asked for several times in a row, and worked out once."""
        latest = self._latest
        if latest is None or latest[0] != step or latest[1] != edition:
            self._latest = latest = step, edition, share_of(step)
        return latest[2]

    def begin_epoch(self) -> None:
        """The script begins its loop over an epoch, whose batches are of the dataset as it is now.

        Processes that are `persistent_workers` stay as long as the dataset looks as it did.

        Raises:
            LoaderError: the dataset has another length than it had.
        """
        dataset: Any = self._loader.dataset
        if self._length is not None and len(dataset) != self._length:
            raise LoaderError(
                f"the loader's dataset has {len(dataset)} samples now and had {self._length} when elastic() "
                "got it; how long training takes is counted in epochs of one length: have it keep that, "
                f"or give the loader sampler=RandomSampler(dataset, num_samples={self._length}), which draws "
                "as many in each epoch from the samples that there are"
            )
        traits = traits_of(dataset)
        if traits != self._traits or not self._loader.persistent_workers:
            self._traits = traits
            self.close()

    def load_in_process(self) -> None:
        """Use no processes of the loader's own, unless the dataset may need what they set up."""
        loader = self._loader
        if loader.worker_init_fn is None and loader.num_workers:
            loader.num_workers, loader.prefetch_factor, loader.timeout = 0, None, 0
            loader.multiprocessing_context = None

    def close(self) -> None:
        """End the loader's processes."""
        self._batches, self._next = iter(()), None

    def draw(
        self, step: int, share_of: Callable[[int], Share], end: Callable[[], int], edition: object
    ) -> Iterator[Any]:
        """The batches of this worker's passes of a step, on the device.

        Args:
            share_of: this worker's share of a step.
            end: tells the number of the step up to which batches may be loaded ahead.
            edition: equal as long as `share_of` gives equal answers; when it changes, what was loaded
                ahead is dropped, as when a step was left before its last pass.
        """
        if self._next != (step, edition) or step >= self._end:
            known_share_of = partial(self._share, share_of=share_of, edition=edition)
            self._end = end()
            self._batches = iter(self._loading(step, known_share_of, self._end))
        self._next = None
        for _ in self._share(step, share_of, edition).passes:
            batch = next(self._batches)
            if self._is_counting:
                self.num_dropped, batch = batch
            yield to_device(batch, self._device)
        self._next = (step + 1, edition)

    def _loading(self, start: int, share_of: Callable[[int], Share], end: int) -> DataLoader[Any]:
        loader, collate = self._loader, self._loader.collate_fn
        self._samples.collates_plainly = collate is default_collate
        self._is_counting, self.num_dropped = collate is not default_collate, 0
        return DataLoader(
            self._samples,
            batch_sampler=_Passes(start, share_of, end),  # type: ignore[arg-type]  # `Samples` takes a Pass
            num_workers=loader.num_workers,
            collate_fn=CountingCollate(collate, loader.dataset) if self._is_counting else collate,
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=LoaderCleanup(OwnDatasetInit(loader.worker_init_fn)),
            multiprocessing_context=loader.multiprocessing_context,
            prefetch_factor=loader.prefetch_factor,
            generator=torch.Generator().manual_seed(mix(self._seed, start)),  # leaves the script's own alone
        )


class _Passes:
    def __init__(self, start: int, share_of: Callable[[int], Share], end: int) -> None:
        self._steps = range(start, end)
        self._share_of = share_of

    def __iter__(self) -> Iterator[Pass]:
        return (part for step in self._steps for part in self._share_of(step).passes)


def to_device(batch: Any, device: torch.device) -> Any:
    """The same nest of lists, tuples and dicts, tensors on the device; on a CPU as it is."""
    if device.type == "cpu":
        return batch
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, dict):
        return type(batch)({key: to_device(value, device) for key, value in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(to_device(value, device) for value in batch)
    return batch
