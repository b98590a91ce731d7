"""A batch norm, and a last batch of four samples in each epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

torch.manual_seed(0)
x = torch.randn(16, 3)
model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run = train.elastic(model, optimizer, DataLoader(TensorDataset(x), batch_size=12, shuffle=True))
for _ in run.epochs():
    for (a,) in run.batches():
        optimizer.zero_grad()
        loss = model(a).square().mean()
        run.backward(loss)
        run.step()
