"""A script for torchrun: a group and DDP if it was launched so, a DistributedSampler, `.module`."""

import os
import sys

import torch.distributed as dist
from tests.scripts.common import DataLoader, DistributedSampler, TensorDataset, nn, torch, train
from torch.nn.parallel import DistributedDataParallel

ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    dist.init_process_group("gloo")
rank = int(os.environ.get("RANK", 0))
world_size = int(os.environ.get("WORLD_SIZE", 1))
torch.manual_seed(1337 + rank)

x = torch.randn(60, 8)
y = x.sin().sum(1, keepdim=True)
data = TensorDataset(x, y)
sampler = DistributedSampler(data, num_replicas=world_size, rank=rank, shuffle=True, seed=3)
loader = DataLoader(data, batch_size=12 // world_size, sampler=sampler)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
if ddp:
    model = DistributedDataParallel(model)
raw_model = model.module if ddp else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    sampler.set_epoch(epoch)
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        run.backward(loss)
        run.step()
    if run.rank == 0:
        raw_model.eval()
        with torch.no_grad():
            error = nn.functional.mse_loss(raw_model(x), y).item()
        raw_model.train()
        run.report(error=error)

if run.rank == 0:
    torch.save(raw_model.state_dict(), sys.argv[1])
if ddp:
    dist.destroy_process_group()
