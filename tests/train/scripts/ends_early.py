"""Ends before its job, in the way that its argument names."""

import sys
from collections.abc import Iterable

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

how = sys.argv[1]
torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(24, 3)), batch_size=6)
run = train.elastic(model, optimizer, loader)


def train_on(batch: torch.Tensor) -> None:
    loss = model(batch).pow(2).mean()
    optimizer.zero_grad()
    run.backward(loss)
    run.step()


def leave() -> None:
    sys.exit(0)


def flat() -> None:
    for (batch,) in run.batches():
        train_on(batch)


def over_range() -> None:
    for _ in range(2):
        flat()


def nested(epochs: Iterable[int]) -> int:
    for _ in epochs:
        for (batch,) in run.batches():
            train_on(batch)
            if how == "exits" and run.steps == 6:
                leave()
        if run.steps >= 8 and how.startswith("breaks"):
            break
    return 0


def alone() -> None:
    for _ in run.epochs():
        flat()
        if run.rank == 1:
            break


if how == "flat":
    flat()
elif how == "alone":
    alone()
elif how == "range":
    over_range()
elif how == "breaks-and-exits":
    sys.exit(nested(epoch for epoch in run.epochs()))
elif how == "breaks-out-of-kept":
    epochs = run.epochs()
    nested(epochs)
elif how == "ends-and-exits":
    sys.exit(nested(run.epochs()))
else:
    nested(run.epochs())
