"""A stream of 24 samples that says another number: the argument."""

import sys
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from swell import train


class Misjudged(IterableDataset[torch.Tensor]):
    def __len__(self) -> int:
        return int(sys.argv[1])

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (torch.tensor([float(number)]) for number in range(24))


model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
run = train.elastic(model, optimizer, DataLoader(Misjudged(), batch_size=6))
for _ in run.epochs():
    for x in run.batches():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        run.step(loss)
