"""The user's DataLoader, with our order of samples put in place of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sized
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from swell.train.data.epoch_order import EpochSampler, LoaderError
from swell.train.data.place import Place
from swell.train.data.random_streams import mix
from swell.train.data.sample_schedule import Pass, SampleSchedule, Share, default_shards
from swell.train.data.samples import Samples, Ticket, TicketResult, begin_process, traits_of
from swell.train.data.stateful import Stateful
from swell.train.data.stream_reader import Reader


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
    is_stateful = type(loader).__module__.startswith("torchdata.")  # it gives the same batches
    for name in ("__iter__", "_get_iterator"):
        if getattr(type(loader), name) is not getattr(DataLoader, name) and not is_stateful:
            raise LoaderError(
                f"the loader, a {type(loader).__qualname__}, has {name} of its own, which elastic() does not "
                "call, for it divides what a batch is made of; do what that does to batches in the "
                "collate_fn, or in the loop over run.batches(), and give elastic() a torch DataLoader"
            )
    return loader


def is_stream(loader: DataLoader[Any]) -> bool:
    return isinstance(loader.dataset, IterableDataset)


def schedule_of(
    loader: DataLoader[Any],
    seed: int,
    own_batch: int | None = None,
    num_shards: int | None = None,
) -> SampleSchedule:
    """The order in which a loader's samples are trained on.

    Args:
        own_batch: of the job; None: the loader's, of batches of its own making their mean.
        num_shards: of a step; 0: as many as usual; None: none.

    Raises:
        LoaderError: its sampler cannot be drawn for all workers, or does not make such batches.
    """
    batches: Any = loader.batch_sampler
    sampler, is_shuffled, drops_last = None, False, False
    if type(batches) is not BatchSampler:
        sampler = EpochSampler(batches, True, loader.dataset, seed)
        batch = own_batch or sampler.mean_batch
    else:
        batch, drops_last = own_batch or batches.batch_size, batches.drop_last
        if is_stream(loader) or _is_plain(batches.sampler):
            is_shuffled = type(batches.sampler) is RandomSampler
        else:
            sampler = EpochSampler(batches.sampler, False, loader.dataset, seed)
    if sampler is not None:
        sampler.check_batch(batch)
        num_samples = sampler.length(batch)
    else:
        num_samples = _told_length(loader.dataset) if is_stream(loader) else len(cast(Sized, loader.dataset))
    return SampleSchedule(
        num_samples,
        batch,
        is_shuffled,
        drops_last,
        seed,
        default_shards(batch) if num_shards == 0 else num_shards,
        sampler=sampler,
        is_stream=is_stream(loader),
    )


def _told_length(stream: Any) -> int:
    """Samples of an epoch of a stream; 0: it does not tell, such as a ChainDataset of some that do not."""
    try:
        return len(stream)
    except TypeError:
        return 0


def _is_plain(sampler: Any) -> bool:
    if type(sampler) is RandomSampler:
        return not sampler.replacement and sampler._num_samples is None
    return type(sampler) is SequentialSampler


class Feed:
    """Batches of this worker's passes, loaded ahead by processes of the loader that live through resizes.

    A change of the gang makes tickets void that were given out before. What was read of a stream for them is
    not lost.
    """

    def __init__(
        self, loader: DataLoader[Any], device: torch.device, seed: int, course: SampleSchedule
    ) -> None:
        self._loader = loader
        self._device = device
        self._seed = seed
        self._course = course
        self._traits = traits_of(loader.dataset)
        self._has_begun = False  # the script's loop over an epoch
        self.num_dropped = 0  #: samples that the collate_fn has left out of the batch that is out
        self._current = torch.zeros((), dtype=torch.int64).share_memory_() if loader.num_workers else None
        self._servings: Iterator[TicketResult] | None = None
        self._round = 0
        self._passes: Iterator[Pass] = iter(())  # to be asked for
        self._shares: deque[Share] = deque()  # whose passes were asked for
        self._end = 0  # the step before which asking ends
        #: (step, edition, epoch) of the next pass that was asked for
        self._next: tuple[int, object, int] | None = None

    def open(
        self, step: int, share_of: Callable[[int], Share], edition: object
    ) -> tuple[Share, Iterator[Any]] | None:
        """This worker's share of a step and the batches of its passes; None: the epoch of a stream is over.

        Args:
            share_of: this worker's share of a step.
            edition: equal as long as `share_of` gives equal answers; when it changes, what was loaded
                ahead is dropped, as when a step was left before its last pass.

        Raises:
            StreamError: the epoch has fewer samples than a batch.
        """
        epoch = self._course.epoch
        if self._next != (step, edition, epoch):
            self._end = max(step + 1, self._course.loading_end)
            self._ask(range(step, self._end), share_of)
        self._next, following = None, (step + 1, edition, epoch) if step + 1 < self._end else None
        serving, share = self._take(), self._shares.popleft()
        if serving.num_found is not None:
            if not self._course.note_end(share, serving.num_found):
                return None
            self._ask(range(step, step + 1), share_of)
            serving, share, following = self._take(), self._shares.popleft(), None
        if serving.origin is not None:
            share = replace(share, origin=serving.origin)
        return share, self._batches(share, serving, following)

    def _batches(
        self, share: Share, first: TicketResult, following: tuple[int, object, int] | None
    ) -> Iterator[Any]:
        for part in share.passes:
            serving = first if part is share.passes[0] else self._take()
            self.num_dropped = serving.num_dropped
            yield to_device(serving.batch, self._device)
        self._next = following

    def begin_epoch(self) -> None:
        """The script begins its loop over an epoch, whose batches are of the dataset as it is now.

        Processes that are `persistent_workers` stay as long as the dataset looks as it did. What was read
        before the first loop is kept, as far as it holds.

        Raises:
            LoaderError: the dataset has another length than it had.
        """
        course, dataset = self._course, cast(Any, self._loader.dataset)
        if course.sampler is None and not course.is_stream and len(dataset) != course.num_samples:
            raise LoaderError(
                f"the loader's dataset has {len(dataset)} samples now and had {course.num_samples} when "
                "elastic() got it; how long training takes is counted in epochs of one length: have it keep "
                f"that, or give the loader sampler=RandomSampler(dataset, num_samples={course.num_samples}), "
                "which draws as many in each epoch from the samples that there are"
            )
        traits = traits_of(dataset)
        is_kept, self._has_begun = self._loader.persistent_workers or not self._has_begun, True
        if traits != self._traits or not is_kept:
            self._traits = traits
            self.close()

    def warm_up(self, place: Place) -> None:
        """Have each process of the loader read a stream up to a place, before it is known if that is needed.

        A stream that can go on from a place by itself need not be read up to it.
        """
        if isinstance(self._loader.dataset, Stateful):
            return
        course = SampleSchedule(0, 1, False, False, place=place, is_stream=True)
        num_processes = max(1, self._loader.num_workers)
        self._ask(range(place.step, place.step + num_processes), partial(course.share, rank=0, num_workers=1))
        for _ in range(num_processes):
            self._take()
        self._traits = traits_of(self._loader.dataset)  # reading may have changed it

    def close(self) -> None:
        """End the loader's processes."""
        self._servings, self._next = None, None

    def _ask(self, steps: range, share_of: Callable[[int], Share]) -> None:
        """Ask for the passes of these steps; tickets given out before are void."""
        self._round += 1
        if self._current is not None:
            self._current.fill_(self._round)
        self._shares.clear()
        self._passes = self._passes_of(steps, share_of)
        if self._servings is None:
            self._servings = iter(self._loading())

    def _passes_of(self, steps: range, share_of: Callable[[int], Share]) -> Iterator[Pass]:
        for step in steps:
            share = share_of(step)
            self._shares.append(share)
            yield from share.passes

    def _take(self) -> TicketResult:
        assert self._servings is not None  # noqa: S101 - `_ask` comes first
        while True:
            serving = next(self._servings)
            if serving.round == self._round:
                return serving

    def _tickets(self) -> Iterator[Ticket]:
        """Without end: a loader whose tickets have ended could not be given any others."""
        while True:
            part = next(self._passes, None)
            yield 0 if part is None else self._round, part

    def _loading(self) -> Iterable[TicketResult]:
        loader, place = self._loader, self._course.place
        common = loader, self._seed, self._current
        dataset = Reader(*common, place.origin) if self._course.is_stream else Samples(*common)
        if not loader.num_workers and not loader.pin_memory:
            return map(dataset.__getitem__, self._tickets())
        return DataLoader(
            dataset,
            batch_size=None,
            sampler=self._tickets(),  # it is iterated once
            num_workers=loader.num_workers,
            collate_fn=TicketResult._make,  # what the dataset makes stays as it is
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=partial(begin_process, loader.worker_init_fn),
            multiprocessing_context=loader.multiprocessing_context,
            prefetch_factor=loader.prefetch_factor,
            # This leaves the script's own generator alone.
            generator=torch.Generator().manual_seed(mix(self._seed, place.step)),
        )


def to_device(batch: Any, device: torch.device) -> Any:
    """The same nest of lists, tuples and mappings, tensors on the device; on a CPU as it is."""
    if device.type == "cpu":
        return batch
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping):
        moved = {key: to_device(value, device) for key, value in batch.items()}
        if not isinstance(batch, MutableMapping):
            return type(batch)(moved)  # type: ignore[call-arg]
        twin: Any = copy(batch)  # with its attributes, and however it is made
        for key, value in moved.items():
            twin[key] = value
        return twin
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(to_device(value, device) for value in batch)
    return batch
