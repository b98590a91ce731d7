"""Class weights in the criterion: a mean over weights."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 4.0, 0.3]))
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = criterion(model(a), b)
        loss.backward()
        run.step(loss)  # differs: weighted-mean
