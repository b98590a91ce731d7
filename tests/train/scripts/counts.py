"""Reports a value from each worker in each step, a loss of its own, and a value from rank 1 alone."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(24, 3)), batch_size=6)
run = train.elastic(model, optimizer, loader)
for _ in run.epochs():
    for (x,) in run.batches():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        run.backward(loss)
        run.step()
        time.sleep(0.02)  # so that its agent has time for a change
        run.report(all=len(x), reduce="sum")
        run.report(loss=1e9)
        if run.rank == 1 and run.num_workers == 3:
            run.report(odd=1.0, reduce="mean")
