"""A loop in `float16` with a GradScaler, and gradients that are clipped."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.randn(2000, 16)
y = (x.sum(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler(device)
run = train.elastic(model, optimizer, loader, epochs=10)
for epoch in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16):
            loss = functional.cross_entropy(model(a), b)
        mean = run.backward(loss, scaler=scaler)
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        run.step()
    if run.is_leader:
        print(f"epoch {epoch}: loss {float(mean):.3f}, scale {scaler.get_scale():g}")
