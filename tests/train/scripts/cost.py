"""Seconds a step of one worker's loop, by the clock and of its CPU, the best of several blocks of steps.

Arguments: a file for the result; a model, `cnn` or `mlp`; and whose loop: `torch` (a plain loop, under
DistributedDataParallel if there are several), `default`, or a number of shards.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from swell import train

NUM_BLOCKS, BLOCK_S = 3, 0.5

path, kind, loop = sys.argv[1:]
num_workers = int(os.environ.get("WORLD_SIZE", "1"))
torch.manual_seed(0)
if kind == "cnn":
    batch, x = 128, torch.randn(1280, 3, 32, 32)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2048, 10),
    )
else:
    batch, x = 256, torch.randn(2560, 1000)
    model = nn.Sequential(
        nn.Linear(1000, 3500), nn.ReLU(), nn.Linear(3500, 6000), nn.ReLU(), nn.Linear(6000, 10)
    )
data = TensorDataset(x, torch.randint(10, (len(x),)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
criterion = nn.CrossEntropyLoss()


def plain_steps() -> Iterator[None]:
    net: nn.Module = model
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] | None = None
    if num_workers > 1:
        dist.init_process_group("gloo")
        net, sampler = DistributedDataParallel(model), DistributedSampler(data)
    loader = DataLoader(data, batch // num_workers, shuffle=sampler is None, sampler=sampler)
    while True:
        for a, b in loader:
            optimizer.zero_grad()
            criterion(net(a), b).backward()
            optimizer.step()
            yield


def elastic_steps() -> Iterator[None]:
    shards: dict[str, Any] = {} if loop == "default" else {"deterministic": True, "shards": int(loop)}
    run = train.elastic(model, optimizer, DataLoader(data, batch, shuffle=True), epochs=10**6, **shards)
    for _ in run.epochs():
        for a, b in run.batches():
            optimizer.zero_grad()
            loss = criterion(model(a), b)
            run.backward(loss)
            run.step()
            if run.has_stepped:
                yield


steps = plain_steps() if loop == "torch" else elastic_steps()
for _ in range(3):
    next(steps)
begun_s = time.perf_counter()
next(steps)
pace_s = torch.tensor(time.perf_counter() - begun_s)
if num_workers > 1:
    dist.all_reduce(pace_s, dist.ReduceOp.MAX)  # all take the same number of steps
num_steps = max(1, int(BLOCK_S / float(pace_s)))
wall_s, cpu_s = [], []
for _ in range(NUM_BLOCKS):
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    for _ in range(num_steps):
        next(steps)
    wall_s.append((time.perf_counter() - begun_s) / num_steps)
    cpu_s.append((time.process_time() - begun_cpu_s) / num_steps)
if int(os.environ.get("RANK", "0")) == 0:
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    with open(path, "w") as file:
        json.dump({"wall_s": min(wall_s), "cpu_s": min(cpu_s), "parameters": num_parameters}, file)
os._exit(0)
