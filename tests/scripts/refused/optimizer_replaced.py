"""The optimizer is made again in mid-run, to forget its moments."""

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
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(a), b)
        loss.backward()
        run.step(loss)  # refused: run.step(loss) steps the one that elastic() got
