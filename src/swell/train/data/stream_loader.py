"""A stream's batches for this worker, read ahead by processes of the loader that live through resizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from swell.train.data.dropped_samples import CountedBatch
from swell.train.data.loader import to_device
from swell.train.data.loader_cleanup import LoaderCleanup
from swell.train.data.sample_schedule import Share
from swell.train.data.samples import OwnDatasetInit, traits_of
from swell.train.data.seeds import mix
from swell.train.data.stateful import Stateful
from swell.train.data.stream_reader import Reader, Serving, Ticket
from swell.train.data.stream_schedule import StreamError, StreamPlace, StreamSchedule

ShareOf = Callable[[int], Share]


class StreamFeed:
    """Batches of this worker's passes from a stream, loaded ahead; the counterpart of `Feed`.

    A change of the gang makes claims void that were already given out. What was read for them is not lost.
    """

    def __init__(
        self, loader: DataLoader[Any], device: torch.device, seed: int, course: StreamSchedule
    ) -> None:
        self._loader = loader
        self._traits = traits_of(loader.dataset)
        self._has_begun = False  # the script's loop over an epoch
        self._device = device
        self.num_dropped = 0  #: samples that the collate_fn has left out of the batch that is out
        self._seed = seed
        self._course = course
        self._current = torch.zeros((), dtype=torch.int64)
        if loader.num_workers:
            self._current.share_memory_()
        self._servings: Iterator[Serving] | None = None
        self._round = 0
        self._cursor = 0  # the step to claim next
        self._share_of: ShareOf | None = None
        self._end = 0
        self._next: tuple[object, ...] | None = None  # the key of the step that the next serving is for

    def open(
        self, step: int, share_of: ShareOf, end: Callable[[], int], edition: object
    ) -> tuple[Share, Iterator[Any]] | None:
        """This worker's share of a step and the batches of its passes; None: the epoch is over.

        Args:
            share_of, end, edition: see `Feed.draw`.

        Raises:
            StreamError: the epoch has fewer samples than a batch.
        """
        place = self._course.place
        if self._next != (step, edition, place.epoch):
            self._aim(step, share_of, end())
        serving = self._take()
        claim = share_of(step).claim
        assert claim is not None  # noqa: S101 - it is a stream's
        num_taken = claim.num_taken(serving.num_found)
        is_lack = serving.num_found < min(claim.num_wanted, claim.cut.own_batch)
        if claim.start == 0 and (is_lack or not num_taken):
            raise StreamError(
                f"epoch {place.epoch} of the stream has {serving.num_found} samples and a batch takes "
                f"{claim.num_wanted}; make the batch smaller, or give more data"
            )
        if not num_taken:
            self._next = None
            return None
        self._course.pending["origin"] = serving.origin
        self._next = (step + 1, edition, place.epoch)
        return claim.share(num_taken), self._given(serving.batches)

    def _given(self, batches: list[CountedBatch]) -> Iterator[Any]:
        for self.num_dropped, batch in batches:
            yield to_device(batch, self._device)

    def begin_epoch(self) -> None:
        """See `Feed.begin_epoch`. What was read before the first loop is kept, as far as it holds."""
        traits = traits_of(self._loader.dataset)
        is_kept, self._has_begun = self._loader.persistent_workers or not self._has_begun, True
        if traits != self._traits or not is_kept:
            self._traits = traits
            self.close()

    def warm_up(self, place: StreamPlace) -> None:
        """Have each process of the loader read up to a place, before it is known whether it is needed there.

        A stream that can go on from a place by itself need not be read up to it.
        """
        if isinstance(self._loader.dataset, Stateful):
            return
        course = StreamSchedule(1, drops_last=False, place=place)
        num_processes = max(1, self._loader.num_workers)
        self._aim(place.step, lambda step: course.share(step, 0, 1), place.step + num_processes)
        for _ in range(num_processes):
            self._take()
        self._next, self._traits = None, traits_of(self._loader.dataset)  # reading may have changed it

    def close(self) -> None:
        """End the loader's processes."""
        self._servings, self._next = None, None

    def _aim(self, step: int, share_of: ShareOf, end: int) -> None:
        """Claim from this step on; claims given out before are void."""
        self._round += 1
        self._current.fill_(self._round)
        self._cursor, self._share_of, self._end = step, share_of, end
        if self._servings is None:
            self._servings = iter(self._loading())

    def _take(self) -> Serving:
        assert self._servings is not None  # noqa: S101 - `_aim` comes first
        while True:
            serving = Serving(*next(self._servings))
            if serving.round == self._round:
                return serving

    def _tickets(self) -> Iterator[Ticket]:
        """Without end: a loader whose claims have ended could not be given any others."""
        while True:
            if self._share_of is None or self._cursor >= self._end:
                yield Ticket(0, None)
            else:
                self._cursor += 1
                yield Ticket(self._round, self._share_of(self._cursor - 1).claim)

    def _loading(self) -> DataLoader[Any]:
        loader = self._loader
        num_ahead = (loader.prefetch_factor or 0) * loader.num_workers
        reader = Reader(loader.dataset, loader.collate_fn, self._seed, num_ahead + 1, self._current)
        reader.origin = self._course.place.origin
        return DataLoader(
            reader,
            batch_size=None,
            sampler=_Forever(self._tickets),
            num_workers=loader.num_workers,
            collate_fn=_as_it_is,  # type: ignore[arg-type]  # what it is given is what the reader makes
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=LoaderCleanup(OwnDatasetInit(loader.worker_init_fn)),
            multiprocessing_context=loader.multiprocessing_context,
            prefetch_factor=loader.prefetch_factor,
            generator=torch.Generator().manual_seed(mix(self._seed, self._cursor)),
        )


class _Forever:
    def __init__(self, make: Callable[[], Iterator[Ticket]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Ticket]:
        return self._make()


def _as_it_is(serving: Serving) -> Serving:
    return serving
