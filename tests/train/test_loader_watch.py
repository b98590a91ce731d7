"""A loader that a script makes in place of that of elastic is an error, and others are not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from swell import train
from swell.train.collective.gradients import LoopError
from swell.train.runtime.run import Run

Samples = Dataset[tuple[torch.Tensor, ...]]
Loader = DataLoader[tuple[torch.Tensor, ...]]
SMALL, LARGE = (TensorDataset(torch.ones(num, 2)) for num in (12, 24))


def loader_of(samples: Samples = SMALL, size: int = 6) -> Loader:
    return DataLoader(samples, batch_size=size)


def begun(loader: Loader) -> tuple[Run, nn.Module]:
    model = nn.Linear(2, 1)
    return train.elastic(model, torch.optim.SGD(model.parameters(), 0.1), loader, epochs=3), model


def go_through(run: Run, model: nn.Module, batches: Iterator[tuple[torch.Tensor]]) -> None:
    for (batch,) in batches:
        loss = model(batch).square().mean()
        loss.backward()
        run.step(loss)


def test_a_local_that_holds_another_loader_is_told() -> None:
    loader = loader_of()
    run, model = begun(loader)
    with pytest.raises(LoopError, match="`loader` holds another DataLoader"):
        for epoch in run.epochs():
            if epoch == 1:
                loader = loader_of(LARGE)
            for (batch,) in run.batches():
                loss = model(batch).square().mean()
                loss.backward()
                run.step(loss)
    assert run.steps == 2


def test_loaders_of_the_same_samples_and_of_others_beside_it_are_none() -> None:
    loaders = {"train": loader_of(), "valid": loader_of(LARGE)}
    loader = loaders["train"]
    run, model = begun(loader)
    for _ in run.epochs():
        loader = loader_of()  # as good as the first
        for phase in ("train", "valid"):
            data = loaders[phase]
            if phase == "train":
                go_through(run, model, run.batches())
            else:
                assert len([*data]) == 4
                test_loader = loader_of(LARGE)
                assert len(test_loader) == 4
    assert run.steps == 6 and len(loader) == 2
