"""A layer is added in mid-run, with a parameter group of its own."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    if epoch == 2:
        model.append(nn.Linear(3, 3))
        optimizer.add_param_group({"params": model[-1].parameters()})  # refused: before elastic()
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(a), b)
        loss.backward()
        run.step(loss)
