"""Prints what the environment says of its group, whenever that has changed."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

NAMES = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
)


def told() -> str:
    return " ".join(os.environ.get(name, "-") for name in NAMES)


print(told())
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.ones(60, 1)), batch_size=6)
run = train.elastic(model, optimizer, loader, epochs=10)
last = ""
for _ in run.epochs():
    for (x,) in run.batches():
        if last != told():
            last = told()
            print(last)
        optimizer.zero_grad()
        loss = model(x).mean()
        run.backward(loss)
        run.step()
