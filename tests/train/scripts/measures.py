"""Measures between two epochs, and goes on when a file is there. Argument: that file."""

import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import swell
from swell import train

gate = Path(sys.argv[1])
torch.manual_seed(7)
x = torch.randn(48, 5)
model = nn.Linear(5, 1)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=6)
swell.report(early=1.0)
run = train.elastic(model, torch.optim.SGD(model.parameters(), lr=0.01), loader, epochs=2)
for epoch in run.epochs():
    for a, b in run.batches():
        model.zero_grad()
        loss = functional.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
    run.report(accuracy=0.5 + epoch / 10)
    swell.report(perplexity=torch.tensor(float("inf")))
    while not gate.exists():
        time.sleep(0.01)
