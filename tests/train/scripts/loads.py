"""Loads in two processes that would live for ever, if it were for the loader's settings.

Arguments: `map` or `stream`.
"""

import sys
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from swell import train


class Numbers(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.0005)
        return torch.tensor([index / 64])


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return (Numbers()[index] for index in range(64))


dataset = Stream() if sys.argv[1] == "stream" else Numbers()
loader = DataLoader(dataset, batch_size=8, num_workers=2, persistent_workers=True, pin_memory=True)
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run = train.elastic(model, optimizer, loader)
for _ in run.epochs():
    for x in run.batches():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        run.backward(loss)
        run.step()
print("out of the loop", flush=True)
time.sleep(1000)  # the last lines of the script: no loader is needed for them
