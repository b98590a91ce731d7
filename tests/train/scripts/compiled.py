"""Learns with a compiled model.

Arguments: file for the result, epochs, a word: `eager`, `static` or `dynamic` (compiled for any batch), and
`ahead` (run once on a batch before `elastic` is called).
"""

import json
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from swell import train

result, epochs, kind, *words = sys.argv[1:]
torch.manual_seed(7)
x = torch.randn(96, 64)
y = torch.sin(x.sum(1, keepdim=True))
layers = [layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU())]
model: nn.Module = nn.Sequential(*layers, nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
if kind != "eager":
    compiled = torch.compile(model, dynamic=True if kind == "dynamic" else None)
    assert isinstance(compiled, nn.Module)
    model = compiled
if "ahead" in words:
    functional.mse_loss(model(x[:8]), y[:8]).backward()
    optimizer.zero_grad()
loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=int(epochs))
losses = {}
for _ in run.epochs():
    for a, b in run.batches():
        step = run.steps
        optimizer.zero_grad()
        loss = functional.mse_loss(model(a), b)
        mean = run.backward(loss)
        run.step()
        if run.has_stepped:
            losses[step] = float(mean)

if run.is_leader:
    with open(result, "w") as file:
        json.dump({"steps": run.steps, "losses": losses, "names": list(model.state_dict())}, file)
