"""A script for torchrun that forms its own group and wraps its model: python own_group.py plain|wrapped."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from swell import train

raw_model: nn.Module = nn.Linear(1, 1)
model = raw_model
if "RANK" in os.environ:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(raw_model)
optimizer = torch.optim.SGD(raw_model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.ones(12, 1)), batch_size=4)
run = train.elastic(model if sys.argv[1] == "wrapped" else raw_model, optimizer, loader, epochs=2)
for _ in run.epochs():
    for (x,) in run.batches():
        optimizer.zero_grad()
        loss = raw_model(x).square().mean()
        run.backward(loss)
        run.step()
if run.is_leader:
    print(f"{run.steps} steps on {run.num_workers} workers")
