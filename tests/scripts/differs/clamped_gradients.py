"""Gradients are clamped by hand between the backward pass and the step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        loss.backward()
        for p in model.parameters():
            p.grad.clamp_(-0.01, 0.01)
        run.step(loss)  # differs: batch-dependent
