"""A batch of a library's loader is divided among the workers without a sample lost or taken twice."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)

from swell.train.libraries.divided_batches import DividedBatchSampler, divided, true_rows, why_whole

NUM_SAMPLES, BATCH_SIZE, NUM_WORKERS = st.integers(1, 60), st.integers(1, 20), st.integers(1, 6)
DATA = TensorDataset(torch.arange(20))


def shares(num_samples: int, batch_size: int, num_workers: int, **options: bool) -> list[DividedBatchSampler]:
    drop_last = options.pop("drop_last", False)
    made = [
        DividedBatchSampler(
            BatchSampler(SequentialSampler(range(num_samples)), batch_size, drop_last), rank, num_workers
        )
        for rank in range(num_workers)
    ]
    for batches in made:
        batches.is_uneven = options.get("is_uneven", True)
    return made


def counted(batches: DividedBatchSampler) -> Iterator[tuple[list[int], float]]:
    """Each batch with its weight."""
    for at, batch in enumerate(batches):
        yield batch, batches.weight(is_last=at == len(batches) - 1)


@given(num_samples=NUM_SAMPLES, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS, drop_last=st.booleans())
def test_the_mean_of_the_workers_is_that_of_the_batch(
    num_samples: int, batch_size: int, num_workers: int, drop_last: bool
) -> None:
    whole = list(BatchSampler(range(num_samples), batch_size, drop_last))
    parts = list(
        zip(*map(counted, shares(num_samples, batch_size, num_workers, drop_last=drop_last)), strict=True)
    )
    assert len(parts) == len(whole)
    for batch, given_by in zip(whole, parts, strict=True):
        taken = [sample for part, weight in given_by if weight for sample in part]
        assert taken == batch
        assert all(part for part, _ in given_by), "a worker without a batch would wait for ever"
        means = sum(Fraction(weight) * Fraction(sum(part), len(part)) for part, weight in given_by)
        assert float(means / num_workers) == pytest.approx(sum(batch) / len(batch))


@given(num_samples=NUM_SAMPLES, batch_size=BATCH_SIZE, num_workers=NUM_WORKERS)
def test_filled_shares_have_one_size_and_lose_their_filling_when_they_are_gathered(
    num_samples: int, batch_size: int, num_workers: int
) -> None:
    whole = list(BatchSampler(range(num_samples), batch_size, False))
    filled = zip(*shares(num_samples, batch_size, num_workers, is_uneven=False), strict=True)
    for batch, parts in zip(whole, filled, strict=True):
        assert len({len(part) for part in parts}) == 1
        gathered = [sample for part in parts for sample in part]
        assert [gathered[row] for row in true_rows(len(batch), num_workers, len(parts[0]))] == batch


@given(seed=st.integers(0, 2**40), num_workers=NUM_WORKERS, epoch=st.integers(0, 3))
def test_the_order_of_an_epoch_depends_on_no_number_of_workers(
    seed: int, num_workers: int, epoch: int
) -> None:
    def drawn(num_workers: int) -> list[list[int]]:
        of_all = []
        for rank in range(num_workers):
            plain = BatchSampler(RandomSampler(range(40)), 8, False)
            batches = DividedBatchSampler(plain, rank, num_workers, seed=seed)
            batches.set_epoch(epoch)
            of_all.append(list(batches))
        return [[*chain(*parts)] for parts in zip(*of_all, strict=True)]

    assert drawn(num_workers) == drawn(1)


def test_an_epoch_that_has_ended_does_not_come_again() -> None:
    batches = DividedBatchSampler(BatchSampler(RandomSampler(range(40)), 8, False), 0, 1, seed=3)
    batches.set_epoch(4)
    fifth = list(batches)
    batches.set_epoch(0)  # as a loader does that was made after a restart
    assert list(batches) == fifth
    batches.set_epoch(5)
    assert list(batches) != fifth


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(8))


class Buckets(BatchSampler):
    """Of batches of different sizes."""


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        (DataLoader(DATA, batch_size=4, shuffle=True), ""),
        (DataLoader(DATA, batch_size=4), ""),
        (DataLoader(Stream(), batch_size=4), "iterable"),
        (DataLoader(DATA, batch_size=None), "NoneType"),
        (DataLoader(DATA, batch_sampler=Buckets(range(8), 4, False)), "Buckets"),
        (DataLoader(DATA, 4, sampler=DistributedSampler(DATA, 2, 0)), "DistributedSampler of its own"),
    ],
)
def test_a_loader_that_cannot_be_divided_says_why(loader: DataLoader[object], why: str) -> None:
    told = why_whole(loader)
    assert why in told
    assert bool(told) == bool(why)


class Loader(DataLoader[tuple[torch.Tensor, ...]]):
    """As scripts write them, with arguments of their own."""

    def __init__(self, count: int) -> None:
        super().__init__(TensorDataset(torch.arange(count)), batch_size=8)


def test_a_divided_loader_is_of_its_class_and_leaves_the_script_its_own() -> None:
    loader = Loader(20)
    part = divided(loader, DividedBatchSampler(loader.batch_sampler, 1, 2))  # type: ignore[arg-type]
    assert type(part) is Loader and len(part) == len(loader) == 3
    assert [batch[0].tolist() for batch in part] == [[4, 5, 6, 7], [12, 13, 14, 15], [18, 19]]
    assert [len(batch[0]) for batch in loader] == [8, 8, 4]
