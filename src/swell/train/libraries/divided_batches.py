"""A batch that a script names is divided among the workers, each of which takes its share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, Sampler


def share_of(num_samples: int, rank: int, num_workers: int) -> slice:
    """The samples of a batch that one worker takes; sizes of shares differ by at most one."""
    return slice(num_samples * rank // num_workers, num_samples * (rank + 1) // num_workers)


def size_of_share(num_samples: int, rank: int, num_workers: int) -> int:
    share = share_of(num_samples, rank, num_workers)
    return int(share.stop - share.start)


class DividedBatchSampler(BatchSampler):
    """Gives the share of this worker of each batch of another batch sampler.

    It has the attributes of Accelerate's `BatchSamplerShard` that loaders, checkpoints and metrics read.

    Args:
        batch_sampler: of the script; it draws the same batches on each worker, or `is_drawn_by_first`.
        seed: of the order of each epoch, which the sampler then draws with a generator of its own; None: the
            sampler has a generator, or draws nothing.
        is_drawn_by_first: rank 0 draws the batches of an epoch, and sends them to the others.
    """

    split_batches = True

    def __init__(
        self,
        batch_sampler: BatchSampler,
        rank: int,
        num_workers: int,
        seed: int | None = None,
        is_drawn_by_first: bool = False,
    ) -> None:
        self.batch_sampler = batch_sampler
        self.rank, self.num_processes = rank, num_workers
        self.batch_size, self.drop_last = batch_sampler.batch_size, batch_sampler.drop_last
        self.is_uneven = True  #: shares may have different sizes; False: the smaller ones are filled up
        self.is_always_uneven = False  #: what gathers from the workers knows how; or only while it trains
        self.epoch = 0
        self._seed = seed
        self._is_drawn_by_first = is_drawn_by_first and num_workers > 1
        self._generator = None if seed is None else torch.Generator()
        if self._generator is not None:
            self.sampler.generator = self._generator  # type: ignore[attr-defined]

    @property
    def sampler(self) -> Sampler[int] | Iterable[int]:
        return self.batch_sampler.sampler

    @sampler.setter
    def sampler(self, sampler: Sampler[int] | Iterable[int]) -> None:
        self.batch_sampler.sampler = sampler

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def __iter__(self) -> Iterator[list[int]]:
        if self._generator is not None and self._seed is not None:
            self._generator.manual_seed(self._seed + self.epoch)
        return map(self._share, self._drawn())

    def set_epoch(self, epoch: int) -> None:
        """An epoch that has ended does not come again, though a new loader begins to count at 0."""
        self.epoch = max(self.epoch, epoch)

    def num_samples(self, is_last: bool) -> int:
        """Samples of a batch, all shares together; the last of an epoch may be short."""
        rest = 0 if self.drop_last else len(self.sampler) % self.batch_size  # type: ignore[arg-type]
        return rest if is_last and rest else self.batch_size

    def weight(self, is_last: bool) -> float:
        """What this worker's loss is multiplied with, so that the mean of all workers is the batch's."""
        num_samples = self.num_samples(is_last)
        return size_of_share(num_samples, self.rank, self.num_processes) * self.num_processes / num_samples

    def _share(self, batch: list[int]) -> list[int]:
        own = batch[share_of(len(batch), self.rank, self.num_processes)]
        most = -(-len(batch) // self.num_processes)
        missing = 1 - len(own) if self.is_uneven else most - len(own)
        return own + batch[: max(0, missing)]  # a worker without a sample counts for nothing, and takes part

    def _drawn(self) -> Iterable[list[int]]:
        if not self._is_drawn_by_first:
            return self.batch_sampler
        drawn: list[Any] = [list(self.batch_sampler) if self.rank == 0 else None]
        dist.broadcast_object_list(drawn, src=0)
        batches: list[list[int]] = drawn[0]
        return batches


def why_whole(loader: DataLoader[Any]) -> str:
    """Why the batches of a loader cannot be divided; empty if they can."""
    if isinstance(loader.dataset, IterableDataset):
        return "its data set is iterable; give it a data set with a length and indices"
    if isinstance(loader.sampler, DistributedSampler):
        return "it has a DistributedSampler of its own; leave the sampler to the library"
    if type(loader.batch_sampler) is not BatchSampler:
        kind = type(loader.batch_sampler).__name__
        return f"its batch sampler is a {kind}; give the loader a sampler and a batch size"
    return ""


def divided(loader: DataLoader[Any], batches: DividedBatchSampler) -> DataLoader[Any]:
    """A copy of a loader, of whatever class, with other batches.

    A DataLoader refuses a new batch sampler once it is made. To make another would need the arguments of its
    class.
    """
    twin: DataLoader[Any] = object.__new__(type(loader))
    twin.__dict__.update(loader.__dict__, batch_sampler=batches)
    return twin


def true_rows(num_samples: int, num_workers: int, num_each: int) -> Sequence[int]:
    """Rows that are no filling, where `num_each` rows were gathered from each worker."""
    return [
        rank * num_each + row
        for rank in range(num_workers)
        for row in range(size_of_share(num_samples, rank, num_workers))
    ]
