"""Loaders with samplers of a script's own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

NUM_SAMPLES, BATCH = 48, 8


class Noisy(Dataset[tuple[torch.Tensor, torch.Tensor, int]]):
    """Each sample is shifted at random whenever it is drawn."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(NUM_SAMPLES, 3, generator=generator, dtype=torch.float64)
        self.lengths = [1 + 7 * index % 11 for index in range(NUM_SAMPLES)]

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        x = self.x[index] + 0.1 * torch.randn(3, dtype=torch.float64)
        return x, x.sum().sin(), index


class Shuffled(Sampler[int]):
    """Shuffles a list of its own in place, with Python's generator, as many do."""

    def __init__(self, num: int) -> None:
        self.indices = list(range(num))

    def __iter__(self) -> Iterator[int]:
        random.shuffle(self.indices)
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)


class ByLength(Sampler[list[int]]):
    """Batches of samples of nearly one length: few if they are long. The batches come in any order."""

    def __init__(self, lengths: list[int], most: int) -> None:
        self.lengths, self.most = lengths, most
        self.rng = np.random.default_rng(3)

    def __iter__(self) -> Iterator[list[int]]:
        order = sorted(range(len(self.lengths)), key=self.lengths.__getitem__)
        batches: list[list[int]] = [[]]
        for index in order:
            if self.lengths[index] * (len(batches[-1]) + 1) > self.most:
                batches.append([])
            batches[-1].append(index)
        for number in self.rng.permutation(len(batches)):
            yield batches[number]


def load_with(kind: str, data: Noisy, **options: Any) -> DataLoader[Any]:
    samplers: dict[str, Any] = {
        "weighted": lambda: WeightedRandomSampler([1.0 + index % 5 for index in range(NUM_SAMPLES)], 40),
        "replaced": lambda: RandomSampler(data, replacement=True, num_samples=44),
        "subset": lambda: SubsetRandomSampler(range(0, NUM_SAMPLES, 2), torch.Generator().manual_seed(2)),
        "distributed": lambda: DistributedSampler(data, num_replicas=1, rank=0),
        "inplace": lambda: Shuffled(NUM_SAMPLES),
    }
    if kind == "lengths":
        return DataLoader(data, batch_sampler=ByLength(data.lengths, 40), **options)
    if kind == "batches":
        return DataLoader(data, batch_sampler=BatchSampler(Shuffled(NUM_SAMPLES), BATCH, True), **options)
    return DataLoader(data, batch_size=BATCH, sampler=samplers[kind](), **options)
