"""A loss weight that grows with the script's own counter of steps."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
num_seen = 0
for _ in run.epochs():
    for a, b in run.batches():
        num_seen += 1
        beta = min(1.0, num_seen / 50)
        out = model(a)
        loss = nn.functional.cross_entropy(out, b) + beta * out.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        run.step(loss)
