"""A tiny real training script: a linear model learns a plane. `nap_s` makes each step last."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from swell import train

torch.manual_seed(0)
inputs = torch.randn(512, 8)
data = TensorDataset(inputs, inputs @ torch.arange(8.0).unsqueeze(1))
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
run = train.elastic(model, optimizer, DataLoader(data, batch_size=64, shuffle=True), epochs=2)
for _ in run.epochs():
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        run.backward(loss)
        time.sleep(float(sys.argv[1]))
        run.step()
if run.is_leader:
    print("finished", flush=True)
