"""What a dataset draws for a sample depends on the sample, not on who loads it with what."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate, get_worker_info

from swell.train.data.loader import Feed
from swell.train.data.sample_schedule import SampleSchedule

CPU = torch.device("cpu")
NUM_SAMPLES, BATCH = 40, 10

DRAWS: dict[str, Callable[[int], float]] = {
    "nothing": lambda index: 0.0,
    "torch": lambda index: torch.rand(()).item(),
    "random": lambda index: random.gauss(0, 1),
    "numpy": lambda index: np.random.randn(),
    "all": lambda index: torch.randn(()).item() + random.random() + float(np.random.rand()),
    "seldom": lambda index: random.random() if index == 33 else 0.0,
    "late": lambda index: torch.rand(()).item() + (np.random.rand() if index > 30 else 0.0),
}


class Drawing(Dataset[Any]):
    def __init__(self, draws: str) -> None:
        self.draws = draws
        self.num_asked = 0

    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, index: int) -> tuple[int, float]:
        self.num_asked += 1
        return index, DRAWS[self.draws](index)


def course(num_shards: int | None = None) -> SampleSchedule:
    return SampleSchedule(NUM_SAMPLES, BATCH, True, False, 0, num_shards)


def rows(samples: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """A collate_fn that leaves samples as they are."""
    return samples


def feeds(loader: DataLoader[Any], size: int, bound: int | None = None) -> Iterator[tuple[int, Any]]:
    """(step, batch) of all passes of two epochs, worker after worker."""
    for rank in range(size):
        laid = course()
        feed = Feed(loader, CPU, 5, laid)
        for step in range(2 * laid.steps_per_epoch):
            for batch in drawn_from(feed, laid, step, rank, size, bound):
                yield step, batch


def drawn_from(
    feed: Feed, laid: SampleSchedule, step: int, rank: int = 0, size: int = 1, bound: int | None = None
) -> Iterator[Any]:
    """The batches of a worker's passes of a step."""
    share_of = partial(laid.share, rank=rank, num_workers=size, max_local_batch=bound)
    opened = feed.open(step, share_of, 0)
    assert opened is not None
    yield from opened[1]
    laid.finish_step(opened[0])


def drawn_by(draws: str, size: int, bound: int | None = None, **options: Any) -> dict[Any, float]:
    """What was drawn, by epoch and sample."""
    loader = DataLoader(Drawing(draws), batch_size=BATCH, collate_fn=rows, **options)
    return {(step // 4, index): value for step, batch in feeds(loader, size, bound) for index, value in batch}


@pytest.mark.parametrize("draws", DRAWS)
def test_the_same_is_drawn_for_a_sample_at_any_size(draws: str) -> None:
    alone = drawn_by(draws, 1)
    assert len(alone) == 2 * NUM_SAMPLES
    assert drawn_by(draws, 3) == alone
    assert drawn_by(draws, 2, bound=2) == alone
    if draws in ("torch", "random", "numpy", "all"):
        assert len(set(alone.values())) == 2 * NUM_SAMPLES


def noisy(samples: list[Any]) -> float:
    return random.random() + torch.rand(()).item() + float(np.random.rand())


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_collate_fn_draws_by_step_and_place(num_workers: int) -> None:
    loader = DataLoader(Drawing("torch"), batch_size=BATCH, collate_fn=noisy, num_workers=num_workers)
    first = [number for _, number in feeds(loader, 1)]
    random.seed(3)
    torch.manual_seed(3)
    plain = DataLoader(TensorDataset(torch.zeros(NUM_SAMPLES)), batch_size=BATCH, collate_fn=noisy)
    assert [number for _, number in feeds(plain, 1)] == first
    assert len(set(first)) == len(first)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("is_contiguous", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64, torch.bfloat16])
def test_batches_of_tensors_are_those_of_their_samples(
    num_workers: int, is_contiguous: bool, dtype: torch.dtype
) -> None:
    x = torch.randn(NUM_SAMPLES, 3, 4, 5).to(dtype)
    data = TensorDataset(x, x[:, 0, 0, 0].clone())
    if not is_contiguous:
        data = TensorDataset(x, x.to(memory_format=torch.channels_last), x[:, :, ::2])
    for batch in (BATCH, 1, 16):
        loader = DataLoader(data, batch_size=batch, num_workers=num_workers)
        laid = SampleSchedule(NUM_SAMPLES, batch, True, False)
        feed = Feed(loader, CPU, 5, laid)
        for step in range(laid.steps_per_epoch):
            indices = laid.share(step, 0, 1).passes[0].indices
            [given], wanted = (
                drawn_from(feed, laid, step),
                default_collate([data[index] for index in indices]),
            )
            assert type(given) is type(wanted)
            for one, other in zip(given, wanted, strict=True):
                assert (one.dtype, one.shape, one.stride()) == (dtype, other.shape, other.stride())
                assert torch.equal(one, other)
        feed.close()


class Told(Dataset[int]):
    def __len__(self) -> int:
        return NUM_SAMPLES

    def __getitem__(self, index: int) -> int:
        info = get_worker_info()
        assert info is not None
        return int(info.dataset is self and self.was_told)

    was_told = False


def tell(number: int) -> None:
    info = get_worker_info()
    assert info is not None
    info.dataset.was_told = True  # type: ignore[attr-defined]


def test_a_loaders_process_knows_the_scripts_own_dataset() -> None:
    loader = DataLoader(Told(), batch_size=BATCH, num_workers=1, worker_init_fn=tell)
    assert all(bool(batch.all()) for _, batch in feeds(loader, 1))
