"""The job of `evaluating.py` with Accelerate: seconds of evaluation, and epochs."""

import sys
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EVALUATION_S, EPOCHS = float(sys.argv[1]), int(sys.argv[2])
accelerator = Accelerator(cpu=not torch.cuda.is_available())
torch.manual_seed(0)
x = torch.randn(512, 8)
y = (x.sum(1) > 0).long()
model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for _ in accelerator.epochs(EPOCHS):
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        accelerator.backward(loss)
        optimizer.step()
    time.sleep(EVALUATION_S)
