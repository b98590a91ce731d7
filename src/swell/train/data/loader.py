"""The user's DataLoader, with our order of samples put in place of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from swell.train.data.loader_cleanup import LoaderCleanup
from swell.train.data.sample_schedule import Pass, Share, mix
from swell.train.data.samples import OwnDatasetInit, Samples


class LoaderError(TypeError):
    """This DataLoader cannot be cut into shares."""


def check_loader(loader: Any) -> DataLoader[Any]:
    """The loader, if its sampling can be replaced. Raises LoaderError."""
    if not isinstance(loader, DataLoader):
        raise LoaderError(
            f"elastic() was given a {type(loader).__qualname__} as loader; give it a torch DataLoader"
        )
    if loader.batch_size is None or type(loader.batch_sampler) is not BatchSampler:
        raise LoaderError(
            "the loader has a batch_sampler of its own or none; elastic() decides who computes which "
            "samples: give the loader batch_size=..., the global batch"
        )
    if not is_stream(loader) and not _is_plain(loader.sampler):
        raise LoaderError(
            f"the loader samples with a {type(loader.sampler).__qualname__}; elastic() decides who computes "
            "which samples: use shuffle=True or False (and no DistributedSampler, the split is done for you)"
        )
    return loader


def is_stream(loader: DataLoader[Any]) -> bool:
    return isinstance(loader.dataset, IterableDataset)


def is_shuffled(loader: DataLoader[Any]) -> bool:
    return isinstance(loader.sampler, RandomSampler)


def _is_plain(sampler: Any) -> bool:
    if isinstance(sampler, RandomSampler):
        return not sampler.replacement and sampler.num_samples == len(sampler.data_source)
    return type(sampler) is SequentialSampler


class Feed:
    """Batches of this worker's passes, one after the other, loaded ahead by the loader's own processes."""

    def __init__(self, loader: DataLoader[Any], device: torch.device, seed: int) -> None:
        self._loader = loader
        self._samples = Samples(loader, seed)
        self._device = device
        self._seed = seed
        self._batches: Iterator[Any] = iter(())
        self._next: tuple[int, object] | None = None  # (step, edition) of the batches that come next

    def open(
        self, step: int, share_of: Callable[[int], Share], end: int, edition: object
    ) -> tuple[Share, Iterator[Any]] | None:
        """This worker's share of a step, and the batches of its passes; see `draw`."""
        return share_of(step), self.draw(step, share_of, end, edition)

    def close(self) -> None:
        """End the loader's processes."""
        self._batches, self._next = iter(()), None

    def draw(self, step: int, share_of: Callable[[int], Share], end: int, edition: object) -> Iterator[Any]:
        """The batches of this worker's passes of a step, on the device.

        Args:
            share_of: this worker's share of a step.
            end: number of steps there will be.
            edition: equal as long as `share_of` gives equal answers; when it changes, what was loaded
                ahead is dropped, as when a step was left before its last pass.
        """
        if self._next != (step, edition):
            self._batches = iter(self._loading(step, share_of, end))
        self._next = None
        for _ in share_of(step).passes:
            yield to_device(next(self._batches), self._device)
        self._next = (step + 1, edition)

    def _loading(self, start: int, share_of: Callable[[int], Share], end: int) -> DataLoader[Any]:
        loader = self._loader
        return DataLoader(
            self._samples,
            batch_sampler=_Passes(start, share_of, end),  # type: ignore[arg-type]  # `Samples` takes a Pass
            num_workers=loader.num_workers,
            collate_fn=loader.collate_fn,
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
