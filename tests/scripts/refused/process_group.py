"""The script makes a process group of its own."""

import torch
from torch import distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)  # refused: init_process_group
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        loss.backward()
        run.step(loss)
