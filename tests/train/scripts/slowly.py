"""Learns from a stream that takes its time for each sample, and notes how much of it was read when.

Arguments: a folder; seconds a sample. Prints how much had been read when `elastic` returned.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

from swell import train

folder, sample_s = Path(sys.argv[1]), float(sys.argv[2])


def counter(pid: int) -> Path:
    return folder / f"read-{pid}"


class Slow(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        with counter(os.getppid()).open("wb", buffering=0) as file:  # this is the loader's process
            for number in range(10**6):
                time.sleep(sample_s)
                os.pwrite(file.fileno(), b"%d" % (number + 1), 0)
                yield torch.tensor([float(number % 7)])


model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
run = train.elastic(model, optimizer, DataLoader(Slow(), batch_size=4, num_workers=1), steps=10**6)
read = counter(os.getpid())
print(run.steps, int(read.read_text()) if read.exists() else 0, flush=True)
for _ in run.epochs():
    for x in run.batches():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        run.backward(loss)
        run.step()
