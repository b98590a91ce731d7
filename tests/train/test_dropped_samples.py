"""Samples that a collate_fn leaves out: a worker counts by the rows of its batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from swell import train
from swell.train.data.samples import CountingCollate


@dataclass
class Record:
    images: torch.Tensor
    names: list[str]


@dataclass(slots=True)
class Slotted:
    images: torch.Tensor


def kept(samples: list[Any]) -> list[Any]:
    return [sample for sample in samples if sample is not None and sample[0][0] > 0]


#: They leave out what is None, or begins with 0.
DROPPING: dict[str, Callable[[list[Any]], Any]] = {
    "two tensors": lambda samples: default_collate(kept(samples)),
    "one tensor": lambda samples: torch.stack([x for x, _ in kept(samples)]),
    "dict": lambda samples: {"x": torch.stack([x for x, _ in kept(samples)]), "n": 3},
    "lists": lambda samples: tuple(zip(*kept(samples), strict=True)),
    "as they are": kept,
    "None for nothing": lambda samples: default_collate(kept(samples)) if kept(samples) else None,
    "empty for nothing": lambda samples: torch.cat([torch.zeros(0, 2), *(x[None] for x, _ in kept(samples))]),
    "object": lambda samples: Record(torch.stack([x for x, _ in kept(samples)]), ["" for _ in kept(samples)]),
    "nested": lambda samples: [default_collate(kept(samples)), torch.ones(len(kept(samples)))],
    "dicts in a dict": lambda samples: {"inputs": {"x": torch.stack([x for x, _ in kept(samples)])}, "n": 3},
    "object with slots": lambda samples: Slotted(torch.stack([x for x, _ in kept(samples)])),
    "array": lambda samples: {"x": np.stack([x for x, _ in kept(samples)])},
}
Draws = list[list[bool]]


def sample_of(is_there: bool, number: int, is_none: bool) -> Any:
    if not is_there and is_none:
        return None
    return torch.tensor([float(is_there) * (1 + number), 0.0]), torch.tensor([1.0])


@pytest.mark.parametrize("collate", DROPPING.values(), ids=list(DROPPING))
@given(st.lists(st.lists(st.booleans(), min_size=2, max_size=7), min_size=1, max_size=6), st.booleans())
def test_the_samples_that_are_left_out_are_counted(
    collate: Callable[[list[Any]], Any], draws: Draws, is_none: bool
) -> None:
    counting, spare = CountingCollate(collate), [sample_of(True, 0, False)]
    for draw in [[True] * 5, [True] * 3, *draws]:
        samples = [sample_of(is_there, number, is_none) for number, is_there in enumerate(draw)]
        num_dropped, batch = counting(samples, spare)
        assert num_dropped == draw.count(False)
        again = collate(samples if any(draw) else spare)
        assert repr(batch) == repr(again)


class Half(Dataset[Any]):
    """Every second sample cannot be read."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        return None if index % 2 == 0 else torch.tensor([float(index)])


class HalfStream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return (Half()[index] for index in range(16))


def left(samples: list[Any]) -> torch.Tensor:
    return torch.stack([sample for sample in samples if sample is not None])


@pytest.mark.parametrize("dataset", [Half(), HalfStream()], ids=["map", "stream"])
@pytest.mark.parametrize("num_loaders", [0, 1])
@pytest.mark.parametrize(
    "options", [{}, {"deterministic": True, "shards": 4}, {"max_local_batch": 1}, {"loss_reduction": "sum"}]
)
def test_a_step_in_parts_of_which_some_are_empty_is_the_step_of_the_whole(
    dataset: Any, num_loaders: int, options: dict[str, Any]
) -> None:
    plain = nn.Linear(1, 1).double()
    model = nn.Linear(1, 1).double()
    model.load_state_dict(plain.state_dict())
    is_sum = "loss_reduction" in options
    for start in range(0, 16, 4):
        x = torch.tensor([[start + 1.0], [start + 3.0]], dtype=torch.float64)
        loss = plain(x).square().sum() if is_sum else plain(x).square().mean()
        plain.zero_grad()
        loss.backward()
        optim.SGD(plain.parameters(), 1e-4).step()
    optimizer = optim.SGD(model.parameters(), 1e-4)
    loader = DataLoader(dataset, 4, collate_fn=left, num_workers=num_loaders)
    run = train.elastic(
        model, optimizer, loader, epochs=1, **({"max_local_batch": 1} if is_sum else {}) | options
    )
    for x in run.batches():
        optimizer.zero_grad()
        loss = model(x.double()).square().sum() if is_sum else model(x.double()).square().mean()
        run.backward(loss)
        run.step()
    assert run.steps == 4
    assert torch.allclose(model.weight, plain.weight, rtol=1e-12)
    assert torch.allclose(model.bias, plain.bias, rtol=1e-12)


class Few(Half):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices if index % 2]


def test_a_dataset_that_gives_fewer_samples_than_it_is_asked_for_is_refused() -> None:
    model = nn.Linear(1, 1)
    run = train.elastic(model, optim.SGD(model.parameters(), 1e-4), DataLoader(Few(), 4), epochs=1)
    with pytest.raises(train.LoaderError, match=r"gives 0 samples for 1,.*have it give None"):
        next(run.batches())
