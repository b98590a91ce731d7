"""A script as people write it for torchrun: data parallel by gloo, and it knows nothing of Swell."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 20, 8


def main() -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs = torch.randn(BATCH * size, 16)
    labels = inputs.sum(1, keepdim=True)
    own = slice(BATCH * rank, BATCH * (rank + 1))
    for _ in range(STEPS):
        loss = nn.functional.mse_loss(model(inputs[own]), labels[own])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weight = sum(float(parameter.detach().double().sum()) for parameter in model.parameters())
    weights = [torch.zeros(1, dtype=torch.float64) for _ in range(size)]
    dist.all_gather(weights, torch.tensor([weight], dtype=torch.float64))
    assert len({float(one) for one in weights}) == 1, "the processes have become different"
    line = f"rank {rank} of {size} on {os.environ['SWELL_DEVICES']}: {weight:.6f}\n"
    sys.stdout.write(line)  # `print` writes the end of a line by itself: processes share the pipe
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # One in ten exits aborts else: a thread of gloo drops its last tensor while Python is being taken down.
    sys.stdout.flush()
    os._exit(0)
