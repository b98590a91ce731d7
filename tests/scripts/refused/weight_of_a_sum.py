"""A sum is declared, and a weight is given."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16, loss_reduction="sum")
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b, reduction="sum")
        loss.backward()
        run.step(loss, weight=len(a))  # refused: a sum has no weight
