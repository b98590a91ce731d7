"""Batches with too few positives are skipped by `continue`."""

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
    for a, b in run.batches():  # refused: a batch went by without run.step(loss)
        if (b == 0).sum() < 7:
            continue
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        loss.backward()
        run.step(loss)
