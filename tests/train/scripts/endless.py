"""Trains a small model until its job's end. Argument: what of it is divided, `shard` or `mirrors`."""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

torch.manual_seed(3)
x = torch.randn(2048, 16)
y = x.sum(1, keepdim=True).tanh()
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
run = train.elastic(model, optimizer, loader, shard="optimizer", mirrors="mirrors" in sys.argv)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = functional.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
