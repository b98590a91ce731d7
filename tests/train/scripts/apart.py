"""Learns from a stream that is longer for one worker than for the other: it looks at who reads it."""

import os
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from swell import train


class Apart(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        length = 12 - 2 * int(os.environ["SWELL_WORKER"])
        return iter(torch.ones(length, 1))


model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
run = train.elastic(model, optimizer, DataLoader(Apart(), batch_size=4))
for _ in run.epochs():
    for x in run.batches():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        run.backward(loss)
        run.step()
