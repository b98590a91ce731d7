"""Batches of a loader that are a step together, as those whose gradients a script's library accumulates."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler, DataLoader


class JoinedBatches:
    """A batch sampler whose batches are several of another one's."""

    def __init__(self, batches: Any, num: int) -> None:
        self._batches, self._num = batches, num

    def __iter__(self) -> Iterator[list[Any]]:
        batches = iter(self._batches)
        while several := list(itertools.islice(batches, self._num)):
            yield [index for batch in several for index in batch]

    def __len__(self) -> int:
        return -(-len(self._batches) // self._num)


def joined(loader: DataLoader[Any], num: int, drops_last: bool = False) -> DataLoader[Any]:
    """A loader each of whose batches has the samples of `num` batches of this one.

    Args:
        drops_last: leave out what an epoch has beyond these.
    """
    batches: Any = loader.batch_sampler
    if num == 1 or batches is None:
        return loader
    twin = copy.copy(loader)
    if type(batches) is BatchSampler and (drops_last or not batches.drop_last):
        vars(twin)["batch_sampler"] = BatchSampler(batches.sampler, num * batches.batch_size, drops_last)
    else:
        vars(twin)["batch_sampler"] = JoinedBatches(batches, num)
    return twin
