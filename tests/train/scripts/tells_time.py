"""Prints when each of its steps begins, by the clock of the machine's lease."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.wire.lease_end import HostClock

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(24, 3)), batch_size=6)
run = train.elastic(model, optimizer, loader)
clock = HostClock()
for _ in run.epochs():
    for (x,) in run.batches():
        print(clock.now_s(), flush=True)
        optimizer.zero_grad()
        loss = model(x).square().mean()
        run.backward(loss)
        run.step()
